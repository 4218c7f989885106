// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// SetDefaults sets the same defaults as the API server.
func TestDefaultsAreThoseOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"{}",
		"paused: true",
		"mysql: {}",
		"mysql: null",
		"mysql: {storage: null}",
		"mysql: {storage: {}}",
		"mysql: {storage: {size: null, retention: null}}",
		"mysql: {storage: {size: 20Gi}}",
		"mysql: {storage: {size: 5000000}, replica: null}",
		"mysql: {storage: {retention: Delete, storageClassName: fast}}",
		"mysql: {kind: 3, imagePullPolicy: Always, thirdParty: {url: 'mysql://a', secretRef: {}}}",
		"mysql: {users: [{name: a}], databases: null, initScripts: [{name: a}]}",
		"redis: {}",
		"redis: {storage: null, replicas: null}",
		"redis: {storage: {size: 1Gi, retention: Delete}, replicas: 9}",
		"redis: {replicas: 0}",
		"redis: {kind: ThirdParty, thirdParty: {url: 'redis://a,b'}}",
		"etcd: {}",
		"etcd: {storage: null, replicas: null, tls: null}",
		"etcd: {storage: {size: 1Gi}, replicas: 0, tls: {mode: Auto}}",
		"etcd: {kind: ThirdParty, thirdParty: {url: 'http://a,b'}}",
		"mongodb: {}",
		"mongodb: {storage: null, replicas: null, version: null, database: null}",
		"mongodb: {storage: {size: 1Gi}, replicas: 1, version: 7.0.22, database: orders}",
		"mongodb: {kind: ThirdParty, thirdParty: {url: 'mongodb://a,b/orders'}}",
		"rollout: null",
		"rollout: {order: null}",
		"rollout: {order: Sequential}",
		"{mysql: {replica: 0}, eureka: {replica: 3}, uuc: {image: a, port: 1, kind: 0}, auth: {}, web: {nodePort: null}}",
		"{mysql: {initScripts: null, env: null, dependsOn: null, resources: null}, eureka: {kind: null}}",
		`{mysql: {}, eureka: {}, uuc: {thirdParty: {url: "http://a"}}, api-manager: {}, auth: {}, ds-adapter: {}, es-adapter: {},
			trd-adapter: {}, gateway-master: {}, gateway-web: {}, proxy: {}, web: {}}`,
		`{mysql: {imagePullPolicy: null}, eureka: {imagePullPolicy: Never}, auth: {sessionAffinity: null, strategy: null, imagePullPolicy: null},
			uuc: {thirdParty: {url: "http://a"}}, proxy: {sessionAffinity: ClientIP, strategy: Recreate, imagePullPolicy: Always}}`,
		"{mysql: {}, eureka: {}, proxy: {autoscaling: {max: 2}}, web: {autoscaling: {min: null, max: 3}, ingress: {host: a}}, gateway-web: {autoscaling: {min: 2, max: 3}}}",
		"{mysql: {}, eureka: {}, web: {ingress: {host: a, path: null}}, gateway-master: {ingress: {host: a, path: /b}}, gateway-web: {ingress: null}}",
		"additionalServices: null",
		"additionalServices: [{name: a, image: a}, {name: b, image: b, kind: DaemonSet, strategy: null, ingress: {host: a}, autoscaling: null}]",
		"additionalServices: [{name: a, image: a, kind: null, replica: 0, sessionAffinity: ClientIP, imagePullPolicy: Never, autoscaling: {max: 1}}]",
		"cronJobs: [{name: a, image: a, schedule: '@daily'}]",
		`cronJobs: [{name: a, image: a, schedule: '@daily', suspend: null, concurrencyPolicy: null, successfulJobsHistoryLimit: null,
			failedJobsHistoryLimit: null, backoffLimit: null, restartPolicy: null, imagePullPolicy: null}]`,
		`cronJobs: [{name: a, image: a, schedule: '@daily', suspend: true, concurrencyPolicy: Allow, successfulJobsHistoryLimit: 0,
			failedJobsHistoryLimit: 0, backoffLimit: 0, restartPolicy: Never, imagePullPolicy: Always}]`,
		"{defaults: {}, networkPolicy: {}}",
		"{defaults: {size: null, env: {A: b}}, networkPolicy: {enabled: null, allowFrom: null, additionalPorts: null}}",
		"networkPolicy: {enabled: true}",
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			object := resourceOf(t, spec)
			local := decode(t, object)
			assert.NilError(t, validate(t, object))
			remote := decode(t, object)

			dsv1.SetDefaults(local)
			assert.DeepEqual(t, asJSON(t, local.Spec), asJSON(t, remote.Spec))

			again := remote.DeepCopy()
			dsv1.SetDefaults(again)
			assert.DeepEqual(t, asJSON(t, again.Spec), asJSON(t, remote.Spec))
		})
	}
}

