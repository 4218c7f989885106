// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// oneServer is the spec of a DataService with a mysql of one server, which has the name of the MySQLCluster in other tests.
const oneServer = `{mysql: {name: my-database, image: "` + image + `", serverVersion: "9.7", databases: [ledger], config: {innodb_buffer_pool_size: 16M, innodb_redo_log_capacity: 8M,
	performance_schema_max_table_instances: "200", max_connections: "60"}}}`

// hasMembers returns an error unless the database is a MySQLCluster that is ready with a number of members.
func (s *scene) hasMembers(members int) error {
	if harness.Lookup[*mysqlv1.MySQLCluster](s.Journal, name) == nil {
		return fmt.Errorf("the MySQLCluster does not exist: %+v", s.Component("mysql"))
	}
	return s.isReady(members)
}

func (s *scene) becomes(members int) {
	s.Helper()
	s.ChangePlatform(fmt.Sprintf("{mysql: {replica: %d}}", members))
	s.Until(fmt.Sprintf("%d members", members), func() error { return s.hasMembers(members) })
}

// While a client writes, one server becomes three members in place, then five, three and one.
func TestOneServerBecomesSeveral(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.CreateReady(s.NewPlatform(oneServer))
	writer := s.write()
	for _, members := range []int{3, 5, 3, 1} {
		s.becomes(members)
		s.Logf("%d members", members)
		if err := writer.writes(); err != nil {
			s.Logf("%v", err)
		}
	}
	writer.kept(1)
	assert.Equal(t, s.primary(), 0)
}

// One server becomes three members, then one, three and one, while the operator is killed at each write. No acknowledged write is lost. Two
// pods never use the volume at the same time, because the pods of both forms have the same name.
func TestFormsKilledAtEveryStep(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	lives := &stage.Lives{Skip: 1} // a life ends at its second change
	if full {
		lives.Skip = 0
	}
	s.Create(s.NewPlatform(oneServer))
	s.live(lives, func() error {
		if c := s.Component("mysql"); c.Ready != 1 || s.pod(0) == nil {
			return fmt.Errorf("%+v", c)
		}
		_, err := s.route()
		return err
	})
	writer := s.write()
	for _, members := range []int{3, 1, 3, 1} {
		s.ChangePlatform(fmt.Sprintf("{mysql: {replica: %d}}", members))
		s.live(lives, func() error {
			if err := s.hasMembers(members); err != nil {
				return err
			}
			return writer.writes()
		})
	}
	writer.kept(1)
	where := strings.Join(slices.Sorted(maps.Keys(lives.Ends)), ", ")
	for _, effect := range []string{"create jobs", "patch persistentvolumeclaims", "delete statefulsets", "patch mysqlclusters", "patch pods", "patch configmaps"} {
		if full && (!strings.Contains(where, "before "+effect) || !strings.Contains(where, "after "+effect)) {
			t.Errorf("no life ended before and after %s; they ended at %s", effect, where)
		}
	}
}

// A single server is neither restarted nor changed into a MySQLCluster if members could not copy all of its data, or would have another
// image. When the cause is solved, the change continues. If the user reverts the change first, nothing happens.
func TestServerThatStaysOne(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.CreateReady(s.NewPlatform(oneServer))
	writer := s.write()
	address, err := s.route()
	s.Must(err)
	_, err = s.ask(address, "CREATE TABLE ledger.old (id INT) ENGINE = MyISAM")
	s.Must(err)
	pod := s.pod(0).UID
	same := func() {
		t.Helper()
		writer.again(time.Now())
		if is := s.pod(0); is.UID != pod || is.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the server was restarted: %+v", is.Status.ContainerStatuses)
		}
	}
	s.ChangePlatform("{mysql: {replica: 3}}")
	s.Stalls("InvalidSpec", "spec.mysql.replica", "ledger.old", "continues as one server")
	same()
	s.Become("{mysql: {replica: 1}}")
	same()
	_, err = s.ask(address, "ALTER TABLE ledger.old ENGINE = InnoDB")
	s.Must(err)
	s.ChangePlatform("{mysql: {replica: 3, initScripts: [{name: more}]}}")
	s.Stalls("InvalidSpec", "spec.mysql.initScripts")
	same()
	s.ChangePlatform(`{mysql: {initScripts: null, image: "docker.io/library/mysql:9.7.5"}}`)
	s.Stalls("InvalidSpec", "spec.mysql.replica", "9.7.5", "change image before replica")
	same()
	s.ChangePlatform(`{mysql: {image: "` + image + `", config: {gtid_mode: "OFF"}}}`)
	s.Until("the settings are refused", func() error {
		if ds := s.DataService(stage.Platform); strings.Contains(ds.Status.Message, "spec.config") {
			return nil
		}
		return fmt.Errorf("%s", s.DataService(stage.Platform).Status.Message)
	})
	same()
	s.ChangePlatform("{mysql: {config: {gtid_mode: null}}}")
	s.Until("three members", func() error { return s.hasMembers(3) })
	writer.kept(3)
	if record := harness.Lookup[*corev1.ConfigMap](s.Journal, name+"-data"); record == nil {
		t.Error("the record of the one server was deleted")
	}
	assert.Equal(t, s.primary(), 0)
}

// A new database of several members is a copy of a running server. One server makes the copy, and becomes the first member. The copy
// contains all rows of the source, and the condition Imported stays.
func TestImportBecomesSeveral(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t, func(o *emulator.Options) { // mysqld.sh reads the configuration of the pod, as the real image does
		image := o.Images["docker.io/library/mysql"]
		image.Env, image.Paths = map[string]string{"SERVER": image.Executables["mysqld"]}, map[string]string{"SERVER_CONFIG": "/etc/mysql/conf.d/my.cnf"}
		image.Executables["mysqld"] = filepath.Join(cluster.Root(), "test/backup/testdata/mysqld.sh")
		o.Images["docker.io/library/mysql"] = image
	})
	s.start()
	source := s.NewPlatform(strings.Replace(oneServer, name, "old-db", 1))
	source.SetName("old")
	s.Create(source)
	s.Ready("old")
	old := harness.Lookup[*corev1.Pod](s.Journal, "old-db-0").Status.PodIP
	credentials := harness.Lookup[*corev1.Secret](s.Journal, "old-db-credentials").Data
	const rows = "SELECT COUNT(*), SUM(CRC32(n)) FROM ledger.t"
	ask := func(address, sql string) (string, error) {
		text, err := s.client(address, "--user="+string(credentials["username"]), "--password="+string(credentials["password"]), "--execute="+sql).Output()
		return string(text), err
	}
	_, err := ask(old, "CREATE TABLE ledger.t (n INT PRIMARY KEY) AS WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s")
	s.Must(err)
	want, err := ask(old, rows)
	s.Must(err)
	s.CreateReady(s.NewPlatform(strings.Replace(oneServer, "mysql: {", "mysql: {replica: 3, importFrom: {host: "+old+", cutOver: true, credentialsSecret: {name: old-db-credentials}}, ", 1)))
	s.Until("three members", func() error { return s.hasMembers(3) })
	address, err := s.route()
	s.Must(err)
	got, err := s.ask(address, rows)
	s.Must(err)
	assert.Equal(t, strings.TrimSpace(got), strings.TrimSpace(want))
	if c := meta.FindStatusCondition(s.DataService(stage.Platform).Status.Conditions, dsv1.ConditionImported); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("the condition Imported is %+v", c)
	}
}
