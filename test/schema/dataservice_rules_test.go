// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// violation is a value that a rule refuses, and the path of the field that the error names. Value and field are relative to the path of the
// rule.
type violation struct {
	field, value, before string
}

// violations returns the violations of each rule, by message. %u is replaced by the url of a third party, %r by the other required fields
// of a service or cron job.
func violations() map[string][]violation {
	const thirdParty = "uuc: {kind: 3, thirdParty: {url: 'http://a'}}"
	found := map[string][]violation{
		"2380 and 16379 are for the members of etcd and Redis alone": {
			{value: "[2380]"},
			{value: "[15008, 16379]"},
		},
		"uuc is of kind ThirdParty by default: set spec.uuc.thirdParty.url, or another kind with image and port": {
			{field: ".uuc.thirdParty", value: "uuc: {}"},
			{field: ".uuc.thirdParty", value: "uuc: {kind: null, thirdParty: null}"},
		},
		"the url of uuc must be http:// or https://": {
			{field: ".uuc.thirdParty.url", value: "uuc: {thirdParty: {url: 'mysql://a'}}"},
		},
		"the url of eureka must be http:// or https://": {
			{field: ".eureka.thirdParty.url", value: "eureka: {kind: 3, thirdParty: {url: 'mysql://a'}}"},
		},
		"must have numbers in bounds: second and minute 0-59, hour 0-23, day 1-31, month 1-12, day of the week 0-6": {
			{value: "'99 99 99 99 99'"}, {value: "'60 * * * *'"}, {value: "'1-60/7 * * * *'"}, {value: "'* 24 * * *'"}, {value: "'* * 0 * *'"}, {value: "'* * 1,32 * *'"},
			{value: "'* * * 0-3 *'"}, {value: "'* * * 13 *'"}, {value: "'* * * * 7'"}, {value: "'* * * * 1-10'"},
		},
		"is required with a schedule of seconds: it is started at each tick, and the image's own entrypoint is not known": {
			{field: ".command", value: "{name: a, image: a, schedule: '* * * * * *'}"},
			{field: ".command", value: "{name: a, image: a, schedule: '0-1  * * * * *', command: [], args: [a]}"},
		},
		"may not be set with a schedule of seconds: its runs leave no Jobs. Remove it": {
			{field: ".successfulJobsHistoryLimit", value: "{name: a, image: a, schedule: '*/5 * * * * *', command: [a], successfulJobsHistoryLimit: 0}"},
			{field: ".failedJobsHistoryLimit", value: "{name: a, image: a, schedule: '1 * * * * *', command: [a], failedJobsHistoryLimit: 3}"},
		},
		"may not be set with a schedule of seconds: a failed run is not tried again before the next tick. Remove it": {
			{field: ".backoffLimit", value: "{name: a, image: a, schedule: '1 * * * * *', command: [a], backoffLimit: 0}"},
		},
		"may not be 'Never' with a schedule of seconds: a failed run is not tried again before the next tick. Remove it": {
			{field: ".restartPolicy", value: "{name: a, image: a, schedule: '1 * * * * *', command: [a], restartPolicy: Never}"},
		},
		"may not be set with a schedule of seconds: the pod is ready while the last run succeeded. Remove it": {
			{field: ".probes", value: "{name: a, image: a, schedule: '1 * * * * *', command: [a], probes: {liveness: {exec: {command: [a]}}}}"},
		},
		"give either s3 or claim": {
			{value: "{}"},
			{value: "{claim: {name: a}, s3: {endpoint: 'https://a', bucket: abc, credentialsSecret: {name: a}}}"},
		},
		"must be set if encryption is set: a check has to open the backup": {
			{field: ".verify.identitySecret", value: "{destination: {claim: {name: a}}, encryption: {recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}, verify: {schedule: '@weekly'}}"},
		},
		"needs a mysql with a volume in the cluster: kind StatefulSet or Deployment": {
			{field: ".backup", value: "{kind: DaemonSet, backup: {destination: {claim: {name: a}}}}"},
			{field: ".backup", value: "{kind: 3, thirdParty: {url: 'mysql://a:3306'}, backup: {destination: {claim: {name: a}}}}"},
		},
		"needs a mysql with a volume in the cluster: only kind StatefulSet or Deployment has one": {
			{field: ".restoreFrom", value: "{kind: 2, restoreFrom: {destination: {claim: {name: a}}}}"},
			{field: ".restoreFrom", value: "{kind: 3, thirdParty: {url: 'mysql://a:3306'}, restoreFrom: {destination: {claim: {name: a}}}}"},
		},
		"needs a mysql with a volume (kind StatefulSet or Deployment), and no restoreFrom": {
			{field: ".importFrom", value: "{kind: 2, importFrom: {host: a, credentialsSecret: {name: a}}}"},
			{field: ".importFrom", value: "{kind: 3, thirdParty: {url: 'mysql://a:3306'}, importFrom: {host: a, credentialsSecret: {name: a}}}"},
			{field: ".importFrom", value: "{restoreFrom: {destination: {claim: {name: a}}}, importFrom: {host: a, credentialsSecret: {name: a}}}"},
		},
		"the url of mysql must be mysql://host:port, without the name of a schema": {
			{field: ".thirdParty.url", value: "{kind: 3, thirdParty: {url: 'mysql://a:3306/schema'}}"},
			{field: ".thirdParty.url", value: "{kind: 3, thirdParty: {url: 'http://a:3306'}}"},
			{field: ".thirdParty.url", value: "{thirdParty: {url: 'https://mysql'}}"},
		},
		"kind must be Deployment (or 0), StatefulSet (1), DaemonSet (2) or ThirdParty (3)": {
			{field: ".kind", value: "{kind: 4, image: a, port: 1}"},
			{field: ".kind", value: "{kind: -1, image: a, port: 1}"},
			{field: ".kind", value: "{kind: Job, image: a, port: 1}"},
			{field: ".kind", value: "{kind: '0', image: a, port: 1}"},
			{field: ".kind", value: "{kind: deployment, image: a, port: 1}"},
			{field: ".kind", value: "{kind: '', image: a, port: 1}"},
		},
		"kind ThirdParty needs the thirdParty block with the url of the middleware": {
			{field: ".thirdParty", value: "{kind: 3}"},
			{field: ".thirdParty", value: "{kind: ThirdParty, thirdParty: null}"},
		},
		"may not be set together with image: image includes the tag": {
			{field: ".version", value: "{kind: 0, image: a, port: 1, version: v1}"},
		},
		"give either secretRef or username and password, not both": {
			{value: "{url: '%u', secretRef: {name: a}, password: b}"},
			{value: "{url: '%u', secretRef: {name: a}, username: b}"},
		},
		"the name of an environment variable must consist of letters, digits, '_', '-' or '.' and not start with a digit": {
			{value: "{'1A': b}"}, {value: "{'': b}"}, {value: "{'A B': b}"}, {value: "{A: b, 'A=B': b}"}, {value: "{'$(A)': b}"},
		},
		"size must be a quantity above zero, such as 10Gi": {
			{value: "0"}, {value: "'0'"}, {value: "-1Gi"},
		},
		"limit must not be below size: a volume never shrinks": {
			{field: ".autoGrow", value: "{autoGrow: {limit: 9Gi}}"}, {field: ".autoGrow", value: "{size: 20Gi, autoGrow: {limit: 20479Mi}}"},
		},
		"storageClassName may not be changed: a volume stays in its class": {
			{field: ".storageClassName", before: "{storageClassName: a}", value: "{storageClassName: b}"},
			{field: ".storageClassName", before: "{storageClassName: a}", value: "{}"},
			{field: ".storageClassName", before: "{}", value: "{storageClassName: b}"},
		},
		"accessMode may not be changed: a volume keeps its access mode. Restore a backup into a volume of the other mode: DataRestore, spec.storage.accessMode": {
			{field: ".accessMode", before: "{}", value: "{accessMode: ReadWriteOncePod}"},
			{field: ".accessMode", before: "{accessMode: ReadWriteOncePod}", value: "{accessMode: ReadWriteOnce}"},
			{field: ".accessMode", before: "{accessMode: ReadWriteOncePod}", value: "{accessMode: null}"},
		},
		"must not be 'root' or 'dataservice', which exist already: choose another name": {
			{field: ".name", value: "{name: root}"}, {field: ".name", value: "{name: dataservice, databases: [a]}"},
		},
		"uuc has no default image: set spec.uuc.image and spec.uuc.port, or kind: ThirdParty": {
			{field: ".uuc", value: "uuc: {kind: 0}"},
			{field: ".uuc", value: "uuc: {kind: StatefulSet, image: a}"},
			{field: ".uuc", value: "uuc: {kind: DaemonSet, port: 80}"},
		},
		"auth needs uuc: declare spec.uuc (kind: ThirdParty for one that runs elsewhere) or remove spec.auth": {
			{field: ".uuc", value: "mysql: {}\neureka: {}\nauth: {}"},
			{field: ".uuc", value: "mysql: {}\neureka: {}\nauth: {}\nuuc: null"},
		},
		"must be set: an additional service has no built-in image": {
			{field: ".image", value: "{name: own}"}, {field: ".image", value: "{name: own, image: null}"},
		},
		"resources is required with size 'custom' and may not be set with the other sizes": {
			{field: ".size", value: "{name: own, %r, size: custom}"},
			{field: ".size", value: "{name: own, %r, size: custom, resources: null}"},
			{field: ".size", value: "{name: own, %r, size: small, resources: {}}"},
		},
		"must be 'small', 'medium' or 'large': set 'custom' with resources on the component itself": {{value: "custom"}},
		"max must not be less than min": {
			{field: ".max", value: "{min: 3, max: 2}"}, {field: ".max", value: "{min: 1000, max: 999, cpu: 70}"},
		},
	}
	for _, violations := range []map[string][]violation{redisViolations(), etcdViolations(), mongoDBViolations(), replicationViolations()} {
		for message, cases := range violations {
			found[message] = append(found[message], cases...)
		}
	}
	const taken = "must not be the name of a built-in component, nor 'platform': choose another name"
	for name := range specOfComponents() {
		if name == "redis" || name == "etcd" || name == "mongodb" { // separate rules handle additionalServices with these names
			continue
		}
		found[taken] = append(found[taken], violation{field: ".name", value: fmt.Sprintf("{name: %s, %%r}", name)})
	}
	for _, service := range []string{"api-manager", "auth", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy"} {
		for missing, other := range map[string]string{"mysql": "eureka", "eureka": "mysql"} {
			message := fmt.Sprintf("%s needs %s: declare spec.%s (kind: ThirdParty for one that runs elsewhere) or remove spec.%s", service, missing, missing, service)
			found[message] = []violation{
				{field: "." + missing, value: fmt.Sprintf("%s: {}\n%s: {}\n%s", service, other, thirdParty)},
				{field: "." + missing, value: fmt.Sprintf("%s: {}\n%s: {}\n%s: null\n%s", service, other, missing, thirdParty)},
			}
		}
	}
	return found
}

