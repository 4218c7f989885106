// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// withService is the spec of a DataService with a mysql of three members and a service that uses it. mysql has the name of the MySQLCluster
// in other tests.
const withService = `{mysql: {name: my-database, replica: 3, image: "` + image + `", databases: [ledger], config: {innodb_buffer_pool_size: 16M, innodb_redo_log_capacity: 8M,
	performance_schema_max_table_instances: "200", max_connections: "60"}},
	additionalServices: [{name: reports, image: work, command: [sleep, "1000000"], dependsOn: [mysql]}]}`

// isServing reports whether a change shows a database that is ready with three members.
func isServing(c harness.Change) bool {
	mc, ok := c.Object.(*mysqlv1.MySQLCluster)
	return ok && mc.Status.Phase == mysqlv1.PhaseRunning && mc.Status.Ready == "3/3"
}

// holds fails the test unless the database has its former rows.
func (s *scene) holds(members int, before []string) {
	s.Helper()
	assert.DeepEqual(s.T, s.agree(members), before)
}

// A DataService with several members of mysql becomes ready, and an additional service gets the address and the account of the primary.
// Changes of the spec reach the members, and changes by another writer are reverted. The data stays when the DataService hibernates, when
// mysql is removed from the spec, and when the DataService is deleted.
func TestInADataService(t *testing.T) {
	s := newScene(t)
	op := s.start()
	began := time.Now()
	s.CreateReady(s.NewPlatform(withService))
	t.Logf("the DataService is ready after %s", time.Since(began))
	s.ready(3)
	if owner := metav1.GetControllerOf(s.get()); owner == nil || owner.Name != stage.Platform {
		t.Errorf("the controller of the MySQLCluster is %v", owner)
	}
	s.WaitsFor("reports", isServing)
	s.connects()
	writer := s.write() // with the services' account
	s.Become("{mysql: {users: [{name: reporter, databases: [ledger]}]}}")
	s.reports()

	// The DataService owns the whole spec: a change by another writer is reverted once, and then nothing is written.
	planned, err := yaml.Marshal(s.get().Spec)
	s.Must(err)
	s.change(`{replicas: 5, paused: true, replication: {whenAlone: Block, maxLag: 1m}, networkPolicy: {enabled: true}, config: {max_connections: "61"}, service: {type: NodePort}}`)
	s.Until("the spec is restored", func() error {
		now, err := yaml.Marshal(s.get().Spec)
		if err == nil && string(now) != string(planned) {
			err = fmt.Errorf("it is\n%s\nnot\n%s", now, planned)
		}
		return err
	})
	s.ready(3)
	s.Ready(stage.Platform)
	mark := op.Mark()
	s.Pass(5 * time.Second)
	if sent := op.Since(mark, harness.Sent.WritesObject); len(sent) > 0 {
		t.Errorf("at rest: %v", sent)
	}
	s.ChangePlatform("{paused: true}")
	s.Eventually("mysql is paused, too", func() bool { return s.get().Spec.Paused })
	s.Become("{paused: false}")

	// Of several edits in a row, the last one takes effect.
	s.ChangePlatform("{mysql: {replica: 3, config: {max_connections: '70'}}}")
	s.Become("{mysql: {replica: 2, replication: {primary: 1}}}")
	s.ready(2)
	assert.Equal(t, s.primary(), 1)
	s.Become("{mysql: {replica: 1, replication: {primary: null}}}")
	s.ready(1)
	writer.again(time.Now())
	writer.kept(1)
	before := s.agree(1)

	s.Become("{mysql: {replica: 0}}")
	s.gone()
	s.Become("{mysql: {replica: 3}}")
	s.ready(3)
	s.holds(3, before)
	s.Hibernate()
	s.ready(3)
	s.holds(3, before)

	s.Become("{mysql: null, additionalServices: null}")
	s.removed()
	s.Become(oneServer) // the data belongs to a MySQLCluster, so the database stays a MySQLCluster of one member
	s.ready(1)
	s.holds(1, before)
	s.Become(withService)
	s.ready(3)
	s.holds(3, before)
	s.DeletePlatform()
	s.removed()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(3)
	s.holds(3, before)
	s.connects()
}

