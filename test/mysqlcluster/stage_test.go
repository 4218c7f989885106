// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/process"
	"d3os.com/d3os-operator/test/harness/stage"
)

// scene is a namespace whose pods run real programs.
type scene struct {
	*stage.Stage
	*emulator.Emulator

	tools string // folder of MySQL's programs
	run   string // folder of the pods' sockets
}

const (
	name  = "my-database"
	image = "docker.io/library/mysql:9.7.4"
)

// settings are the options of small servers.
const settings = `image: ` + image + `
databases: [ledger]
config: {innodb_buffer_pool_size: 16M, innodb_redo_log_capacity: 8M, performance_schema_max_table_instances: "200", max_connections: "60"}
`

// newScene returns a scene with an emulator of pods.
func newScene(t *testing.T, settings ...func(*emulator.Options)) *scene {
	t.Helper()
	t.Parallel()
	server, err := process.Program("MYSQL", "mysql", "mysqld")
	s := &scene{Stage: suite.New(t), tools: filepath.Dir(server)}
	s.Must(err)
	run, err := os.MkdirTemp("", "my-") // the path of a socket must be short
	s.Must(err)
	t.Cleanup(func() { s.Must(os.RemoveAll(run)) })
	s.run = run
	program := emulator.MySQL(server, run)
	program.Entrypoint = []string{"/entrypoint", "/var/lib/mysql", "/var/run/mysqld/mysqld.sock", "/etc/mysql/conf.d", "--listen=*"} // for a database of one server
	program.Executables["/entrypoint"] = filepath.Join(cluster.Root(), "test/mysqlcluster/testdata/entrypoint.sh")
	program.Executables["mysql"], program.Executables["mysqldump"] = filepath.Join(s.tools, "mysql"), filepath.Join(s.tools, "mysqldump")
	options := emulator.Options{
		Namespace: s.Namespace, Nodes: 3, Names: true,
		Images: map[string]emulator.Image{
			"docker.io/library/mysql": program,
			"work":                    {}, // an additional service
			"example/agent":           {Executables: map[string]string{"/agent": agent}},
		},
	}
	for _, set := range settings {
		set(&options)
	}
	s.Emulator, err = emulator.Start(s.Ctx, suite.Config, options)
	s.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			s.describe()
		}
		s.Must(s.Stop())
	})
	return s
}

// start starts an operator that has the agent's image.
func (s *scene) start(settings ...func(*rest.Config, *manager.Options)) *stage.Operator {
	s.Helper()
	return s.Start(append([]func(*rest.Config, *manager.Options){func(_ *rest.Config, o *manager.Options) {
		o.Images = map[string]string{"agent": "example/agent:v1"}
	}}, settings...)...)
}

// describe logs the state after a failed test.
func (s *scene) describe() {
	for _, mc := range harness.Every[*mysqlv1.MySQLCluster](s.Journal) {
		text, _ := yaml.Marshal(mc.Status)
		s.Logf("%s:\n%s", mc.Name, text)
	}
	s.LastWords(s.Log)
	s.story(0)
}

// story logs the messages of the status since a mark of the journal, in order.
func (s *scene) story(from int) {
	s.Story(from, func(o client.Object) string {
		mc, ok := o.(*mysqlv1.MySQLCluster)
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s %s %s %s: %s", mc.Status.Phase, mc.Status.Ready, mc.Status.State, mc.Status.Reason, mc.Status.Message)
	})
}

