// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

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
		"mode may be changed only while replicas is 0: members with different modes cannot talk to each other. Between Off and the others it may be changed only before the cluster was formed: restore a backup into a new one": {
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
