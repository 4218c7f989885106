// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/process"
)

// The real agent makes a backup of a running database. A check restores the backup, and a new database is restored from the backup.
func TestLife(t *testing.T) {
	t.Parallel()
	s := newReal(t)
	s.start()
	s.Create(archived("db", fields{"backup": fields{"pointInTime": nil, "verify": fields{"schedule": "@yearly"}}}))
	s.Ready(platform)
	want := s.fill()
	s.back(name)
	b := s.isReal()
	s.sql("db", "DELETE FROM app.t") // the backup must not contain this change
	if job := s.job("check", "db-verify"); job.Status.Succeeded != 1 {
		t.Fatalf("the check did not succeed: %+v", job.Status)
	}
	if known := s.condition(dsv1.ConditionBackupHealthy, dsv1.ReasonVerified).Status.Backup; known.VerifiedID != b.Status.ID || known.LastVerified == nil {
		t.Errorf("status.backup is %+v", known)
	}
	if got := s.clone(fields{"backup": b.Status.ID}); got != want {
		t.Errorf("the new database has %q, want %q", got, want)
	}
}

// fill creates a table of 5000 rows, and returns their number and sum.
func (s *realScene) fill() string {
	s.Helper()
	s.sql("db", "CREATE DATABASE app; USE app; CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100)); "+
		"INSERT INTO app.t (v) SELECT CONCAT('row ', seq, ' ', UUID()) FROM seq_1_to_5000")
	return s.sql("db", counted)
}

// isReal waits until the DataBackup has succeeded, and fails the test unless its status describes a backup of the rows.
func (s *realScene) isReal() *backupv1.DataBackup {
	s.Helper()
	b := s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	if b.Status.ID == "" || b.Status.Bytes == 0 || b.Status.StoredBytes == 0 || b.Status.Tables == 0 || b.Status.Rows < 5000 || b.Status.ServerVersion == "" {
		s.Errorf("status %+v", b.Status)
	}
	s.Logf("backup %s: %s of %d bytes, %d tables, %d rows, %s, at %+v", b.Status.ID, b.Status.Size, b.Status.Bytes, b.Status.Tables,
		b.Status.Rows, b.Status.Duration, b.Status.Position)
	return b
}

// copied is the name of the DataService that is restored from a backup.
const copied = "clone"

// clone creates a DataService with a database named copy, which is restored from a backup in the store. It returns the number and the sum of
// the database's rows.
func (s *realScene) clone(from fields) string {
	s.Helper()
	restore := fields{"destination": fields{"claim": fields{"name": store}}}
	harness.Merge(restore, from)
	changes := fields{"backup": nil, "restoreFrom": restore}
	harness.Merge(changes, s.server)
	ds := archived("copy", changes)
	ds.SetName(copied)
	s.Create(ds)
	s.Ready(copied)
	rows, err := s.ask(s.password("copy-credentials", "username"), s.password("copy-credentials", "password"), counted, "--host="+s.addressOf("copy"))
	s.Must(err)
	return rows
}