// reports waits until the account of a user writes, and returns its password.
func (s *scene) reports() (password string) {
	s.Helper()
	s.Until("the account of a user writes", func() error {
		secret := harness.Lookup[*corev1.Secret](s.Journal, name+"-users")
		if secret == nil {
			return errors.New("the Secret with its password does not exist")
		}
		password = string(secret.Data["reporter"])
		address, err := s.route()
		if err != nil {
			return err
		}
		command := s.client(address, "--user=reporter", "--execute=CREATE TABLE IF NOT EXISTS ledger.reports (id INT PRIMARY KEY)")
		command.Env = append(os.Environ(), "MYSQL_PWD="+password)
		out, err := command.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	return password
}

// connects fails the test unless the service has the address of the primary's Service and an account that may use the product's schemas.
func (s *scene) connects() {
	s.Helper()
	deployment := harness.Lookup[*appsv1.Deployment](s.Journal, "reports")
	if deployment == nil {
		s.Fatal("the service does not exist")
	}
	env, from := map[string]string{}, map[string]string{}
	for _, v := range deployment.Spec.Template.Spec.Containers[0].Env {
		env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			from[v.Name] = v.ValueFrom.SecretKeyRef.Name
		}
	}
	if is, want := env["MYSQL_HOST"]+":"+env["MYSQL_PORT"], fmt.Sprintf("%s.%s.svc:3306", name, s.Namespace); is != want {
		s.Errorf("the service connects to %s, want %s", is, want)
	}
	assert.Equal(s.T, from["MYSQL_PASSWORD"], name+"-credentials")
	address, err := s.route()
	s.Must(err)
	found, err := s.ask(address, "SHOW DATABASES")
	s.Must(err)
	for _, schema := range []string{"cosmo_gateway", "sdh_auth", "ledger"} {
		if !strings.Contains(found, schema) {
			s.Errorf("the account of the services cannot use %s: %s", schema, found)
		}
	}
}

// removed waits until the MySQLCluster and its pods are deleted, and fails the test unless the data stays.
func (s *scene) removed() {
	s.Helper()
	s.gone()
	s.Eventually("the MySQLCluster goes", func() bool { return harness.Lookup[*mysqlv1.MySQLCluster](s.Journal, name) == nil })
	for _, kept := range []string{"-credentials", "-members", "-ca"} {
		if harness.Lookup[*corev1.Secret](s.Journal, name+kept) == nil {
			s.Errorf("Secret %s%s was deleted", name, kept)
		}
	}
	if harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-replication") == nil {
		s.Error("the record was deleted")
	}
}

// If only one copy of the data is left, the DataService is not ready. The message names the field for consent to a loss, and the token to
// set. After a user sets the token, the database continues.
func TestLossInADataService(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(3)
	if c := s.Component("mysql"); c.Kind != "Managed" || c.Ready != 3 || c.Desired != 3 || c.Phase != dsv1.PhaseRunning {
		t.Errorf("the status says %+v", c)
	}
	left := (s.primary() + 1) % 3
	for ordinal := range 3 {
		if ordinal != left {
			s.Must(s.WipeVolume(s.Ctx, claim(ordinal)))
		}
	}
	for ordinal := range 3 {
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "mysql"))
	}
	var token string
	s.Until("the status names the loss", func() error {
		c := s.Component("mysql")
		_, after, found := strings.Cut(c.Message, "set spec.mysql.replication.acceptLoss to ")
		token = after
		return stage.Unless(found && c.Phase == dsv1.PhaseDegraded && c.Culprit != nil && c.Culprit.Kind == "MySQLCluster", fmt.Sprintf("%+v", c))
	})
	assert.Equal(t, token, s.get().Status.LossToken)
	if harness.Lookup[*appsv1.Deployment](s.Journal, "reports") == nil {
		t.Error("the service was deleted")
	}
	s.Become("{mysql: {replication: {acceptLoss: " + token + "}}}")
	s.ready(3)
	s.connects()
}

