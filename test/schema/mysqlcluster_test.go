// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
)

// mysqlAccepted are specs that the API server accepts.
var mysqlAccepted = []string{
	"{}",
	"{replicas: 0}",
	"{replicas: 5, storage: {size: 1}}",
	"{image: 'mysql:8.4.9'}",
	"{image: 'mysql:8.4'}",
	"{image: mysql}",
	"{image: 'registry.example.com:5000/library/mysql:9.7.0-oraclelinux9'}",
	"{image: 'registry.example.com:5/mysql:v8.10'}",
	"{image: 'mysql@sha256:5e8c2cbbd7d0f1ee1b3a8a5d7a51e3b2f0a9c6d4e8f7a6b5c4d3e2f1a0b9c8d7'}",
	"{image: 'mariadb-team/mysql:8.4.9', imagePullSecrets: [{name: a}]}",
	"{replication: {whenAlone: Block, failover: Manual, primary: 2, maxLag: 1m, acceptLoss: 4-17-3e11fa47}}",
	"{replicas: 0, replication: {primary: 2}}",
	"{storage: {size: 10Gi, storageClassName: fast}, credentialsSecret: account, databases: [shop, d_1]}",
	"{config: {max_connections: '400', innodb-buffer-pool-size: 2G, require_secure_transport: 'ON', log_bin_trust_function_creators: ''}}",
	"{config: {event_scheduler: 'OFF', innodb_flush_method: O_DIRECT_NO_FSYNC}}",
	"{config: {skip-event-scheduler: '', loose_innodb-flush-method: '4'}}",
	"{size: large, resources: {limits: {memory: 4Gi}}, antiAffinity: Hard, timeZone: Asia/Shanghai, paused: true}",
	"{service: {type: LoadBalancer, annotations: {a/b: c}}}",
	"{networkPolicy: {enabled: true, allowFrom: [{podSelector: {}}], additionalPorts: [15008, 65535]}}",
	"{image: null, storage: {storageClassName: null}, replication: {primary: null, acceptLoss: null}, service: {annotations: null}, size: null, config: null, podTemplate: null, affinity: null, databases: null, credentialsSecret: null, timeZone: null}",
	"{podTemplate: {spec: {priorityClassName: high}}}",
}

