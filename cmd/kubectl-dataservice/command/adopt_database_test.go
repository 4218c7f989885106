// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/manager"
	testcluster "d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/process"
	"d3os.com/d3os-operator/test/harness/stage"
)

const agentImage = "example/agent:v1"

// serve replaces the program of a service: it listens at the address that the service's probe checks.
func serve(args []string) int {
	for _, arg := range args {
		if address, ok := strings.CutPrefix(arg, "--listen="); ok {
			listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
			for err == nil {
				var conn net.Conn
				if conn, err = listener.Accept(); err == nil {
					err = conn.Close()
				}
			}
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return exitError
}

// databaseEnv is a platform of the original operator with a real database and two services. The platform's objects were adopted.
type databaseEnv struct {
	*env

	pods  *emulator.Emulator
	tools string
	op    *stage.Operator
}

// withDatabase creates a databaseEnv for a test. The options are for the original server.
func withDatabase(t *testing.T, options ...string) *databaseEnv {
	e := &databaseEnv{env: newEnv(t, "edit")}
	e.mayWrite()
	e.emulate(options)
	nothing := fields{}
	for _, c := range []string{"uuc", "api-manager", "auth", "ds-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy", "web"} {
		nothing[c] = nil
	}
	e.Create(harness.Sample(nothing, fields{"mysql": fields{"image": "example/mysql:9.7", "serverVersion": "9.7", "config": fields{
		"innodb_buffer_pool_size": "16M", "innodb_redo_log_capacity": "8M", "performance_schema_max_table_instances": "200", "max_connections": "60"}}}))
	e.Until("the DataService is seen", func() error { return stage.Unless(e.DataService(name) != nil, "it is not") })
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "default"}}
	e.Try("pods without a token", func() error {
		return suite.API.Patch(e.Ctx, account, client.RawPatch(types.MergePatchType, []byte(`{"automountServiceAccountToken":false}`)))
	})
	for _, c := range harness.OriginalComponents {
		if slices.Contains([]string{"mysql-dataservice", "eureka", "es-adapter"}, c.Name) {
			for _, object := range c.Objects(e.DataService(name)) {
				e.Must(suite.API.Create(e.Ctx, object))
			}
		}
	}
	e.Until("the original server answers", func() error {
		_, err := e.ask("mysql-dataservice-0", "root", harness.OriginalRootPassword, "SELECT 1")
		return err
	})
	e.operate()
	e.says(exitYes, []string{"all objects are adopted"}, "adopt", name, "--apply", "--yes", "--original-stopped")
	return e
}

// operate starts an operator that knows the agent's image.
func (e *databaseEnv) operate() {
	e.Helper()
	e.op = e.Start(func(_ *rest.Config, o *manager.Options) { o.Images = map[string]string{"agent": agentImage} })
}