// The real agent makes a DataBackup of a running database and the archive of its binary log. A restore that uses only the store returns
// the same rows. The status reports the state of the backups.
func TestARealBackup(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	s := newReal(t)
	s.start()
	ds := archived("db", nil)
	s.Must(unstructured.SetNestedField(ds.Object, "@yearly", "spec", "mysql", "backup", "verify", "schedule"))
	s.Create(ds)
	s.Ready(platform)
	want := s.fill()

	s.condition(dsv1.ConditionBackupHealthy, dsv1.ReasonNoBackup)
	s.condition(dsv1.ConditionRecoverable, dsv1.ReasonNoBackup)
	s.back(name)
	b := s.isReal()
	if b.Status.Position == nil {
		t.Error("the status has no position in the binary log")
	}
	s.sql("db", "DELETE FROM app.t") // the backup must not contain this change
	if got := s.restored(b.Status.ID, counted); got != want {
		t.Errorf("the restore has %q, want %q", got, want)
	}
	want = s.everyMoment(b.Status.ID)

	// A restore refuses a volume that is not empty.
	s.Change(platform, fields{"mysql": fields{"replica": 0}})
	s.condition(dsv1.ConditionRecoverable, dsv1.ReasonArchiveStopped)
	s.Eventually("the server has ended", func() bool { return s.address() == "" })
	if job := s.job("refused", "db-restore"); job.Status.Succeeded != 0 {
		t.Errorf("the restore overwrote existing data: %+v", job.Status)
	}
	// The volume is lost: the commands of docs/backup.md restore the data.
	s.Must(s.pods.WipeVolume(s.Ctx, "data-db-0"))
	if job := s.job("restore", "db-restore"); job.Status.Succeeded != 1 {
		t.Fatalf("the data was not restored: %+v", job.Status)
	}
	s.Must(suite.API.Delete(s.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "db-data"}}))
	s.ChangeReady(platform, fields{"mysql": fields{"replica": 1}})
	if got := s.sql("db", counted); got != want {
		t.Errorf("the restored database has %q, want %q", got, want)
	}
	// The database has a new binary log. No moment of this log can be restored until the operator has made a backup.
	s.condition(dsv1.ConditionRecoverable, "Gap")
	s.condition(dsv1.ConditionRecoverable, dsv1.ReasonArchived)
}

// born creates a new DataService from a backup in the store. If its volume then loses the data, the operator does not restore it again.
func (s *realScene) born(id, want string) {
	s.Helper()
	if got := s.clone(fields{"backup": id, "toTime": "latest"}); got != want {
		s.Errorf("the new database has %q, want %q", got, want)
	}
	s.Must(s.pods.WipeVolume(s.Ctx, "data-copy-0"))
	s.Must(suite.API.Delete(s.Ctx, harness.Lookup[*corev1.Pod](s.Journal, "copy-0")))
	s.Until("the status reports the loss", func() error {
		return harness.HasCondition(s.DataService(copied), dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonDataLost)
	})
	folder, err := s.pods.VolumeFolder(s.Ctx, "data-copy-0")
	s.Must(err)
	if entries, err := os.ReadDir(filepath.Join(folder, "mysql")); err == nil && len(entries) > 0 {
		s.Errorf("the volume is not empty: %v", entries)
	}
	s.Must(suite.API.Delete(s.Ctx, harness.Lookup[*dsv1.DataService](s.Journal, copied)))
}

// everyMoment restores commits after the backup from the archive, and runs the Job that checks backups. It returns the number and the sum of
// the rows.
func (s *realScene) everyMoment(id string) string {
	s.Helper()
	ds := s.condition(dsv1.ConditionRecoverable, dsv1.ReasonArchived)
	s.condition(dsv1.ConditionBackupHealthy, dsv1.ReasonNotVerified)
	if known := ds.Status.Backup; known == nil || known.LastID != id || known.LastSuccessful == nil {
		s.Errorf("status.backup is %+v", known)
	}
	s.sql("db", "INSERT INTO app.t (v) VALUES ('later'), ('and later')")
	want := s.sql("db", counted)
	s.archived()
	if got := s.restored(id, counted, "--to-time=latest"); got != want {
		s.Errorf("restored to the latest moment: %q, want %q", got, want)
	}
	s.born(id, want)
	if job := s.job("check", "db-verify"); job.Status.Succeeded != 1 {
		s.Errorf("the check did not succeed: %+v", job.Status)
	}
	if known := s.condition(dsv1.ConditionBackupHealthy, dsv1.ReasonVerified).Status.Backup; known.VerifiedID != id || known.LastVerified == nil {
		s.Errorf("status.backup is %+v", known)
	}
	return want
}

// tools returns the folder of a real database server's programs, mariadb or mysql. hack/mariadb.sh unpacks them.
func tools(t *testing.T, flavour string) string {
	t.Helper()
	server, err := process.Program(strings.ToUpper(flavour), flavour, "mysqld")
	assert.NilError(t, err)
	return filepath.Dir(server)
}