func named() *mysqlv1.MySQLCluster {
	return &mysqlv1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// create creates a MySQLCluster of small servers with a spec in YAML.
func (s *scene) create(spec string) {
	s.Helper()
	mc := named()
	s.CreateWith(mc, &mc.Spec, settings+spec)
}

// change patches the spec (JSON merge patch in YAML).
func (s *scene) change(spec string) {
	s.Helper()
	s.Patch(named(), spec)
}

// get returns the present MySQLCluster.
func (s *scene) get() *mysqlv1.MySQLCluster {
	s.Helper()
	mc := named()
	s.Read(mc)
	return mc
}

// isReady returns the reason why the database is not ready with a number of members, or nil. At most two members are voters.
func (s *scene) isReady(members int) error {
	mc := s.get()
	if mc.Status.ObservedGeneration != mc.Generation || !meta.IsStatusConditionTrue(mc.Status.Conditions, mysqlv1.ConditionReady) {
		return fmt.Errorf("generation %d of %d: %s, %s, %s: %s: %s", mc.Status.ObservedGeneration, mc.Generation, mc.Status.Phase, mc.Status.Ready, mc.Status.State,
			mc.Status.Reason, mc.Status.Message)
	}
	want := fmt.Sprintf("%d/%d %d", members, members, max(0, min(members-1, 2)))
	if is := fmt.Sprintf("%s %d", mc.Status.Ready, len(mc.Status.Voters)); is != want {
		return fmt.Errorf("ready members and voters are %s, want %s", is, want)
	}
	return nil
}

// ready waits until the database is ready, and returns the time that it took.
func (s *scene) ready(members int) time.Duration {
	s.Helper()
	began := time.Now()
	s.Until(fmt.Sprintf("ready with %d members", members), func() error { return s.isReady(members) })
	return time.Since(began)
}

func (s *scene) pod(ordinal int) *corev1.Pod {
	return harness.Lookup[*corev1.Pod](s.Journal, fmt.Sprintf("%s-%d", name, ordinal))
}

func claim(ordinal int) string { return fmt.Sprintf("data-%s-%d", name, ordinal) }

// primary returns the ordinal of the primary by the status.
func (s *scene) primary() int {
	s.Helper()
	var ordinal int
	_, err := fmt.Sscanf(strings.TrimPrefix(s.get().Status.Primary, name+"-"), "%d", &ordinal)
	s.Must(err)
	return ordinal
}

// route returns the address of the pod that the primary's Service selects, because the emulator has no Services.
func (s *scene) route() (string, error) {
	service := harness.Lookup[*corev1.Service](s.Journal, name)
	if service == nil {
		return "", errors.New("the Service does not exist")
	}
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		labels := map[string]string{"statefulset.kubernetes.io/pod-name": pod.Name}
		for key, value := range pod.Labels {
			labels[key] = value
		}
		matches := true
		for key, value := range service.Spec.Selector {
			matches = matches && labels[key] == value
		}
		if matches && pod.Status.PodIP != "" && stage.IsReady(pod) {
			return pod.Status.PodIP, nil
		}
	}
	return "", errors.New("the Service selects no pod")
}

// client returns the command of a client at an address.
func (s *scene) client(address string, args ...string) *exec.Cmd {
	secret := harness.Lookup[*corev1.Secret](s.Journal, name+"-credentials")
	if secret == nil {
		secret = &corev1.Secret{}
	}
	args = append([]string{
		"--no-defaults", "--host=" + address, "--port=3306", "--user=" + string(secret.Data["username"]), "--connect-timeout=2", "--batch", "--skip-column-names", "--unbuffered",
	}, args...)
	command := exec.CommandContext(s.Ctx, filepath.Join(s.tools, "mysql"), args...)
	command.Env = append(os.Environ(), "MYSQL_PWD="+string(secret.Data["password"]))
	return command
}

// ask runs SQL at an address and returns the result.
func (s *scene) ask(address, sql string) (string, error) {
	out, err := s.client(address, "--execute="+sql).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// agree waits until all members have the same rows, and returns these rows.
func (s *scene) agree(members int) []string {
	s.Helper()
	var rows []string
	s.Until("the members have the same rows", func() error {
		var all []string
		for ordinal := range members {
			text, err := s.ask(s.pod(ordinal).Status.PodIP, "SELECT n FROM ledger.t ORDER BY n")
			if err != nil {
				return err
			}
			all = append(all, text)
		}
		if len(slices.Compact(all)) > 1 {
			return errors.New("they differ")
		}
		rows = strings.Fields(all[0])
		return nil
	})
	return rows
}
