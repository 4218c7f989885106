// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// seeds are files of users, unchanged.
var seeds = []string{"test/testdata/seeds/appservice.yaml", "test/testdata/seeds/modelbox.yaml", "test/testdata/seeds/crontab.yaml"}

// If only the CRDs of the kinds exist, the operator does nothing, because another operator may have installed the CRDs. It serves the kinds
// once it also has rights to them. The subtests run in this order, because CRDs belong to the whole cluster.
func TestCompat(t *testing.T) {
	e := newEnv(t)
	op := e.Start(asInstalled)
	e.must("apply", "--server-side", "-f", "config/compat/bases")
	reviews := func(r harness.Sent) bool { return strings.Contains(r.String(), "selfsubjectaccessreviews") }
	e.Until("the operator has reviewed its rights to each kind twice", func() error {
		return stage.Unless(len(op.Since(0, reviews)) >= 2+6, "it has not") // the first two reviews are about IngressClasses
	})
	for _, r := range op.Since(0, func(r harness.Sent) bool { return strings.Contains(r.String(), "/crontabs") }) {
		t.Errorf("the operator has no right to CronTabs, and sent %s", r)
	}
	e.must("apply", "-k", "config/compat")
	t.Run("samples", testSamples)
	t.Run("seeds", testSeeds)
	t.Run("scale", testScale)
	t.Run("crontab", testCronTab)
	t.Run("refused", testRefused)
}

// Each field of the users' files takes effect, or the status names the field. kubectl applies the files client-side in one namespace and
// server-side in another. The second namespace has no operator, because a node port can be used only once in a cluster.
func testSeeds(t *testing.T) {
	e, other := newEnv(t), newEnv(t)
	e.Start(asInstalled)
	for _, file := range seeds {
		e.must("apply", "-f", file)
		other.must("apply", "--server-side", "-f", file)
	}
	e.shows("get appservice", "SIZE", "READY", "nginx-app", "2/2", "Running", "2/2 pods are ready")
	e.shows("get modelbox", "REPLICAS", "modelbox-sample", "4/4", "Running")
	e.shows("get ct", "SPEC", "REPLICAS", "my-new-cron-object", "* * * * * *", "False", "spec.command: is required")
	e.must("wait", "--for=condition=Ready", "appservice/nginx-app", "modelbox/modelbox-sample", "--timeout=5m")
	e.must("wait", "--for=condition=Stalled", "crontab/my-new-cron-object", "--timeout=5m")
	const numbers = "jsonpath={.status.replicas} {.status.readyReplicas} {.status.updatedReplicas} {.status.availableReplicas}"
	if out := e.must("get", "appservice", "nginx-app", "-o", numbers); out != "2 2 2 2" {
		e.Errorf("the status has the numbers %s", out)
	}
	for _, file := range seeds { // defaults, and fields that the operator sets, cause no difference
		e.must("diff", "-f", file)
		other.must("diff", "--server-side", "-f", file)
	}
	e.must("patch", "crontab", "my-new-cron-object", "--type=merge", "-p", `{"spec": {"command": ["date"]}}`)
	e.must("wait", "--for=condition=Ready", "crontab/my-new-cron-object", "--timeout=5m")
	e.CatchUp()
	if d := harness.Lookup[*appsv1.Deployment](e.Journal, "my-new-cron-object"); *d.Spec.Replicas != 1 || d.Spec.Template.Spec.InitContainers[0].Image != "example/agent:v1" {
		e.Errorf("the runs are started by %+v", d.Spec)
	}
	for _, port := range []int32{30002, 30010} {
		if !e.nodePorts()[port] {
			e.Errorf("no Service has the node port %d", port)
		}
	}
}

func (e *env) nodePorts() map[int32]bool {
	found := map[int32]bool{}
	for _, service := range harness.Every[*corev1.Service](e.Journal) {
		for _, port := range service.Spec.Ports {
			found[port.NodePort] = true
		}
	}
	return found
}

