// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard_test holds the operator and the agent against what they promise about a database's data: on a real API
// server, with the agent's own program and a server that keeps files, in pods that the emulator runs. Whatever happens to
// claims, volumes, images, pods and the operator, no server starts on data that is not its own, and none on an empty volume
// where data is expected.
package guard_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is how long anything may take that has no promise of its own; the machine may be busy.
const patience = 2 * time.Minute

var (
	suite = &stage.Suite{
		Patience: func() time.Duration { return patience },
		Lists: []client.ObjectList{
			&dsv1.DataServiceList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{},
			&corev1.ConfigMapList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{},
		},
	}
	agent string // path of the agent's program

	full = os.Getenv("GUARD_TESTS") == "full"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "mysqld":
		os.Exit(exit(mysqld(os.Args[1:])))
	case "service":
		os.Exit(exit(serve(os.Getenv("POD_IP") + ":8080")))
	}
	os.Exit(suite.MainWithAgent(m, cluster.Options{Name: "guard"}, &agent))
}

func exit(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// mysqld is a database server as far as the guard can tell: it has a version, and fills an empty data folder.
//
//	mysqld --no-defaults --version
//	mysqld FOLDER
func mysqld(args []string) error {
	version := os.Getenv("SERVER_VERSION")
	if args[len(args)-1] == "--version" {
		fmt.Printf("/usr/sbin/mysqld  Ver %s for Linux on x86_64 (MySQL Community Server (GPL))\n", version)
		return nil
	}
	if err := alone(os.Getenv("SERVERS")); err != nil {
		return err
	}
	system := filepath.Join(args[0], "mysql")
	if _, err := os.Stat(system); os.IsNotExist(err) {
		if err := os.MkdirAll(system, 0o755); err != nil {
			return err
		}
		file := filepath.Join(system, "user.frm")
		if !strings.HasPrefix(version, "5.") {
			file = filepath.Join(args[0], "mysql.ibd")
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
	}
	starts, err := os.OpenFile(filepath.Join(args[0], "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(starts, version); err != nil {
		return err
	}
	return serve(os.Getenv("POD_IP") + ":3306")
}

// alone leaves a file in the folder when another server runs already. The lock ends with the process, however that ends.
func alone(folder string) error {
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return os.WriteFile(filepath.Join(folder, "two"), nil, 0o600)
	}
	return err // the lock is held until the process ends
}

// serve accepts connections until it is told to end.
func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
		}
	}()
	<-ended
	return listener.Close()
}
