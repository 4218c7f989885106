// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
)

// A change of the spec is written to the objects that it touches, once, and to no others. It costs no read.
func TestChangesReachOnlyWhatTheyTouch(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(sample())
	const port, nodePort = 9194, 31917
	const unusual = "a\x7fb\u0085c\u2028d\ufeffe\uffff: # f" // JSON has it as it is, YAML does not
	for _, c := range []struct {
		what    string
		change  fields
		reaches []string
		holds   func() bool
	}{
		{"scale", fields{"auth": fields{"replica": 2}}, []string{"Deployment/auth", "PodDisruptionBudget/auth"},
			func() bool { return harness.Lookup[*appsv1.Deployment](e.Journal, "auth").Status.ReadyReplicas == 2 }},
		{"scale to nothing", fields{"es-adapter": fields{"replica": 0}}, []string{"Deployment/es-adapter"},
			func() bool { return harness.Lookup[*appsv1.Deployment](e.Journal, "es-adapter").Status.Replicas == 0 }},
		{"image", fields{"auth": fields{"image": "registry.example/auth:v2"}}, []string{"Deployment/auth"},
			func() bool { return e.runs("auth", "registry.example/auth:v2") }},
		{"image of mysql", fields{"mysql": fields{"image": "registry.example/mysql:v2"}}, []string{"StatefulSet/mysql-dataservice"},
			func() bool { return e.runs("mysql", "registry.example/mysql:v2") }},
		{"env", fields{"api-manager": fields{"env": fields{"writer": nil, "reader": "x", "TZ": "UTC"}}}, []string{"Deployment/api-manager"},
			func() bool {
				env := map[string]string{}
				for _, v := range pod(harness.Lookup[*appsv1.Deployment](e.Journal, "api-manager")).Containers[0].Env {
					env[v.Name] = v.Value
				}
				_, stays := env["writer"]
				return !stays && env["reader"] == "x" && env["TZ"] == "UTC"
			}},
		{"env of unusual characters", fields{"api-manager": fields{"env": fields{"reader": unusual}}}, []string{"Deployment/api-manager"},
			func() bool {
				return slices.Contains(pod(harness.Lookup[*appsv1.Deployment](e.Journal, "api-manager")).Containers[0].Env,
					corev1.EnvVar{Name: "reader", Value: unusual})
			}},
		{"annotation of unusual characters", fields{"eureka": fields{"serviceAnnotations": fields{"note": unusual}}}, []string{"Service/eureka"},
			func() bool {
				return harness.Lookup[*corev1.Service](e.Journal, "eureka").Annotations["note"] == unusual
			}},
		{"resources", fields{"ds-adapter": fields{"resources": fields{"requests": fields{"memory": "2000Mi"}}}}, []string{"Deployment/ds-adapter"},
			func() bool {
				r := pod(harness.Lookup[*appsv1.Deployment](e.Journal, "ds-adapter")).Containers[0].Resources
				return r.Requests.Memory().String() == "2000Mi" && r.Limits == nil && r.Requests.Cpu().IsZero()
			}},
		{"resources unset", fields{"ds-adapter": fields{"resources": nil}}, []string{"Deployment/ds-adapter"},
			func() bool {
				r := pod(harness.Lookup[*appsv1.Deployment](e.Journal, "ds-adapter")).Containers[0].Resources
				return r.Requests.Memory().String() == "1000Mi" && r.Limits.Cpu().String() == "200m"
			}},
		{"node port", fields{"auth": fields{"nodePort": nodePort}}, []string{"Service/auth"},
			func() bool {
				s := harness.Lookup[*corev1.Service](e.Journal, "auth").Spec
				return s.Type == corev1.ServiceTypeNodePort && s.Ports[0].NodePort == nodePort
			}},
		{"node port unset", fields{"auth": fields{"nodePort": 0}}, []string{"Service/auth"},
			func() bool {
				s := harness.Lookup[*corev1.Service](e.Journal, "auth").Spec
				return s.Type == corev1.ServiceTypeClusterIP && s.Ports[0].NodePort == 0
			}},
		{"url of uuc", fields{"uuc": fields{"thirdParty": fields{"url": "https://login.example.org/uuc/"}}},
			[]string{"Service/uuc", "Deployment/uuc-probe", "ConfigMap/auth", "Deployment/auth", "ConfigMap/web", "Deployment/web"},
			func() bool {
				return strings.Contains(harness.Lookup[*corev1.ConfigMap](e.Journal, "auth").Data["application.properties"], "https://login.example.org/uuc/") &&
					harness.Lookup[*corev1.Service](e.Journal, "uuc").Spec.ExternalName == "login.example.org"
			}},
		{"check of uuc", fields{"uuc": fields{"thirdParty": fields{"checkCMD": "true"}}}, []string{"Deployment/uuc-probe"}, nil},
		{"rollout order", fields{"rollout": fields{"order": "Sequential"}}, nil, nil},
		{"dependency", fields{"auth": fields{"dependsOn": []string{"proxy"}}}, nil, nil},
		{"port of proxy", fields{"proxy": fields{"port": port}},
			[]string{"ConfigMap/proxy", "Service/proxy", "Deployment/proxy", "ConfigMap/web-template", "Deployment/web"},
			func() bool {
				return strings.Contains(harness.Lookup[*corev1.ConfigMap](e.Journal, "web-template").Data["default.conf.template"], "proxy."+e.Namespace+".svc:9194") &&
					harness.Lookup[*corev1.Service](e.Journal, "proxy").Spec.Ports[0].Port == port
			}},
		{"url of eureka", fields{"eureka": fields{"port": 8762}},
			append([]string{"Service/eureka", "Deployment/eureka"}, configAndDeployment(backEnds)...), nil},
	} {
		before := versions(e.made())
		mark := op.Mark()
		e.ChangeReady(name, c.change)
		writes := op.Since(mark, harness.Sent.WritesObject)
		e.equal(c.what+": objects written", harness.Objects(writes), c.reaches)
		if len(writes) != len(harness.Objects(writes)) {
			t.Errorf("%s: %d writes for %d objects: %v", c.what, len(writes), len(harness.Objects(writes)), writes)
		}
		// A history that is full is looked at once for each spec, so that its oldest can go.
		if reads := op.Since(mark, func(r harness.Sent) bool { return r.Reads() && !r.ReadsHistory() }); len(reads) > 0 {
			t.Errorf("%s: %v", c.what, reads)
		}
		if reads := op.Since(mark, func(r harness.Sent) bool { return r.ReadsHistory() }); len(reads) > 1 {
			t.Errorf("%s: the history is read %d times", c.what, len(reads))
		}
		if statuses := op.Since(mark, harness.Sent.WritesStatus); len(statuses) > 3+2*len(c.reaches) {
			t.Errorf("%s: %d status writes", c.what, len(statuses))
		}
		after := versions(e.made())
		for _, id := range c.reaches {
			if before[id] == after[id] {
				t.Errorf("%s: %s has not changed", c.what, id)
			}
			delete(before, id)
		}
		for id, version := range before {
			if after[id] != version {
				t.Errorf("%s: %s has changed", c.what, id)
			}
		}
		if c.holds != nil {
			e.Until(c.what, func() error { return unless(c.holds(), "it is not what runs") })
		}
	}
}

func configAndDeployment(components []string) []string {
	var found []string
	for _, c := range components {
		found = append(found, "ConfigMap/"+c, "Deployment/"+c)
	}
	return found
}

// runs reports whether all pods of a component have an image.
func (e *env) runs(component, image string) bool {
	pods := e.pods(component)
	for _, p := range pods {
		if p.Spec.Containers[0].Image != image {
			return false
		}
	}
	return len(pods) > 0
}

// pods returns the pods of a component that are not being deleted.
func (e *env) pods(component string) []*corev1.Pod {
	var found []*corev1.Pod
	for _, p := range harness.Every[*corev1.Pod](e.Journal) {
		if p.Labels["app.kubernetes.io/name"] == component && p.DeletionTimestamp == nil {
			found = append(found, p)
		}
	}
	return found
}

// versions returns what changes with every write: the generation of workloads, whose status
// is others' business, and the resource version of the rest.
func versions(objects []client.Object) map[string]any {
	found := map[string]any{}
	for _, object := range objects {
		found[harness.IDOf(object)] = object.GetResourceVersion()
		if object.GetGeneration() > 0 {
			found[harness.IDOf(object)] = object.GetGeneration()
		}
	}
	return found
}