// A DataService reports the backups of its members, and a new DataService is restored from these backups. One server with backups becomes
// several members: the members' CronJobs replace the CronJobs of the server, and a backup is made immediately. A DataBackup of the
// DataService copies a member, and the archive allows a restore to a moment.
func TestBackupsInADataService(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.Claim("backups")
	s.CreateReady(s.NewPlatform(strings.TrimSuffix(oneServer, "}}") + ", users: [{name: reporter, databases: [ledger]}], backup: {destination: {claim: {name: backups, folder: old}}, schedule: '@yearly'}}}"))
	owner := func() string {
		cron := harness.Lookup[*batchv1.CronJob](s.Journal, name+"-backup")
		if cron == nil || metav1.GetControllerOf(cron) == nil {
			return ""
		}
		return metav1.GetControllerOf(cron).Kind
	}
	assert.Equal(t, owner(), dsv1.Kind)
	password, writer := s.reports(), s.write()
	from := s.Mark()
	s.ChangePlatform("{mysql: {replica: 2, backup: {pointInTime: {interval: 5s}}}}")
	s.Until("2 members", func() error { return s.hasMembers(2) })
	pods := map[types.UID]bool{}
	for _, c := range s.Since(from) {
		if pod, ok := c.Object.(*corev1.Pod); ok && pod.Name == name+"-0" {
			pods[pod.UID] = true
		}
	}
	if len(pods) != 2 {
		t.Errorf("member 0 had %d pods, and one restart is promised", len(pods))
	}
	assert.Equal(t, s.reports(), password)
	s.Eventually("the members own the CronJob", func() bool { return owner() == mysqlv1.Kind })
	s.Until("the first backup is reported", func() error {
		status := s.DataService(stage.Platform).Status
		if status.Backup == nil || status.Backup.LastID == "" || !meta.IsStatusConditionTrue(status.Conditions, dsv1.ConditionBackupHealthy) {
			return fmt.Errorf("%+v, %+v", status.Backup, meta.FindStatusCondition(status.Conditions, dsv1.ConditionBackupHealthy))
		}
		return nil
	})
	if harness.Lookup[*batchv1.Job](s.Journal, name+"-backup-first") == nil {
		t.Error("no Job made the first backup")
	}
	since := s.get().Status.Backup.Since
	made := s.BackUp("second", dsv1.Kind, stage.Platform)
	if made.Phase != backupv1.PhaseSucceeded || made.Position == nil || made.Position.GTID == "" {
		t.Fatalf("the backup: %+v", made)
	}
	s.Until("moments can be restored", func() error {
		status := s.DataService(stage.Platform).Status
		c := meta.FindStatusCondition(status.Conditions, dsv1.ConditionRecoverable)
		return stage.Unless(status.Backup.LastID == made.ID && c != nil && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "former single server"), fmt.Sprintf("%+v, %+v", status.Backup, c))
	})
	assert.Assert(t, since != nil && since.Equal(s.get().Status.Backup.Since))
	writer.kept(2)

	before, moment := s.agree(2), time.Now()
	s.reaches(moment)
	s.DeletePlatform()
	s.Eventually("the pods go", func() bool { return s.pod(0) == nil && s.pod(1) == nil })
	for _, o := range s.All() {
		switch o.(type) {
		case *corev1.PersistentVolumeClaim, *corev1.Secret, *corev1.ConfigMap:
			if strings.Contains(o.GetName(), name) {
				s.Must(client.IgnoreNotFound(s.Suite.API.Delete(s.Ctx, o)))
			}
		}
	}
	s.Eventually("the claim is deleted", func() bool { return harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, claim(0)) == nil })
	s.CreateReady(s.NewPlatform(strings.TrimSuffix(oneServer, "}}") + ", replica: 2, restoreFrom: {destination: {claim: {name: backups, folder: old/mysql.cluster}}, toTime: '" +
		moment.UTC().Format(time.RFC3339Nano) + "'}}}"))
	s.ready(2)
	s.holds(2, before)
}