// kubectl scale changes the number of pods, and of parallel runs.
func testScale(t *testing.T) {
	e := newEnv(t)
	e.Start(asInstalled)
	e.must("create", "-f", "test/compat/testdata/scale.yaml")
	e.must("scale", "appservice/a", "modelbox/b", "crontab/c", "crontab/d", "--replicas=3")
	for _, name := range []string{"a", "b", "c"} {
		e.Until(name+" has three pods", func() error {
			d := harness.Lookup[*appsv1.Deployment](e.Journal, name)
			return stage.Unless(d != nil && d.Status.ReadyReplicas == 3, "it has not")
		})
	}
	e.Until("d runs three pods", func() error {
		job := harness.Lookup[*batchv1.CronJob](e.Journal, "d")
		return stage.Unless(job != nil && ptr.Deref(job.Spec.JobTemplate.Spec.Parallelism, 1) == 3 && ptr.Deref(job.Spec.JobTemplate.Spec.Completions, 1) == 3, "it has not")
	})
	e.shows("get appservice/a modelbox/b crontab/c crontab/d -o jsonpath={.items[*].status.replicas}", "3 3 3 3")
}

// The schedule of a CronTab determines whether a CronJob or a Deployment runs it. 0 replicas suspend it.
func testCronTab(t *testing.T) {
	e := newEnv(t)
	e.Start(asInstalled)
	e.must("create", "-f", "test/compat/testdata/crontab.yaml")
	change := func(spec string) {
		e.Helper()
		e.must("patch", "ct", "a", "--type=merge", "-p", `{"spec": `+spec+`}`)
	}
	is := func(what string, holds func(*batchv1.CronJob, *appsv1.Deployment) bool) {
		e.Helper()
		e.Until(what, func() error {
			return stage.Unless(holds(harness.Lookup[*batchv1.CronJob](e.Journal, "a"), harness.Lookup[*appsv1.Deployment](e.Journal, "a")), "the form is another one")
		})
	}
	is("a CronJob runs", func(job *batchv1.CronJob, d *appsv1.Deployment) bool {
		return job != nil && job.Spec.Schedule == "*/5 * * * *" && !*job.Spec.Suspend && d == nil
	})
	change(`{"cronSpec": "*/10 * * * * *"}`)
	is("a Deployment runs", func(job *batchv1.CronJob, d *appsv1.Deployment) bool {
		return job == nil && d != nil && *d.Spec.Replicas == 1
	})
	e.shows("get ct a", "True", "runs at */10 * * * * *")
	change(`{"replicas": 0}`)
	is("no pod runs", func(_ *batchv1.CronJob, d *appsv1.Deployment) bool { return *d.Spec.Replicas == 0 })
	e.shows("get ct a", "True", "suspended")
	change(`{"cronSpec": "0 */5 * * * *"}`)
	is("the CronJob is suspended", func(job *batchv1.CronJob, d *appsv1.Deployment) bool {
		return job != nil && job.Spec.Schedule == "*/5 * * * *" && *job.Spec.Suspend && d == nil
	})
	e.shows("get ct a", "True", "suspended")
	change(`{"cronSpec": "*/0 * * * *"}`)
	e.shows("get ct a", "False", "spec.cronSpec: the minute '*/0' is refused")
}