// mysqlRefused are specs that the API server refuses, with its messages.
var mysqlRefused = map[string]string{
	"{replicas: -1}":          "greater than or equal to 0",
	"{replicas: 6}":           "less than or equal to 5",
	"{image: 'mariadb:11.8'}": "MariaDB is refused",
	"{image: 'registry.example.com/bitnami/mariadb-galera:11@sha256:5e8c2cbbd7d0f1ee1b3a8a5d7a51e3b2f0a9c6d4e8f7a6b5c4d3e2f1a0b9c8d7'}": "MariaDB is refused",
	"{image: 'mysql:8.0.40'}":                               "MySQL 8.4 or newer is needed",
	"{image: 'mysql:8.3'}":                                  "MySQL 8.4 or newer is needed",
	"{image: 'registry.example.com:5000/mysql:5.7-oracle'}": "MySQL 8.4 or newer is needed",
	"{image: 'mysql:5'}":                                    "MySQL 8.4 or newer is needed",
	"{image: 'mysql:v8.0@sha256:5e8c2cbbd7d0f1ee1b3a8a5d7a51e3b2f0a9c6d4e8f7a6b5c4d3e2f1a0b9c8d7'}": "MySQL 8.4 or newer is needed",
	"{replication: {whenAlone: Never}}":                  "whenAlone",
	"{replication: {failover: Never}}":                   "failover",
	"{replication: {primary: 3}}":                        "must be the ordinal of a member",
	"{replicas: 2, replication: {primary: 2}}":           "must be the ordinal of a member",
	"{replication: {primary: -1}}":                       "greater than or equal to 0",
	"{replication: {maxLag: '10'}}":                      "maxLag",
	"{replication: {maxLag: 0s}}":                        "maxLag",
	"{replication: {maxLag: 1.5s}}":                      "maxLag",
	"{replication: {acceptLoss: 'a b'}}":                 "acceptLoss",
	"{storage: {size: 0}}":                               "size must be a quantity above zero",
	"{storage: {size: big}}":                             "size must be a quantity",
	"{databases: [shop-1]}":                              "databases",
	"{databases: [shop, shop]}":                          "Duplicate value",
	"{databases: [mysql]}":                               "must not be a database of MySQL's",
	"{databases: [d3os_member]}":                         "must not be a database of MySQL's",
	"{config: {--max-connections: '1'}}":                 "the name of an option",
	"{config: {max-connections: \"1\\n[client]\"}}":      "spec.config.max-connections",
	"{config: {server-id: '1'}}":                         "an option that the operator sets itself",
	"{config: {server_id: '1'}}":                         "an option that the operator sets itself",
	"{config: {super_read_only: 'OFF'}}":                 "an option that the operator sets itself",
	"{config: {loose-gtid_mode: 'OFF'}}":                 "an option that the operator sets itself",
	"{config: {skip-log-bin: ''}}":                       "an option that the operator sets itself",
	"{config: {loose_skip_name_resolve: ''}}":            "an option that the operator sets itself",
	"{config: {sync_binlog: '0'}}":                       "an option that the operator sets itself",
	"{config: {innodb_flush_log_at_trx_commit: '2'}}":    "an option that the operator sets itself",
	"{config: {innodb-doublewrite: 'OFF'}}":              "an option that the operator sets itself",
	"{config: {rpl_semi_sync_source_timeout: '1'}}":      "an option that the operator sets itself",
	"{config: {relay_log_recovery: 'ON'}}":               "an option that the operator sets itself",
	"{config: {replicate-do-db: a}}":                     "an option that the operator sets itself",
	"{config: {binlog-ignore-db: a}}":                    "an option that the operator sets itself",
	"{config: {binlog_format: STATEMENT}}":               "an option that the operator sets itself",
	"{config: {plugin-load-add: a.so}}":                  "an option that the operator sets itself",
	"{config: {init_file: /a}}":                          "an option that the operator sets itself",
	"{config: {datadir: /a}}":                            "an option that the operator sets itself",
	"{config: {lower_case_table_names: '0'}}":            "an option that the operator sets itself",
	"{config: {replica_net_timeout: '60'}}":              "an option that the operator sets itself",
	"{config: {binlog_error_action: IGNORE_ERROR}}":      "binlog-error-action",
	"{config: {loose-loose_binlog-error-action: '0'}}":   "binlog-error-action",
	"{config: {replica_exec_mode: IDEMPOTENT}}":          "replica-exec-mode",
	"{config: {slave-exec-mode: IDEMPOTENT}}":            "replica-exec-mode",
	"{config: {slave_parallel_type: DATABASE}}":          "replica-parallel-type",
	"{config: {replica-parallel-type: DATABASE}}":        "replica-parallel-type",
	"{config: {disabled_storage_engines: ''}}":           "disabled-storage-engines",
	"{config: {tc_heuristic_recover: ROLLBACK}}":         "tc-heuristic-recover",
	"{config: {skip_innodb_log_checksums: ''}}":          "innodb-log-checksums",
	"{config: {innodb-checksum-algorithm: none}}":        "innodb-checksum-algorithm",
	"{config: {innodb_doublewrite_dir: /tmp}}":           "innodb-doublewrite-dir",
	"{config: {innodb_data_file_path: '/tmp/a:12M'}}":    "innodb-data-file-path",
	"{config: {innodb_flush_method: nosync}}":            "innodb-flush-method must be fsync",
	"{config: {loose_innodb-flush-method: NOSYNC}}":      "innodb-flush-method must be fsync",
	"{config: {innodb_flush_method: littlesync}}":        "innodb-flush-method must be fsync",
	"{config: {innodb_flush_method: '3'}}":               "innodb-flush-method must be fsync",
	"{config: {innodb_flush_method: ''}}":                "innodb-flush-method must be fsync",
	"{config: {skip-innodb-flush-method: ''}}":           "innodb-flush-method must be fsync",
	"{size: custom}":                                     "spec.size",
	"{antiAffinity: Never}":                              "spec.antiAffinity",
	"{timeZone: 'a b'}":                                  "spec.timeZone",
	"{service: {type: ExternalName}}":                    "spec.service.type",
	"{networkPolicy: {additionalPorts: [15008, 3307]}}":  "3307 is for the database's own pods and the operator alone",
	"{networkPolicy: {additionalPorts: [0]}}":            "greater than or equal to 1",
	"{networkPolicy: {additionalPorts: [65536]}}":        "less than or equal to 65535",
	"{networkPolicy: {additionalPorts: [15008, 15008]}}": "Duplicate value",
	"{storage: {autoGrow: {limit: 9Gi}}}":                "limit must not be below size",
	"{storage: {autoGrow: {limit: 20Gi, by: 0%}}}":       "autoGrow.by",
	"{nothing: 1}": "unknown field",
}

