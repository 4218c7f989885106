// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard_test tests the promises of the operator and the agent about a database's data: on a real API server, with the real agent
// and a server that stores files, in pods of the emulator. The tests delete, swap and change claims, volumes, images, pods and the
// operator. No server may start on foreign data, nor on an empty volume where data is expected.
package guard_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// faulty makes an operator send its requests through p, which can inject faults.
func faulty(p *fault.Process) func(*rest.Config, *manager.Options) {
	return func(config *rest.Config, _ *manager.Options) { config.Wrap(p.Wrap) }
}

// The operator crashes at every write of a switch and of the switch back: before the request is sent, after the write,
// and after the write with its answer lost. The next operator completes the switch. Without GUARD_TESTS=full, the test
// causes only every thirteenth of these crashes.
func TestASwitchThroughCrashes(t *testing.T) {
	harness.Long(t)
	e := start(t)
	e.Start(guarded("v1")).Stop()
	op := e.Start(guarded("v1"))
	e.comesUp(scaled("StatefulSet"))
	e.prepare()
	op.Stop()
	actions := []fault.Action{fault.CrashBefore, fault.CrashAfter, fault.CrashLost}
	switches, to := 0, restored
	next, last := 13, 1
	if full {
		next, last = 1, len(actions)
	}
	for at, quiet := 0, 0; quiet < last; at += next {
		p := fault.New()
		do := actions[at%len(actions)]
		skip := at / len(actions)
		begin := e.Start(guarded("v1"))
		e.Change(platform, fields{"mysql": fields{"name": to}})
		accept := since(e.switchMessage(dsv1.ReasonLossNotAccepted))
		begin.Stop()
		e.Change(platform, fields{"mysql": fields{"acceptLoss": accept}})
		p.Rule(&fault.Rule{When: func(r harness.Request) bool { return r.Writes() && r.Resource != "leases" && r.Resource != "events" }, Skip: skip, Times: 1, Do: do})
		op := e.Start(guarded("v1"), faulty(p))
		e.Until("the switch ends, or the operator crashes", func() error {
			if stage.IsDead(p) {
				return nil
			}
			return e.IsReady(platform, e.DataService(platform).Generation)
		})
		if quiet++; stage.IsDead(p) {
			op.Stop()
			op = e.Start(guarded("v1"))
			quiet = 0
		}
		e.isReady()
		equal(t, "the database in use", e.pod().Name, to+"-0")
		op.Stop()
		if switches++; e.isOrderly(0, true) != switches {
			t.Fatalf("after %d switches: the %d. write, action %d", switches, skip+1, at%len(actions))
		}
		if to = database; e.pod().Name == database+"-0" {
			to = restored
		}
	}
	t.Logf("%d switches, a crash in %d of them", switches, switches-last)
}

// A new operator first reads lists from before the switch. It creates the old database's workload again, but no server starts on the old
// database's volume. After the operator has read the current lists, the new database is in use again.
func TestASwitchAndAStaleCache(t *testing.T) {
	harness.Long(t)
	e, op := guardedBy(t, scaled("StatefulSet"))
	e.prepare()
	list := &corev1.ConfigMapList{}
	e.Must(suite.API.List(e.Ctx, list))
	e.switchTo(restored)
	op.Stop()
	stale := []string{"dataservices", "secrets", "configmaps", "persistentvolumeclaims", "services", "deployments", "statefulsets", "horizontalpodautoscalers", "pods"}
	p := fault.New()
	p.Hold(stale...)
	p.Rule(&fault.Rule{When: func(r harness.Request) bool {
		return slices.Contains(stale, r.Resource) && (r.Verb == "list" || r.Verb == "watch")
	}, Do: fault.Past(list.ResourceVersion)})
	mark := e.Mark()
	e.Start(guarded("v1"), faulty(p))
	e.Until("the operator has read the old lists", func() error {
		for _, r := range stale {
			if p.Watching(r) == 0 {
				return fmt.Errorf("%s are not watched yet", r)
			}
		}
		return nil
	})
	e.never("a server runs on the replaced volume", func() bool { return len(e.starts(database)) > 1 })
	p.Clear()
	p.Release()
	e.isReady()
	equal(t, "the database in use", e.pod().Name, restored+"-0")
	equal(t, "starts of the replaced database", len(e.starts(database)), 1)
	e.isOrderly(mark, false)
}

// An operator stops nothing if its cache still shows a consent that was withdrawn.
func TestAWithdrawnConsent(t *testing.T) {
	harness.Long(t)
	e := start(t)
	p := fault.New()
	e.Start(guarded("v1"), faulty(p))
	e.comesUp(scaled("StatefulSet"))
	e.Change(platform, fields{"mysql": fields{"name": restored, "acceptLoss": loss}})
	e.switchMessage(dsv1.ReasonNotPrepared)
	p.Hold("dataservices")
	e.Change(platform, fields{"mysql": fields{"acceptLoss": "nothing"}})
	mark := e.Mark()
	e.prepare()
	e.never("something was stopped", func() bool {
		return slices.ContainsFunc(e.Since(mark), func(c harness.Change) bool { return c.Event == watch.Deleted })
	})
	p.Release()
	e.switchMessage(dsv1.ReasonLossNotAccepted)
	e.ChangeReady(platform, fields{"mysql": fields{"acceptLoss": loss}})
	equal(t, "the database in use", e.pod().Name, restored+"-0")
}

// patience is the time limit for everything without a promised time: the machine may be busy.
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

// mysqld emulates the properties of a database server that the guard uses: it has a version, and fills an empty data folder.
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

// alone locks the folder until the process ends, for any reason. If another server has the lock, alone writes a file that reports two servers
// at once.
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

// serve accepts connections until SIGTERM.
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
