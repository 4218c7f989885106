// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"gotest.tools/v3/assert"
)

const (
	mysqlElsewhere = "kind: ThirdParty, thirdParty: {url: 'mysql://example.com'}"
	redisElsewhere = "kind: ThirdParty, thirdParty: {url: 'redis://a:7000,b,[2001:db8::1]:7000'}"
	etcdElsewhere  = "kind: ThirdParty, thirdParty: {url: 'https://a:7000,b,[2001:db8::1]:7000', tlsSecret: c}"
)

// mayChange are changes that no rule refuses.
var mayChange = map[string]map[string][2]string{
	// A rename of mysql means another volume. Where there is none yet, or none any more, and for middleware without
	// data, a name may change. So mysql that was taken out may be declared again under another name: its data was
	// retained under the old one, and the author has said twice that this is what is meant.
	"names": {
		"the default, told":           {"mysql: {}", "mysql: {name: mysql-dataservice}"},
		"the default, told no more":   {"mysql: {name: mysql-dataservice}", "mysql: {name: null}"},
		"the same, of another kind":   {"mysql: {name: a}", "mysql: {name: a, kind: Deployment}"},
		"mysql added":                 {"{}", "mysql: {name: a}"},
		"mysql taken out":             {"mysql: {name: a}", "{}"},
		"of mysql elsewhere":          {"mysql: {name: a, " + mysqlElsewhere + "}", "mysql: {name: b, " + mysqlElsewhere + "}"},
		"of mysql elsewhere, as 3":    {"mysql: {name: a, kind: 3, thirdParty: {url: 'mysql://example.com'}}", "mysql: {name: b, kind: 3, thirdParty: {url: 'mysql://example.com'}}"},
		"with mysql moving elsewhere": {"mysql: {name: a}", "mysql: {name: b, " + mysqlElsewhere + "}"},
		"with mysql moving in":        {"mysql: {name: a, " + mysqlElsewhere + "}", "mysql: {name: b}"},
		"of eureka":                   {"eureka: {name: a}", "eureka: {name: b}"},
		"of uuc":                      {"uuc: {name: a, thirdParty: {url: 'http://a'}}", "uuc: {thirdParty: {url: 'http://a'}}"},
	},
	"volumes": {
		"larger":          {"mysql: {}", "mysql: {storage: {size: 11Gi}}"},
		"in another unit": {"mysql: {storage: {size: 1Gi}}", "mysql: {storage: {size: 1025Mi}}"},
		"the same":        {"mysql: {storage: {size: 1Gi}}", "mysql: {storage: {size: 1024Mi}}"},
		"as a number":     {"mysql: {storage: {size: 1000}}", "mysql: {storage: {size: 1Ki}}"},
		// The way back where a class cannot expand its volumes. The operator compares with the claim.
		"smaller":            {"mysql: {storage: {size: 20Gi}}", "mysql: {storage: {size: 10Gi}}"},
		"back to none":       {"mysql: {storage: {size: 20Gi}}", "mysql: {}"},
		"the same class":     {"mysql: {storage: {storageClassName: a}}", "mysql: {storage: {storageClassName: a, retention: Delete}}"},
		"no class":           {"mysql: {storage: {storageClassName: null}}", "mysql: {}"},
		"no class, the same": {"mysql: {}", "mysql: {storage: {storageClassName: null}}"},
		"mysql added":        {"{}", "mysql: {storage: {size: 1Gi, storageClassName: a}}"},
		"the mode, told":     {"mysql: {}", "mysql: {storage: {accessMode: ReadWriteOnce}}"},
		"mysql removed":      {"mysql: {storage: {storageClassName: a}}", "{}"},
	},
	"redis": {
		"added":                    {"{}", "redis: {}"},
		"taken out":                {"redis: {name: a, credentialsSecret: b}", "{}"},
		"null":                     {"redis: null", "redis: {storage: null, replicas: null}"},
		"the default name, told":   {"redis: {}", "redis: {name: redis, kind: Managed}"},
		"elsewhere":                {"redis: {name: a, credentialsSecret: b}", "redis: {name: c, " + redisElsewhere + "}"},
		"back":                     {"redis: {name: c, " + redisElsewhere + "}", "redis: {name: a, credentialsSecret: b, storage: {retention: Delete}}"},
		"more pods":                {"redis: {}", "redis: {replicas: 7}"},
		"retention":                {"redis: {storage: {retention: Delete}}", "redis: {storage: {retention: Retain}}"},
		"retention of one outside": {"redis: {storage: {retention: Delete}, " + redisElsewhere + "}", "redis: {" + redisElsewhere + "}"},
		"a service of that name":   {"{}", "additionalServices: [{name: redis, image: a}]"},
		"a cron job of that name":  {"{}", "cronJobs: [{name: redis, image: a, schedule: '@daily'}]"},
		"a Secret for elsewhere":   {"{}", "redis: {kind: ThirdParty, thirdParty: {url: 'redis://a', secretRef: {name: b}}}"},
	},
	"etcd": {
		"added":                  {"{}", "etcd: {}"},
		"taken out":              {"etcd: {name: a, tls: {mode: Auto}}", "{}"},
		"null":                   {"etcd: null", "etcd: {storage: null, replicas: null, tls: null, recovery: null}"},
		"the default name, told": {"etcd: {}", "etcd: {name: etcd, kind: Managed, tls: {mode: 'Off'}}"},
		"elsewhere":              {"etcd: {name: a, tls: {mode: Auto}}", "etcd: {name: c, " + etcdElsewhere + "}"},
		"back":                   {"etcd: {name: c, " + etcdElsewhere + "}", "etcd: {name: a, tls: {mode: Auto}}"},
		"more members":           {"etcd: {}", "etcd: {replicas: 9}"},
		"tls while parked":       {"etcd: {replicas: 0}", "etcd: {replicas: 0, tls: {mode: Auto}}"},
		"a service of that name": {"{}", "additionalServices: [{name: etcd, image: a}]"},
		"a recovery":             {"etcd: {}", "etcd: {recovery: {from: etcd-1, token: 2026-01-01.a}}"},
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