// Fields that determine the volumes cannot change.
var mysqlChanges = map[string]struct{ From, To, Message string }{
	"class":                  {"{storage: {storageClassName: a}}", "{storage: {storageClassName: b}}", "a volume stays in its class"},
	"class removed":          {"{storage: {storageClassName: a}}", "{}", "a volume stays in its class"},
	"class added":            {"{}", "{storage: {storageClassName: a}}", "a volume stays in its class"},
	"storage grows":          {"{storage: {size: 1Gi}}", "{storage: {size: 2Gi}}", ""},
	"storage shrinks":        {"{storage: {size: 20Gi}}", "{}", "size may not shrink"},
	"the same storage":       {"{storage: {size: 1024Mi}}", "{storage: {size: 1Gi}}", ""},
	"an upgrade":             {"{image: 'mysql:8.4.9'}", "{image: 'mysql:9.7.1'}", ""},
	"a downgrade":            {"{image: 'mysql:9.7.1'}", "{image: 'mysql:8.4.9'}", "an older server cannot read the data"},
	"fewer pods than needed": {"{replication: {primary: 2}}", "{replicas: 2, replication: {primary: 2}}", "must be the ordinal of a member"},
	"all else":               {"{}", "{replicas: 5, paused: true, config: {max_connections: '9'}, replication: {acceptLoss: 1-1-a}}", ""},
}

// mysqlKind describes the API of MySQLCluster.
var mysqlKind = clusterKind{
	Kind: mysqlv1.GroupVersion.WithKind(mysqlv1.Kind), CRD: "../../config/crd/bases/d3os-product.com.d3os_mysqlclusters.yaml",
	Accepted: mysqlAccepted, Refused: mysqlRefused, Changes: mysqlChanges,
	Samples:   []string{"../../config/samples/mysql/mysql.yaml", "../../config/samples/mysql/production.yaml"},
	Scales:    []string{"5", "0"}, // 0 parks the database
	ShortName: "myc",
	Columns: []string{
		"Ready .status.ready", "Primary .status.primary", "Version .status.version", "Phase .status.phase", "Message .status.message",
		"Age .metadata.creationTimestamp",
	},
}

func TestMySQLCluster(t *testing.T) {
	t.Parallel()
	mysqlKind.Test(t)
}

// The Go types decode a MySQLCluster with the defaults that the API server has set. The observedGeneration of a new MySQLCluster is
// -1, because no operator has observed it.
func TestDefaultsOfMySQLCluster(t *testing.T) {
	t.Parallel()
	assert.NilError(t, api.Create(t.Context(), newResource(t, mysqlKind.Kind, "defaults", "{}")))
	my := &mysqlv1.MySQLCluster{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "defaults"}, my))
	assert.Equal(t, my.Status.ObservedGeneration, int64(-1))
	assert.Equal(t, *my.Spec.Replicas, int32(3))
	assert.Equal(t, my.Spec.Storage.Size.String(), "10Gi")
	assert.Equal(t, my.Spec.Replication, mysqlv1.Replication{WhenAlone: mysqlv1.WhenAloneWrite, Failover: mysqlv1.FailoverAutomatic, MaxLag: "10s"})
	assert.Equal(t, my.Spec.Service.Type, mysqlv1.ServiceType("ClusterIP"))
	my.Status.Phase, my.Status.ObservedGeneration = mysqlv1.PhaseRunning, 1
	assert.NilError(t, api.Status().Update(t.Context(), my))
	assert.Equal(t, my.Status.ObservedGeneration, int64(1))
	// A client with Go types sends only fields that its user has set.
	typed := &mysqlv1.MySQLCluster{}
	typed.Namespace, typed.Name = "default", "typed"
	assert.NilError(t, api.Create(t.Context(), typed))
	assert.Equal(t, *typed.Spec.Replicas, int32(3))
}