// emulate runs the pods as processes.
func (e *databaseEnv) emulate(options []string) {
	e.Helper()
	server, err := process.Program("MYSQL", "mysql", "mysqld")
	e.Must(err)
	e.tools = filepath.Dir(server)
	run, err := os.MkdirTemp("", "my-") // the path of a socket must be short
	e.Must(err)
	folder := e.TempDir()
	agent, service := filepath.Join(folder, "agent"), filepath.Join(folder, "service")
	e.Must(testcluster.BuildAgent(e.Ctx, agent))
	self, err := os.Executable()
	e.Must(err)
	e.Must(os.Symlink(self, service))
	here := func(path string) string { return filepath.Join(testcluster.Root(), path) }
	mysql := func(entrypoint string, arguments ...string) emulator.Image {
		image := emulator.MySQL(here("test/backup/testdata/mysqld.sh"), run)
		sockets := image.Rewrite
		image.Rewrite = func(pod *corev1.Pod, text string) string { return e.resolve(sockets(pod, text)) }
		image.Entrypoint = append([]string{"/entrypoint"}, arguments...)
		image.Executables["/entrypoint"] = here(entrypoint)
		for _, program := range []string{"mysql", "mysqldump"} {
			image.Executables[program] = filepath.Join(e.tools, program)
		}
		image.Env, image.Paths = map[string]string{"SERVER": server}, map[string]string{"SERVER_CONFIG": "/etc/mysql/conf.d/my.cnf"}
		return image
	}
	original := append([]string{"/var/run/mysqld/mysqld.sock", "--listen=*"}, options...)
	listener := func(port string) emulator.Image {
		return emulator.Image{Entrypoint: []string{"/service", "--listen=*:" + port}, Executables: map[string]string{"/service": service}, Rewrite: func(pod *corev1.Pod, text string) string {
			return strings.Replace(text, "--listen=*", "--listen="+pod.Status.PodIP, 1)
		}}
	}
	e.pods, err = emulator.Start(e.Ctx, suite.Config, emulator.Options{Namespace: e.Namespace, Images: map[string]emulator.Image{
		"registry.example/mysql-dataservice": mysql("cmd/kubectl-dataservice/command/testdata/original.sh", original...),
		"example/mysql":                      mysql("test/mysqlcluster/testdata/entrypoint.sh", "/var/lib/mysql", "/var/run/mysqld/mysqld.sock", "/etc/mysql/conf.d", "--listen=*"),
		"example/agent":                      {Executables: map[string]string{"/agent": agent}, Rewrite: func(_ *corev1.Pod, text string) string { return e.resolve(text) }},
		"docker.io/curlimages/curl":          {Executables: map[string]string{"/d3os-agent/agent": agent}, Rewrite: func(_ *corev1.Pod, text string) string { return e.resolve(text) }},
		"eureka":                             listener("8761"),
		"es-adapter":                         listener("9087"),
	}})
	e.Must(err)
	e.Cleanup(func() {
		if e.Failed() {
			e.LastWords(e.pods.Log)
		}
		e.Must(e.pods.Stop())
		e.Must(os.RemoveAll(run))
	})
}

var toOriginal = regexp.MustCompile(`(--server=|^mysql://)mysql-dataservice(?:\.[a-z0-9-]+\.svc)?:3306`)

// resolve replaces the DNS name of the original server by its pod's address, because there is no DNS.
func (e *databaseEnv) resolve(text string) string {
	if !toOriginal.MatchString(text) {
		return text
	}
	pod := &corev1.Pod{}
	if err := suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "mysql-dataservice-0"}, pod); err != nil {
		return text // the program then reports that the server is unreachable
	}
	return toOriginal.ReplaceAllString(text, "${1}"+pod.Status.PodIP+":3306")
}

// client returns a command that connects to the server in a pod.
func (e *databaseEnv) client(ctx context.Context, pod, user, password string, more ...string) (*exec.Cmd, error) {
	live := &corev1.Pod{}
	if err := suite.API.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: pod}, live); err != nil {
		return nil, err
	}
	if live.Status.PodIP == "" {
		return nil, errors.New("the pod has no address")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(e.tools, "mysql"), append([]string{"--no-defaults", "--user=" + user, "--batch", "--skip-column-names", "--host=" + live.Status.PodIP}, more...)...)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+password)
	return cmd, nil
}