const (
	mysqlElsewhere   = "kind: ThirdParty, thirdParty: {url: 'mysql://example.com'}"
	redisElsewhere   = "kind: ThirdParty, thirdParty: {url: 'redis://a:7000,b,[2001:db8::1]:7000'}"
	etcdElsewhere    = "kind: ThirdParty, thirdParty: {url: 'https://a:7000,b,[2001:db8::1]:7000', tlsSecret: c}"
	mongoDBElsewhere = "kind: ThirdParty, thirdParty: {url: 'mongodb://a:7000,b,[2001:db8::1]:7000/orders?replicaSet=rs0&tls=true', secretRef: {name: c}}"
)

// mayChange contains changes that the API server accepts.
var mayChange = map[string]map[string][2]string{
	// A new name of mysql creates a new volume. So the name may change only while mysql has no volume. The name of
	// middleware without data may change. A removed mysql may be declared again under another name, because its volume
	// was retained under the old name.
	"names": {
		"the default, set":                    {"mysql: {}", "mysql: {name: mysql-dataservice}"},
		"the default, removed":                {"mysql: {name: mysql-dataservice}", "mysql: {name: null}"},
		"the same, of another kind":           {"mysql: {name: a}", "mysql: {name: a, kind: Deployment}"},
		"mysql added":                         {"{}", "mysql: {name: a}"},
		"mysql taken out":                     {"mysql: {name: a}", "{}"},
		"of mysql elsewhere":                  {"mysql: {name: a, " + mysqlElsewhere + "}", "mysql: {name: b, " + mysqlElsewhere + "}"},
		"of a third-party mysql, as 3":        {"mysql: {name: a, kind: 3, thirdParty: {url: 'mysql://example.com'}}", "mysql: {name: b, kind: 3, thirdParty: {url: 'mysql://example.com'}}"},
		"of mysql that becomes a third party": {"mysql: {name: a}", "mysql: {name: b, " + mysqlElsewhere + "}"},
		"of mysql that becomes managed":       {"mysql: {name: a, " + mysqlElsewhere + "}", "mysql: {name: b}"},
		"of eureka":                           {"eureka: {name: a}", "eureka: {name: b}"},
		"of uuc":                              {"uuc: {name: a, thirdParty: {url: 'http://a'}}", "uuc: {thirdParty: {url: 'http://a'}}"},
	},
	"volumes": {
		"larger":          {"mysql: {}", "mysql: {storage: {size: 11Gi}}"},
		"in another unit": {"mysql: {storage: {size: 1Gi}}", "mysql: {storage: {size: 1025Mi}}"},
		"the same":        {"mysql: {storage: {size: 1Gi}}", "mysql: {storage: {size: 1024Mi}}"},
		"as a number":     {"mysql: {storage: {size: 1000}}", "mysql: {storage: {size: 1Ki}}"},
		// A user can restore the old size if the class cannot expand volumes. The operator compares the size with that of the claim.
		"smaller":            {"mysql: {storage: {size: 20Gi}}", "mysql: {storage: {size: 10Gi}}"},
		"back to none":       {"mysql: {storage: {size: 20Gi}}", "mysql: {}"},
		"the same class":     {"mysql: {storage: {storageClassName: a}}", "mysql: {storage: {storageClassName: a, retention: Delete}}"},
		"no class":           {"mysql: {storage: {storageClassName: null}}", "mysql: {}"},
		"no class, the same": {"mysql: {}", "mysql: {storage: {storageClassName: null}}"},
		"mysql added":        {"{}", "mysql: {storage: {size: 1Gi, storageClassName: a}}"},
		"the mode is given":  {"mysql: {}", "mysql: {storage: {accessMode: ReadWriteOnce}}"},
		"mysql removed":      {"mysql: {storage: {storageClassName: a}}", "{}"},
	},
	"redis": {
		"added":                      {"{}", "redis: {}"},
		"taken out":                  {"redis: {name: a, credentialsSecret: b}", "{}"},
		"null":                       {"redis: null", "redis: {storage: null, replicas: null}"},
		"the default name is given":  {"redis: {}", "redis: {name: redis, kind: Managed}"},
		"to a third party":           {"redis: {name: a, credentialsSecret: b}", "redis: {name: c, " + redisElsewhere + "}"},
		"back from a third party":    {"redis: {name: c, " + redisElsewhere + "}", "redis: {name: a, credentialsSecret: b, storage: {retention: Delete}}"},
		"more pods":                  {"redis: {}", "redis: {replicas: 7}"},
		"retention":                  {"redis: {storage: {retention: Delete}}", "redis: {storage: {retention: Retain}}"},
		"retention of a third party": {"redis: {storage: {retention: Delete}, " + redisElsewhere + "}", "redis: {" + redisElsewhere + "}"},
		"a service of that name":     {"{}", "additionalServices: [{name: redis, image: a}]"},
		"a cron job of that name":    {"{}", "cronJobs: [{name: redis, image: a, schedule: '@daily'}]"},
		"a Secret for a third party": {"{}", "redis: {kind: ThirdParty, thirdParty: {url: 'redis://a', secretRef: {name: b}}}"},
	},
	"etcd": {
		"added":                     {"{}", "etcd: {}"},
		"taken out":                 {"etcd: {name: a, tls: {mode: Auto}}", "{}"},
		"null":                      {"etcd: null", "etcd: {storage: null, replicas: null, tls: null, recovery: null}"},
		"the default name is given": {"etcd: {}", "etcd: {name: etcd, kind: Managed, tls: {mode: 'Off'}}"},
		"to a third party":          {"etcd: {name: a, tls: {mode: Auto}}", "etcd: {name: c, " + etcdElsewhere + "}"},
		"back from a third party":   {"etcd: {name: c, " + etcdElsewhere + "}", "etcd: {name: a, tls: {mode: Auto}}"},
		"more members":              {"etcd: {}", "etcd: {replicas: 9}"},
		"tls while parked":          {"etcd: {replicas: 0}", "etcd: {replicas: 0, tls: {mode: Auto}}"},
		"a service of that name":    {"{}", "additionalServices: [{name: etcd, image: a}]"},
		"a recovery":                {"etcd: {}", "etcd: {recovery: {from: etcd-1, token: 2026-01-01.a}}"},
	},
	"mongodb": {
		"added":                     {"{}", "mongodb: {}"},
		"taken out":                 {"mongodb: {name: a, database: b}", "{}"},
		"null":                      {"mongodb: null", "mongodb: {storage: null, replicas: null, config: null}"},
		"the default name is given": {"mongodb: {}", "mongodb: {name: mongodb, kind: Managed, database: dataservice}"},
		"to a third party":          {"mongodb: {name: a, database: b}", "mongodb: {name: c, database: d, " + mongoDBElsewhere + "}"},
		"back from a third party":   {"mongodb: {name: c, " + mongoDBElsewhere + "}", "mongodb: {name: a, database: b}"},
		"more members":              {"mongodb: {}", "mongodb: {replicas: 5}"},
		"a newer version":           {"mongodb: {version: 7.0.22}", "mongodb: {version: 10.0.0}"},
		"an older patch":            {"mongodb: {version: 8.0.12}", "mongodb: {version: 8.0.1}"},
		"a service of that name":    {"{}", "additionalServices: [{name: mongodb, image: a}]"},
		"a mongodb+srv url":         {"{}", "mongodb: {kind: ThirdParty, thirdParty: {url: 'mongodb+srv://a.example.com/orders?w=majority', checkCMD: 'exit 0'}}"},
	},
}

func TestWhatMayChange(t *testing.T) {
	t.Parallel()
	for of, changes := range mayChange {
		for name, change := range changes {
			t.Run(of+"/"+name, func(t *testing.T) {
				t.Parallel()
				assert.NilError(t, update(t, resourceOf(t, change[0]), resourceOf(t, change[1])))
			})
		}
	}
}
