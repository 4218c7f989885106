// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"reflect"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/utils/ptr"
)

// SetDefaults does what the API server does.
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
		"redis: {kind: ThirdParty, thirdParty: {url: 'redis://a,b'}}",
		"etcd: {}",
		"etcd: {storage: null, replicas: null, tls: null}",
		"etcd: {storage: {size: 1Gi}, replicas: 0, tls: {mode: Auto}}",
		"etcd: {kind: ThirdParty, thirdParty: {url: 'http://a,b'}}",
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

			SetDefaults(local)
			for _, replica := range replicas(local) {
				if *replica == nil { // which means 1, the only default that SetDefaults leaves to others
					*replica = ptr.To[int32](1)
				}
			}
			assert.DeepEqual(t, asJSON(t, local.Spec), asJSON(t, remote.Spec))

			again := remote.DeepCopy()
			SetDefaults(again)
			assert.DeepEqual(t, asJSON(t, again.Spec), asJSON(t, remote.Spec))
		})
	}
}

// replicas are the fields replica of all components.
func replicas(ds *DataService) []**int32 {
	var found []**int32
	var visit func(reflect.Value)
	visit = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				visit(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case reflect.Struct:
			if w, ok := v.Addr().Interface().(*Workload); ok {
				found = append(found, &w.Replica)
				return
			}
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					visit(v.Field(i))
				}
			}
		default:
		}
	}
	visit(reflect.ValueOf(&ds.Spec))
	return found
}