// agent builds the agent.
func agent(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent")
	assert.NilError(t, cluster.BuildAgent(t.Context(), file))
	return file
}

// realScene is a scene with a real database server and the real agent.
type realScene struct {
	*scene

	tools, agent string
	server       fields // fields of spec.mysql, for servers other than MariaDB
}

func newReal(t *testing.T, settings ...func(*realScene, *emulator.Options)) *realScene {
	t.Helper()
	return newRealOf(t, "mariadb", settings...)
}

// newRealOf returns a scene with servers of a flavour, mariadb or mysql.
func newRealOf(t *testing.T, flavour string, settings ...func(*realScene, *emulator.Options)) *realScene {
	t.Helper()
	s := &realScene{scene: &scene{Stage: suite.New(t)}, tools: tools(t, flavour), agent: agent(t)}
	entrypoint := filepath.Join(cluster.Root(), "test/backup/testdata/entrypoint.sh")
	programs := map[string]string{"/entrypoint": entrypoint}
	for _, program := range []string{"mysqld", "mysql", "mysqldump", "mysql_install_db"} {
		if _, err := os.Stat(filepath.Join(s.tools, program)); err == nil {
			programs[program] = filepath.Join(s.tools, program)
		}
	}
	programs["mysqld"] = filepath.Join(cluster.Root(), "test/backup/testdata/mysqld.sh")
	options := emulator.Options{Namespace: s.Namespace, Images: map[string]emulator.Image{
		"example/mysql": {
			Entrypoint: []string{"/entrypoint", "/var/lib/mysql", "/var/run/mysqld/mysqld.sock", "/etc/mysql/conf.d"}, Executables: programs,
			Rewrite: s.resolve, Env: map[string]string{"SERVER": filepath.Join(s.tools, "mysqld")},
			Paths: map[string]string{"SERVER_CONFIG": "/etc/mysql/conf.d/my.cnf"},
		},
		"example/agent": {Executables: map[string]string{"/agent": s.agent}},
	}}
	for _, set := range settings {
		set(s, &options)
	}
	var err error
	s.pods, err = emulator.Start(s.Ctx, suite.Config, options)
	s.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			s.describe()
		}
		s.Must(s.pods.Stop())
	})
	s.Claim(store)
	return s
}

// describe logs the last output of the pods.
func (s *realScene) describe() {
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			text, _ := s.pods.Log(pod.Name, c.Name)
			lines := strings.Split(strings.TrimSpace(text), "\n")
			s.Logf("%s %s: %s\n%s", pod.Name, c.Name, pod.Status.Phase, strings.Join(lines[max(0, len(lines)-12):], "\n"))
		}
	}
}

// address returns the address of the database's pod, or "".
func (s *realScene) address() string { return s.addressOf("db") }

// addressOf returns the address of a database's pod, or "".
func (s *realScene) addressOf(database string) string {
	if pod := harness.Lookup[*corev1.Pod](s.Journal, database+"-0"); pod != nil {
		return pod.Status.PodIP
	}
	return ""
}

// servers matches the address of a database in an argument.
var servers = regexp.MustCompile(`--server=([a-z0-9-]+):3306`)

// resolve waits for the database's pod, and replaces the database's name in an argument by the pod's address. The emulator has no DNS.
func (s *realScene) resolve(_ *corev1.Pod, text string) string {
	name := servers.FindStringSubmatch(text)
	if name == nil {
		return text
	}
	_ = harness.Within(time.Minute, 100*time.Millisecond, s.Next, func() error { // after the time limit, the program reports that it cannot reach the server
		if s.addressOf(name[1]) == "" {
			return errors.New("the database has no pod")
		}
		return nil
	})
	return strings.ReplaceAll(text, name[0], "--server="+s.addressOf(name[1])+":3306")
}