// ask runs SQL on the server in a pod.
func (e *databaseEnv) ask(pod, user, password, sql string) (string, error) {
	cmd, err := e.client(e.Ctx, pod, user, password, "--execute="+sql)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// ledger is a client that writes to the original server as root. It records the acknowledged writes.
type ledger struct {
	mu    sync.Mutex
	acks  map[int64]bool
	tried int64
	stop  func()
}

func (e *databaseEnv) write() *ledger {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Ctx)
	cmd, err := e.client(ctx, "mysql-dataservice-0", "root", harness.OriginalRootPassword, "--force", "--unbuffered")
	e.Must(err)
	in, err := cmd.StdinPipe()
	e.Must(err)
	out, err := cmd.StdoutPipe()
	e.Must(err)
	e.Must(cmd.Start())
	l := &ledger{acks: map[int64]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		answers := bufio.NewScanner(out)
		for id := int64(1); ctx.Err() == nil; id++ {
			if _, err := fmt.Fprintf(in, "INSERT INTO ledger.acks VALUES (%d);\nSELECT %d, ROW_COUNT();\n", id, id); err != nil || !answers.Scan() {
				return
			}
			l.mu.Lock()
			l.tried = id
			if key, count, _ := strings.Cut(answers.Text(), "\t"); key == strconv.FormatInt(id, 10) && count == "1" {
				l.acks[id] = true
			}
			l.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond): // leaves processor time for other processes
			}
		}
	}()
	l.stop = func() {
		cancel()
		<-done
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}
	e.Cleanup(l.stop)
	return l
}

func (l *ledger) count() (acks int, tried int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acks), l.tried
}

// writes waits until the client has tried more writes. It returns the number of acknowledged writes.
func (e *databaseEnv) writes(l *ledger) int {
	e.Helper()
	before, from := l.count()
	var after int
	e.Try("10 more writes", func() error {
		var tried int64
		after, tried = l.count()
		return stage.Unless(tried >= from+10, fmt.Sprintf("%d of them", tried-from))
	})
	return after - before
}

// account returns the services' account in the new database.
func (e *databaseEnv) account() (user, password string) {
	e.Helper()
	secret := &corev1.Secret{}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "mysql-credentials"}, secret))
	return string(secret.Data["username"]), string(secret.Data["password"])
}

// lost stops the client. It returns the acknowledged writes that a database lacks.
func (e *databaseEnv) lost(l *ledger, pod, user, password string) (missing []int64) {
	e.Helper()
	l.stop()
	text, err := e.ask(pod, user, password, "SELECT id FROM ledger.acks")
	e.Must(err)
	has := map[string]bool{}
	for line := range strings.Lines(text) {
		has[strings.TrimSpace(line)] = true
	}
	for id := range l.acks {
		if !has[strconv.FormatInt(id, 10)] {
			missing = append(missing, id)
		}
	}
	return missing
}

// uses checks that the service uses the given database.
func (e *databaseEnv) uses(database string) {
	e.Helper()
	file := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "es-adapter"}}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKeyFromObject(file), file))
	e.Must(harness.Mentions(fmt.Sprint(file.Data), "jdbc:mysql://"+database+"."))
}

// goesOn checks that the service still has its pod and uses the original database.
func (e *databaseEnv) goesOn() {
	e.Helper()
	e.uses("mysql-dataservice")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "es-adapter"}}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKeyFromObject(d), d))
	assert.Equal(e.T, *d.Spec.Replicas, int32(1))
	assert.Equal(e.T, d.Status.AvailableReplicas, int32(1))
}

// through runs a command again and again: the first run is killed after its first write, the second run after its
// second write, and so on, until a run ends by itself. The operator restarts after each kill.
func (e *databaseEnv) through(args ...string) (wrote []string) {
	e.Helper()
	k := &kill{env: e.env}
	args = append(args, "--yes", "--original-stopped", "--agent-image", agentImage)
	for skip := 0; !k.life(skip, args...); skip++ {
		e.op.Stop()
		e.operate()
	}
	return k.wrote
}

