// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/process"
)

// A mongodb of kind ThirdParty is ready while a server with MongoDB's protocol answers the probe pod. The pod first
// runs the chart's default check, a TCP connection. When the spec has checkCMD and secretRef, the pod runs that command with the connection
// string of the Secret.
func TestMongoDBElsewhere(t *testing.T) {
	harness.Long(t)
	e := alone(t)
	program, err := process.Program("TOOLS", "", "ferretdb")
	e.Must(err)
	why := filepath.Join(t.TempDir(), "kubectl-dataservice")
	e.Must(cluster.BuildPlugin(e.Ctx, why))
	server := e.ferretDB(program)
	pods, err := emulator.Start(e.Ctx, config, emulator.Options{
		Namespace: e.Namespace,
		Images:    map[string]emulator.Image{"docker.io/curlimages/curl": {Executables: map[string]string{"nc": program, "mongo-ping": program}}},
	})
	e.Must(err)
	t.Cleanup(func() { e.Must(pods.Stop()) })
	e.Start()

	url := "mongodb://" + server.address + "/orders"
	name := e.Create(e.NewPlatform(`{mongodb: {kind: ThirdParty, thirdParty: {url: "` + url + `"}}}`))
	e.Until("it is awaited", func() error { return e.mentions(name, mongodb, "the third party") })
	server.start()
	e.Ready(name)
	server.process.Kill()
	e.whyNames(why, name, "mongodb: the third party "+url+" does not answer", "look at Pod mongodb-external-probe-")
	server.start()
	e.Ready(name)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "account"}, StringData: map[string]string{"connectionString.standard": url}}
	e.Must(api.Create(e.Ctx, secret))
	e.ChangeReady(name, fields{mongodb: fields{"thirdParty": fields{"secretRef": fields{"name": secret.Name}, "checkCMD": `mongo-ping "$SPRING_DATA_MONGODB_URI"`}}})
	server.process.Kill()
	e.whyNames(why, name, "mongodb: the third party "+url+" does not answer", "look at Pod mongodb-external-probe-")
	server.start()
	e.Ready(name)
}

// ferretDB is a server of MongoDB's protocol.
type ferretDB struct {
	address string
	start   func()
	process *process.Process
}

// ferretDB returns a server that does not run yet.
func (e *env) ferretDB(program string) *ferretDB {
	e.Helper()
	dir := e.TempDir()
	guard, err := process.NewGuard(filepath.Join(dir, "process"))
	e.Must(err)
	e.Cleanup(func() { e.Must(guard.End()) })
	network, err := process.ClaimNetwork()
	e.Must(err)
	e.Cleanup(func() { e.Must(network.Release()) })
	log, err := os.Create(filepath.Join(dir, "log"))
	e.Must(err)
	e.Cleanup(func() { e.Must(log.Close()) })
	s := &ferretDB{address: net.JoinHostPort(network.Next(), "27017")}
	s.start = func() {
		e.Helper()
		var err error
		s.process, err = guard.Start([]string{program, s.address, dir}, os.Environ(), "", log)
		e.Must(err)
	}
	return s
}

// whyNames waits until the first two lines of `kubectl dataservice why` name all words. plugin is the path of the plugin's binary.
func (e *env) whyNames(plugin, name string, words ...string) {
	e.Helper()
	text := ""
	e.Until("the cause is named", func() error {
		run := exec.CommandContext(e.Ctx, plugin, "why", name, "--namespace", e.Namespace)
		run.Env = append(os.Environ(), "KUBECONFIG="+suite.Kubeconfig)
		out, _ := run.Output() // Output returns an error, because the exit code is 1
		lines := strings.SplitN(string(out), "\n", 3)
		text = strings.Join(lines[:min(2, len(lines))], "\n")
		return harness.Mentions(text, words...)
	})
	e.Log(text)
}