// condition waits until a condition of the DataService has a reason.
func (s *realScene) condition(kind, reason string) *dsv1.DataService {
	s.Helper()
	var ds *dsv1.DataService
	s.Until(kind+": "+reason, func() error {
		ds = harness.Lookup[*dsv1.DataService](s.Journal, platform)
		if c := meta.FindStatusCondition(ds.Status.Conditions, kind); c == nil || c.Reason != reason {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	return ds
}

// archived waits until the archive contains every present commit.
func (s *realScene) archived() {
	s.Helper()
	now := time.Now()
	s.Must(harness.Within(patience, 100*time.Millisecond, s.Next, func() error {
		heads, err := filepath.Glob(filepath.Join(s.folder(), "binlog", "*", "head.json"))
		if err != nil || len(heads) == 0 {
			return fmt.Errorf("no head: %w", err)
		}
		text, err := os.ReadFile(heads[len(heads)-1])
		if err != nil {
			return err
		}
		var head struct{ Time time.Time }
		if err := json.Unmarshal(text, &head); err != nil || !head.Time.After(now) {
			return fmt.Errorf("the archive has reached %s: %w", head.Time, err)
		}
		return nil
	}))
}

// password reads a password of a Secret.
func (s *realScene) password(secret, key string) string {
	s.Helper()
	found := &corev1.Secret{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: secret}, found))
	return string(found.Data[key])
}

// ask runs SQL at a server and returns the result.
func (s *realScene) ask(user, password, sql string, where ...string) (string, error) {
	args := append([]string{"--no-defaults", "--user=" + user, "--batch", "--skip-column-names", "--execute=" + sql}, where...)
	command := exec.CommandContext(s.Ctx, filepath.Join(s.tools, "mysql"), args...)
	command.Env = append(os.Environ(), "MYSQL_PWD="+password)
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// job creates a Job of a CronJob, as kubectl create job --from does, and waits until it has ended.
func (s *realScene) job(name, from string) *batchv1.Job {
	s.Helper()
	cron := &batchv1.CronJob{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: from}, cron))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: cron.Spec.JobTemplate.Labels}, Spec: cron.Spec.JobTemplate.Spec}
	backoff := int32(0)
	job.Spec.BackoffLimit = &backoff
	s.Must(suite.API.Create(s.Ctx, job))
	s.Until("the end of "+name, func() error {
		s.Must(suite.API.Get(s.Ctx, client.ObjectKeyFromObject(job), job))
		for _, c := range job.Status.Conditions {
			if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
				return nil
			}
		}
		return errors.New("the Job still runs")
	})
	return job
}

// restored restores a backup to a folder, starts a server on it and runs SQL.
func (s *realScene) restored(id, sql string, more ...string) string {
	s.Helper()
	volume, config := s.TempDir(), filepath.Join(s.TempDir(), "my.cnf")
	s.Must(os.WriteFile(config, []byte("[mysqld]\nlower_case_table_names = 1\n"), 0o600)) // the chart's setting
	restore := exec.CommandContext(s.Ctx, s.agent, append([]string{"restore", "--folder=" + s.folder(), "--backup=" + id, "--volume=" + volume,
		"--server-config=" + config}, more...)...)
	restore.Env = append(os.Environ(), "AGENT_ROOT_PASSWORD=root", "PATH="+s.tools+":"+os.Getenv("PATH"))
	if out, err := restore.CombinedOutput(); err != nil {
		s.Fatalf("restore: %v\n%s", err, out)
	}
	ctx, stop := context.WithCancel(s.Ctx)
	socket := filepath.Join(volume, "s")
	server := exec.CommandContext(ctx, filepath.Join(s.tools, "mysqld"), "--defaults-file="+config, "--datadir="+filepath.Join(volume, "mysql"), "--socket="+socket,
		"--skip-networking", "--innodb-buffer-pool-size=32M", "--user=root")
	s.Must(server.Start())
	defer func() {
		stop()
		_ = server.Wait()
	}()
	var answer string
	s.Must(harness.Within(time.Minute, 100*time.Millisecond, s.Next, func() (err error) {
		answer, err = s.ask("root", "root", sql, "--protocol=SOCKET", "--socket="+socket)
		return err
	}))
	return answer
}