// The original database is copied and cut over, while a client writes to it as root. The plugin is killed after each
// write, and the operator restarts. The new database contains each acknowledged write. After the original server is
// fenced, it acknowledges no write. The report has named all written objects.
func TestAdoptionOfTheDatabase(t *testing.T) {
	harness.Long(t)
	for kind, options := range map[string][]string{"without a log": {"--skip-log-bin"}, "with a log": {"--log-bin=binlog", "--server-id=1"}} {
		t.Run(kind, func(t *testing.T) {
			e := withDatabase(t, options...)
			l := e.write()
			assert.Assert(t, e.writes(l) >= 10)
			report := e.report(exitYes, "--original-stopped", "--agent-image", agentImage)
			assert.Equal(t, len(report.Data.Refused), 0, report.Data.Refused)
			report.Objects = append(report.Objects, report.Data.Objects...)
			e.says(exitNo, []string{"--agent-image"}, "adopt", name, "--copy", "--yes", "--original-stopped")
			e.named(report, e.through("adopt", name, "--copy"))
			e.goesOn()
			got := e.writes(l)
			assert.Equal(t, got >= 10, kind == "with a log", "%d", got)
			assert.Assert(t, got >= 10 || got == 0, "%d", got)
			e.named(report, e.through("adopt", name, "--finish"))
			e.Ready(name)
			e.uses("mysql")
			assert.Equal(t, e.writes(l), 0)
			user, password := e.account()
			assert.Equal(t, len(e.lost(l, "mysql-0", user, password)), 0, "of %d writes", len(l.acks))
			_, err := e.ask("mysql-dataservice-0", "root", harness.OriginalRootPassword, "INSERT INTO ledger.acks VALUES (-1)")
			assert.ErrorContains(t, err, "super-read-only")
			e.says(exitNo, []string{"the cut-over to database mysql was requested"}, "adopt", name, "--undo", "--yes", "--original-stopped")
			e.says(exitYes, []string{"the services use database mysql"}, "adopt", name, "--original-stopped")
			_, err = e.ask("mysql-dataservice-0", "root", harness.OriginalRootPassword, "SET GLOBAL super_read_only = OFF; INSERT INTO ledger.acks VALUES (-1)")
			e.Must(err)
			for range 2 { // a second run reports the same
				e.says(exitError, []string{"writes since the cut-over may exist only on the original server"}, "adopt", name, "--finish", "--yes", "--original-stopped", "--agent-image", agentImage)
			}
		})
	}
}

// If a user allows a write after the copy, the copy differs, and the services do not use it. After another copy and an
// undo, the original server accepts writes, and the claim with the copy still exists.
func TestAdoptionOfTheDatabaseIsUndone(t *testing.T) {
	harness.Long(t)
	e := withDatabase(t, "--skip-log-bin")
	e.through("adopt", name, "--copy")
	_, err := e.ask("mysql-dataservice-0", "root", harness.OriginalRootPassword, "SET GLOBAL super_read_only = OFF; INSERT INTO ledger.acks VALUES (-1)")
	e.Must(err)
	e.says(exitError, []string{"the services have not moved: ", "the copy differs from the source"}, "adopt", name, "--finish", "--yes", "--original-stopped", "--agent-image", agentImage)
	e.goesOn()
	e.says(exitYes, []string{"another copy starts", "the copy exists"}, "adopt", name, "--copy", "--yes", "--original-stopped", "--agent-image", agentImage)
	l := e.write()
	assert.Equal(t, e.writes(l), 0)
	e.through("adopt", name, "--undo")
	assert.Assert(t, e.writes(l) > 0)
	ds := e.DataService(name)
	assert.Equal(t, ds.Spec.MySQL.Name, "mysql-dataservice")
	assert.Assert(t, ds.Spec.MySQL.ImportFrom == nil)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "data-mysql-0"}}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKeyFromObject(claim), claim))
	e.says(exitYes, []string{"all objects are adopted"}, "adopt", name, "--apply", "--yes", "--original-stopped")
	e.says(exitNo, []string{"claim data-mysql-0 exists", "delete the claim, and Secret mysql-credentials"}, "adopt", name, "--copy", "--yes", "--original-stopped", "--agent-image", agentImage)
	assert.Assert(t, e.writes(l) > 0)
	assert.Equal(t, len(e.lost(l, "mysql-dataservice-0", "root", harness.OriginalRootPassword)), 0, "of %d writes", len(l.acks))
}