// refused maps each kind to specs, and each spec to the API server's error; an empty error means that the API server accepts the spec.
var refused = map[string]map[string]string{
	"app.example.com/v1 AppService": {
		"{image: a}":                     "",
		"{size: 1}":                      "spec.image: Required value",
		"{image: a, size: -1}":           "spec.size: Invalid value",
		"{image: 'a b'}":                 "spec.image: Invalid value",
		"{image: a, ports: [{port: 0}]}": "spec.ports[0].port: Invalid value",
		"{image: a, ports: [{port: 1, targetPort: http}]}":                             "spec.ports[0].targetPort: Invalid value",
		"{image: a, ports: [{port: 1}, {port: 1}]}":                                    "spec.ports: Invalid value: must not have a port twice for one protocol",
		"{image: a, ports: [{port: 1, name: a}, {port: 2, name: a}]}":                  "spec.ports: Invalid value: must have different names",
		"{image: a, ports: [{port: 1}, {port: 1, protocol: UDP}, {port: 2, name: a}]}": "",
		"{image: a, replicas: 2}":                                                      `unknown field "spec.replicas"`,
		"{image: a, ports: null, envs: null, resources: null}":                         "",
	},
	"model.github.com/v1 ModelBox": {
		"{image: a, rollingUpdate: 100%, minReadySeconds: 0}": "",
		"{image: a, rollingUpdate: '30'}":                     "spec.rollingUpdate: Invalid value: \"30\": must be a percentage from 1% to 100%",
		"{image: a, rollingUpdate: 101%}":                     "must be a percentage",
		"{image: a, rollingUpdate: 0%}":                       "must be a percentage",
		"{image: a, ports: [{port: 1}, {port: 1}]}":           "spec.ports: Invalid value: must not have a port twice for one protocol",
		"{image: a, minReadySeconds: -1}":                     "spec.minReadySeconds: Invalid value",
	},
	"stable.example.com/v1 CronTab": {
		"{image: a, cronSpec: '* * * * *'}":                       "",
		"{image: a, cronSpec: '@daily'}":                          "",
		"{image: a, cronSpec: '59 23 31 12 6'}":                   "",
		"{image: a, cronSpec: '59 59 23 31 12 6'}":                "",
		"{image: a, cronSpec: '*/99 */70 1-5/90 JAN-DEC 1,2,03'}": "", // the step of a range (/99) has no upper bound
		"{image: a}":                                                         "spec.cronSpec: Required value",
		"{image: a, cronSpec: '99 99 99 99 99'}":                             "spec.cronSpec: Invalid value: \"99 99 99 99 99\": must have numbers in bounds",
		"{image: a, cronSpec: '60 * * * * *'}":                               "spec.cronSpec: Invalid value: \"60 * * * * *\": must have numbers in bounds",
		"{image: a, cronSpec: '* 60 * * * *'}":                               "must have numbers in bounds",
		"{image: a, cronSpec: '1,2-61/3 * * * *'}":                           "must have numbers in bounds",
		"{image: a, cronSpec: '* 1-24 * * *'}":                               "must have numbers in bounds",
		"{image: a, cronSpec: '* * 0 * *'}":                                  "must have numbers in bounds",
		"{image: a, cronSpec: '* * * 32 * *'}":                               "must have numbers in bounds",
		"{image: a, cronSpec: '* * * 13 *'}":                                 "must have numbers in bounds",
		"{image: a, cronSpec: '* * * * 7'}":                                  "must have numbers in bounds",
		"{image: a, cronSpec: '* * * * * 007'}":                              "must have numbers in bounds",
		"{image: a, cronSpec: '* * * *'}":                                    "must have five fields",
		"{image: a, cronSpec: 'TZ=UTC * * * * *'}":                           "a time zone belongs to timeZone",
		"{image: a, cronSpec: '@every 1s'}":                                  "must have five fields",
		"{image: a, replicas: 101, cronSpec: '@daily'}":                      "spec.replicas: Invalid value",
		"{image: a, cronSpec: '1 * * * * *', successfulJobsHistoryLimit: 3}": "spec.successfulJobsHistoryLimit: Invalid value",
		"{image: a, cronSpec: '1 * * * * *', failedJobsHistoryLimit: 1}":     "spec.failedJobsHistoryLimit: Invalid value",
		"{image: a, cronSpec: '0 * * * * *', failedJobsHistoryLimit: 1, successfulJobsHistoryLimit: 3}": "",
		"{image: a, cronSpec: '@daily', concurrencyPolicy: Never}":                                      "spec.concurrencyPolicy: Unsupported value",
	},
}

// The API server refuses the mistakes that it can check, and its error names the field. It accepts the samples.
func testRefused(t *testing.T) {
	e := newEnv(t)
	e.must("apply", "--dry-run=server", "-f", "config/samples/compat")
	strict := client.WithFieldValidation(suite.API, metav1.FieldValidationStrict)
	for kind, specs := range refused {
		for spec, says := range specs {
			version, name, _ := strings.Cut(kind, " ")
			o := &unstructured.Unstructured{}
			e.Must(yaml.Unmarshal([]byte("{apiVersion: "+version+", kind: "+name+", metadata: {name: a}, spec: "+spec+"}"), &o.Object))
			o.SetNamespace(e.Namespace)
			err := strict.Create(e.Ctx, o, client.DryRunAll)
			switch {
			case says == "" && err != nil:
				e.Errorf("%s %s: %v", name, spec, err)
			case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
				e.Errorf("%s %s: %v, and not %q", name, spec, err, says)
			}
		}
	}
}