// specOfComponents returns the fields of the spec that are components, and platform, which stands for the fields common to all components.
func specOfComponents() map[string]bool {
	names := map[string]bool{"platform": true}
	spec := reflect.TypeFor[dsv1.DataServiceSpec]()
	for i := range spec.NumField() {
		if field := spec.Field(i); field.Type.Kind() == reflect.Pointer {
			if _, ok := field.Type.Elem().FieldByName("DependsOn"); ok {
				names[strings.TrimSuffix(field.Tag.Get("json"), ",omitempty")] = true
			}
		}
	}
	return names
}

// Every rule of the CRD refuses its violations at every path. The error contains the rule's message and no other message. At the rule's
// first path, all violations are tested; at other paths, one.
func TestEveryRuleRefuses(t *testing.T) {
	t.Parallel()
	cases := violations()
	used := map[string]bool{}
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		for _, rule := range schema.XValidations {
			of := cases[rule.Message]
			assert.Assert(t, len(of) > 0, "%s: there is no case for the rule %q", where, rule.Message)
			if used[rule.Message] {
				of = of[:1]
			}
			used[rule.Message] = true
			for i, v := range of {
				t.Run(fmt.Sprintf("%s/%.30s/%d", where, rule.Message, i), func(t *testing.T) {
					t.Parallel()
					object := func(value string) *unstructured.Unstructured {
						return withSpec(put(where, valueOf(t, where, value)))
					}
					var err error
					if v.before == "" {
						err = validate(t, object(v.value))
					} else {
						err = update(t, object(v.before), object(v.value))
					}
					assertCause(t, err, where.String()+v.field, rule.Message)
				})
			}
		}
	})
	assert.Equal(t, len(used), len(cases), "a case has no rule")
}

