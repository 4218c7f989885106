// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"gotest.tools/v3/assert"
)

// etcdViolations are those of the rules for spec.etcd.
func etcdViolations() map[string][]violation {
	const secrets = "serverSecret: a, peerSecret: b, clientSecret: c"
	return map[string][]violation{
		"kind ThirdParty needs the thirdParty block with the url of the etcd cluster": {
			{field: ".thirdParty", value: "{kind: ThirdParty}"}, {field: ".thirdParty", value: "{kind: ThirdParty, thirdParty: null}"},
		},
		"must be 'Retain': the operator never deletes the data of etcd. Delete the volume claims yourself when you need them no more": {
			{field: ".storage.retention", value: "{storage: {retention: Delete}}"},
		},
		"may not be changed while etcd runs in the cluster: under another name etcd starts without its data. Set the name back, or remove spec.etcd first to start anew": {
			{field: ".name", before: "{name: a}", value: "{name: b}"}, {field: ".name", before: "{}", value: "{name: b}"},
			{field: ".name", before: "{name: a}", value: "{name: null}"}, {field: ".name", before: "{kind: Managed, name: a}", value: "{name: etcd}"},
		},
		"mode may be changed only while replicas is 0: members with different modes cannot talk to each other. Set replicas to 0, change the mode, and set replicas back": {
			{field: ".tls", before: "{}", value: "{tls: {mode: Auto}}"}, {field: ".tls", before: "{tls: {mode: Auto}}", value: "{}"},
			{field: ".tls", before: "{tls: {mode: Auto}}", value: "{replicas: 0, tls: {mode: 'Off'}}"},
		},
		"serverSecret, peerSecret and clientSecret must be given when mode is 'Secrets', and may not be given otherwise": {
			{value: "{mode: Secrets, serverSecret: a}"}, {value: "{mode: Auto, " + secrets + "}"}, {value: "{mode: 'Off', clientSecret: a}"},
		},
		"may be given only with a url that begins with https://": {
			{field: ".tlsSecret", value: "{url: 'http://a', tlsSecret: b}"},
		},
		"the name of a flag must consist of small letters, digits and '-', without dashes before it": {
			{value: "{Log-Level: a}"}, {value: "{--log-level: a}"}, {value: "{'': a}"},
		},
		"may not be set together with an additional service or cron job named 'etcd': give that another name": {
			{field: ".etcd", value: "etcd: {}\nadditionalServices: [{name: a, image: a}, {name: etcd, image: a}]"},
			{field: ".etcd", value: "etcd: {}\ncronJobs: [{name: etcd, image: a, schedule: '@daily'}]"},
		},
	}
}

// What is well with spec.etcd, and what may change.
func TestEtcdMayChange(t *testing.T) {
	t.Parallel()
	const elsewhere = "kind: ThirdParty, thirdParty: {url: 'https://a:7000,b,[2001:db8::1]:7000', tlsSecret: c}"
	for name, test := range map[string][2]string{
		"added":                  {"{}", "etcd: {}"},
		"taken out":              {"etcd: {name: a, tls: {mode: Auto}}", "{}"},
		"null":                   {"etcd: null", "etcd: {storage: null, replicas: null, tls: null, recovery: null}"},
		"the default name, told": {"etcd: {}", "etcd: {name: etcd, kind: Managed, tls: {mode: 'Off'}}"},
		"elsewhere":              {"etcd: {name: a, tls: {mode: Auto}}", "etcd: {name: c, " + elsewhere + "}"},
		"back":                   {"etcd: {name: c, " + elsewhere + "}", "etcd: {name: a, tls: {mode: Auto}}"},
		"more members":           {"etcd: {}", "etcd: {replicas: 9}"},
		"tls while parked":       {"etcd: {replicas: 0}", "etcd: {replicas: 0, tls: {mode: Auto}}"},
		"a service of that name": {"{}", "additionalServices: [{name: etcd, image: a}]"},
		"a recovery":             {"etcd: {}", "etcd: {recovery: {from: etcd-1, token: 2026-01-01.a}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.NilError(t, update(t, resourceOf(t, test[0]), resourceOf(t, test[1])))
		})
	}
}
