// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

// The essence of real messages from API servers, controllers, kubelets and registries begins with the cause.
func TestEssenceBeginsWithTheCause(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"":                    "",
		"0/3 nodes are full.": "0/3 nodes are full.",
		// quota, policies and accounts
		`pods "auth-6b7c9-x2x" is forbidden: exceeded quota: limit, requested: pods=1, used: pods=3, limited: pods=3`:                                                                                      "exceeded quota: limit, requested: pods=1, used: pods=3, limited: pods=3",
		`Error creating: pods "auth-6b7c9-x2x" is forbidden: exceeded quota: limit`:                                                                                                                        "exceeded quota: limit",
		`create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: error looking up service account data-prod/database: serviceaccount "database" not found`:                               `serviceaccount "database" not found`,
		`Create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: no PriorityClass with name a was found`:                                                                                 "no PriorityClass with name a was found",
		`create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: disks, requested: requests.storage=20Gi`:                     "exceeded quota: disks, requested: requests.storage=20Gi",
		`pods "a" is forbidden: ValidatingAdmissionPolicy 'teams' with binding 'teams' denied request: no team label`:                                                                                      "policy 'teams' denied request: no team label",
		`pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`:                                                                                                            `violates PodSecurity "restricted:latest": runAsNonRoot != true`,
		`secrets "a" is forbidden: User "u" cannot get resource "secrets" in API group "" in the namespace "n"`:                                                                                            `User "u" cannot get resource "secrets" in API group "" in the namespace "n"`,
		`Internal error occurred: failed calling webhook "pods.example.com": failed to call webhook: Post "https://p.s.svc:443/validate?timeout=10s": dial tcp 10.96.3.4:443: connect: connection refused`: `webhook "pods.example.com" cannot be called: dial tcp 10.96.3.4:443: connect: connection refused`,
		`admission webhook "pods.example.com" denied the request: no team label`:                                                                                                                           `admission webhook "pods.example.com" denied the request: no team label`,
		// fields
		`Service "web" is invalid: spec.ports[0].nodePort: Invalid value: 30180: provided port is already allocated`: "spec.ports[0].nodePort: Invalid value: 30180: provided port is already allocated",
		`Deployment.apps "auth" is invalid: spec.template.spec.containers[0].name: Required value`:                   "spec.template.spec.containers[0].name: Required value",
		// images: containerd, CRI-O, docker
		`failed to pull and unpack image "r.example/a:v9": failed to resolve reference "r.example/a:v9": r.example/a:v9: not found`: "image r.example/a:v9: not found",
		`Back-off pulling image "r.example/a:v9": ErrImagePull: rpc error: code = Unknown desc = failed to pull and unpack image "r.example/a:v9": failed to resolve reference "r.example/a:v9": failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://auth.r.example/token?scope=repository%3Aa%3Apull&service=r.example: 401 Unauthorized`: "image r.example/a:v9: 401 Unauthorized",
		`failed to pull and unpack image "r.example/a:v9": failed to resolve reference "r.example/a:v9": failed to do request: Head "https://r.example/v2/a/manifests/v9": dial tcp: lookup r.example on 10.96.0.10:53: no such host`:                                                                                                                                                      "image r.example/a:v9: dial tcp: lookup r.example on 10.96.0.10:53: no such host",
		`failed to pull and unpack image "r.example/a:v9": failed to copy: httpReadSeeker: failed open: unexpected status code https://r.example/v2/a/blobs/sha256:0: 429 Too Many Requests - Server message: toomanyrequests`:                                                                                                                                                             "image r.example/a:v9: httpReadSeeker: failed open: unexpected status code https://r.example/v2/a/blobs/sha256:0: 429 Too Many Requests - Server message: toomanyrequests",
		`Back-off pulling image "r.example/a:v9"`: `Back-off pulling image "r.example/a:v9"`,
		// volumes
		`0/21 nodes are available: persistentvolumeclaim "there-is-none" not found. not found`: `claim "there-is-none" not found`,
		`Waiting for a volume to be created either by the external provisioner 'example.com/dead' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.`: "no volume from provisioner 'example.com/dead'",
		// nodes
		"0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient memory. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.":                           "0/3 nodes are available: 2 Insufficient memory, 1 node(s) had untolerated taint {a: b}.",
		"0/21 nodes are available: 1 node(s) had untolerated taint(s), 20 Insufficient cpu. no new claims to deallocate, preemption: 0/21 nodes are available: 21 Preemption is not helpful for scheduling.": "0/21 nodes are available: 20 Insufficient cpu, 1 node(s) had untolerated taint(s).",
		"two\nlines\tand  spaces": "two lines and spaces",
	} {
		assert.Equal(t, Essence(message), want)
		assert.Equal(t, Essence(want), want, "the essence of an essence is the same")
	}
}

// The result of Refusal names the refused object before the cause.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`update Service data-prod/web: Service "web" is invalid: spec.ports[0].nodePort: Invalid value: 30180: provided port is already allocated`:                                                                               "Service web: spec.ports[0].nodePort: Invalid value: 30180: provided port is already allocated",
		`create Deployment auth: admission webhook "p" denied the request: no`:                                                                                                                                                   `Deployment auth: admission webhook "p" denied the request: no`,
		`web: create Service data-prod/web: services "web" is forbidden: exceeded quota: q`:                                                                                                                                      "web: Service web: exceeded quota: q",
		`create StatefulSet data-prod/cache-0 without server-side apply: statefulsets.apps "cache-0" is forbidden: exceeded quota: q`:                                                                                            "StatefulSet cache-0: exceeded quota: q",
		`spec.auth: check Deployment data-prod/auth: Deployment.apps "auth" is invalid: spec.template.spec.dnsPolicy: Unsupported value: "a" (its podTemplate or another field of its pods is refused)`:                          `spec.auth: Deployment auth: spec.template.spec.dnsPolicy: Unsupported value: "a" (its podTemplate or another field of its pods is refused)`,
		`step ReplacePod (pod cache-0-1 (a replica) has an older template): to be tried again: delete pod cache-0-1: pods "cache-0-1" is forbidden: User "u" cannot delete resource "pods" in API group "" in the namespace "n"`: `pod cache-0-1: User "u" cannot delete resource "pods" in API group "" in the namespace "n" (step ReplacePod: pod cache-0-1 (a replica) has an older template)`,
		`step CreateClaim (make claim a-restore): make PersistentVolumeClaim a-restore: persistentvolumeclaims "a-restore" is forbidden: exceeded quota: q`:                                                                      "PersistentVolumeClaim a-restore: exceeded quota: q (step CreateClaim: make claim a-restore)",
		`redis.cluster: create StatefulSet data-prod/cache-0: statefulsets.apps "cache-0" is forbidden: exceeded quota: q`:                                                                                                       "StatefulSet cache-0: exceeded quota: q",
		`step CreateJob (make Job now): make Job now of CronJob db-backup: jobs.batch "now" is forbidden: no`:                                                                                                                    "Job now: no (step CreateJob: make Job now)",
		`scale StatefulSet cache-0 to 2 pods: statefulsets.apps "cache-0" is forbidden: no`:                                                                                                                                      "StatefulSet cache-0: no",
		"step Act (): no route":                           "no route (step Act)",
		"Service web exists and belongs to another owner": "Service web exists and belongs to another owner",
	} {
		assert.Equal(t, Refusal(message), want)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abcd", "abcde": "abc…", "ab, de": "ab…", "äöüßé": "äöü…"} {
		assert.Equal(t, Clip(text, 4), want)
		assert.Assert(t, utf8.RuneCountInString(Clip(text, 4)) <= 4)
	}
}