// valueOf returns a violation's value for one place.
func valueOf(t *testing.T, where at, value string) any {
	t.Helper()
	component, rest := "", "image: a"
	if len(where) > 0 {
		component = where[0]
	}
	if component == "cronJobs" {
		rest = "image: a, schedule: '@daily'"
	}
	var found any
	assert.NilError(t, yaml.Unmarshal([]byte(strings.NewReplacer("%u", urlOf(component), "%r", rest).Replace(value)), &found))
	return found
}

func TestTheRuleForTheName(t *testing.T) {
	t.Parallel()
	rules := readCRD(t, crdFile).Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations
	assert.Equal(t, len(rules), 1)
	object := resourceOf(t, "{}")
	object.SetName(strings.Repeat("a", 51))
	const message = "metadata.name must have at most 50 characters: it becomes a label value and a part of object names"
	assert.Equal(t, rules[0].Message, message)
	assertCause(t, validate(t, object), "<nil>", message) // the API server has no path for the whole object
	object.SetName(strings.Repeat("a", 50))
	assert.NilError(t, validate(t, object))
}

// assertCause requires that an error has exactly one cause, with this field and message.
func assertCause(t *testing.T, err error, field, message string) {
	t.Helper()
	var status apierrors.APIStatus
	assert.Assert(t, apierrors.IsInvalid(err) && errors.As(err, &status), "%v", err)
	found := status.Status().Details.Causes
	assert.Equal(t, len(found), 1, "%v", err)
	assert.Equal(t, found[0].Field, field)
	assert.Assert(t, strings.HasSuffix(found[0].Message, ": "+message), found[0].Message)
}

// update creates a resource, and sends a change of the resource to the API server as a dry run.
func update(t *testing.T, object, changed *unstructured.Unstructured) error {
	t.Helper()
	object.SetName("")
	object.SetGenerateName("changes-")
	assert.NilError(t, api.Create(t.Context(), object))
	changed.SetName(object.GetName())
	changed.SetResourceVersion(object.GetResourceVersion())
	return api.Update(t.Context(), changed, client.DryRunAll)
}
