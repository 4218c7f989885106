// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// redisViolations are those of the rules for spec.redis.
func redisViolations() map[string][]violation {
	const elsewhere = "kind: ThirdParty, thirdParty: {url: 'redis://a'}"
	return map[string][]violation{
		"kind ThirdParty needs the thirdParty block with the url of the Redis Cluster": {
			{field: ".thirdParty", value: "{kind: ThirdParty}"}, {field: ".thirdParty", value: "{kind: ThirdParty, thirdParty: null}"},
		},
		"must be redis://, without TLS: connections to Redis are not encrypted yet": {
			{field: ".thirdParty.url", value: "{kind: ThirdParty, thirdParty: {url: 'rediss://a:6379'}}"},
			{field: ".thirdParty.url", value: "{thirdParty: {url: 'rediss://a,b'}}"},
		},
		"must have at most 44 characters: it becomes a part of the names of Services and pods": {
			{field: ".name", value: "{name: a23456789012345678901234567890123456789012345}"},
		},
		"may not be changed while redis runs in the cluster: under another name redis starts without its data. Set the name back, or remove spec.redis first to start anew": {
			{field: ".name", before: "{name: a}", value: "{name: b}"}, {field: ".name", before: "{}", value: "{name: b}"},
			{field: ".name", before: "{name: a}", value: "{name: null}"}, {field: ".name", before: "{kind: Managed, name: a}", value: "{name: redis}"},
		},
		"may not be changed while redis runs in the cluster: nodes with different passwords could not replicate from each other": {
			{field: ".credentialsSecret", before: "{}", value: "{credentialsSecret: a}"},
			{field: ".credentialsSecret", before: "{credentialsSecret: a}", value: "{credentialsSecret: b}"},
			{field: ".credentialsSecret", before: "{credentialsSecret: a}", value: "{}"},
		},
		"may not become 'ThirdParty' while storage.retention is 'Delete': the data would be deleted. Set retention to 'Retain' first, or remove spec.redis": {
			{field: ".kind", before: "{storage: {retention: Delete}}", value: "{" + elsewhere + "}"},
			{field: ".kind", before: "{storage: {retention: Delete}}", value: "{storage: {retention: Delete}, " + elsewhere + "}"},
		},
		"the name of a setting must consist of small letters, digits and '-'": {
			{value: "{MaxMemory: 1gb}"}, {value: "{'a b': c}"}, {value: "{'': c}"},
		},
		"may not be set together with an additional service or cron job named 'redis': give that another name": {
			{field: ".redis", value: "redis: {}\nadditionalServices: [{name: a, image: a}, {name: redis, image: a}]"},
			{field: ".redis", value: "redis: {}\ncronJobs: [{name: redis, image: a, schedule: '@daily'}]"},
		},
	}
}
