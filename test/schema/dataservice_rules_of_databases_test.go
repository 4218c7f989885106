// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

// redisViolations returns violations of the rules for spec.redis, by the rule's message.
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
		"may not be changed while redis runs in the cluster: under another name redis starts without its data. Set the name back, or remove spec.redis first to start empty": {
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
		"must not be 2: use 1, 3 or 6": {
			{value: "2"},
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

// etcdViolations returns violations of the rules for spec.etcd, by the rule's message.
func etcdViolations() map[string][]violation {
	const secrets = "serverSecret: a, peerSecret: b, clientSecret: c"
	return map[string][]violation{
		"kind ThirdParty needs the thirdParty block with the url of the etcd cluster": {
			{field: ".thirdParty", value: "{kind: ThirdParty}"}, {field: ".thirdParty", value: "{kind: ThirdParty, thirdParty: null}"},
		},
		"must be 'Retain': the operator never deletes the data of etcd. Delete the volume claims yourself when you need them no more": {
			{field: ".storage.retention", value: "{storage: {retention: Delete}}"},
		},
		"may not be changed while etcd runs in the cluster: under another name etcd starts without its data. Set the name back, or remove spec.etcd first to start empty": {
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
		"a flag that the operator sets itself, such as data-dir, initial-cluster, listen-client-urls or cert-file, may not be given; auto-compaction is maintenance.compaction": {
			{value: "{data-dir: /a}"}, {value: "{log-level: debug, force-new-cluster: 'true'}"}, {value: "{auto-compaction-retention: '1'}"}, {value: "{peer-cert-file: a}"},
		},
		"the tag must have the version that the field version names: make them agree, or give the image without a tag": {
			{field: ".image", value: "{version: 3.6.16, image: 'a:v3.5.35'}"}, {field: ".image", value: "{version: 3.6.16, image: 'a:80/b/etcd:3.6.15-amd64'}"},
			{field: ".image", value: "{version: 3.6.1, image: 'a:3.6.16@sha256:b'}"}, {field: ".image", before: "{version: 3.5.35, image: 'a:3.5.35'}", value: "{version: 3.6.16, image: 'a:3.5.35'}"},
		},
		"may not be set together with an additional service or cron job named 'etcd': give that another name": {
			{field: ".etcd", value: "etcd: {}\nadditionalServices: [{name: a, image: a}, {name: etcd, image: a}]"},
			{field: ".etcd", value: "etcd: {}\ncronJobs: [{name: etcd, image: a, schedule: '@daily'}]"},
		},
	}
}

// mongoDBViolations returns violations of the rules for spec.mongodb, by the rule's message.
func mongoDBViolations() map[string][]violation {
	return map[string][]violation{
		"kind ThirdParty needs the thirdParty block with the url of MongoDB": {
			{field: ".thirdParty", value: "{kind: ThirdParty}"}, {field: ".thirdParty", value: "{kind: ThirdParty, thirdParty: null}"},
		},
		"must be 'Retain': the operator never deletes the data of MongoDB. Delete the volume claims yourself when you need them no more": {
			{field: ".storage.retention", value: "{storage: {retention: Delete}}"},
		},
		"may not be changed while MongoDB runs in the cluster: under another name it starts without its data. Set the name back, or remove spec.mongodb first to start again": {
			{field: ".name", before: "{name: a}", value: "{name: b}"}, {field: ".name", before: "{}", value: "{name: b}"},
			{field: ".name", before: "{name: a}", value: "{name: null}"}, {field: ".name", before: "{kind: Managed, name: a}", value: "{name: mongodb}"},
		},
		"may not be changed while MongoDB runs in the cluster: services would find an empty database. Set it back": {
			{field: ".database", before: "{database: a}", value: "{database: b}"}, {field: ".database", before: "{}", value: "{database: b}"},
		},
		"may not be changed while MongoDB runs in the cluster: MongoDB's operator cannot resize volumes. Set it back": {
			{field: ".storage.size", before: "{}", value: "{storage: {size: 20Gi}}"}, {field: ".storage.size", before: "{storage: {size: 20Gi}}", value: "{storage: {size: 30Gi}}"},
		},
		"may not become an older major version: MongoDB does not open data of a newer one. Set it back": {
			{field: ".version", before: "{}", value: "{version: 7.0.22}"}, {field: ".version", before: "{version: 10.0.0}", value: "{version: 9.0.0}"},
		},
		"must not be 'admin', 'local' or 'config', which are MongoDB's own: choose another name": {
			{value: "admin"}, {value: "local"}, {value: "config"},
		},
		"must be set with a mongodb+srv url: the built-in check needs the addresses of hosts": {
			{field: ".checkCMD", value: "{url: 'mongodb+srv://a.example.com'}"},
		},
		"may not be set together with an additional service or cron job named 'mongodb': give that another name": {
			{field: ".mongodb", value: "mongodb: {}\nadditionalServices: [{name: a, image: a}, {name: mongodb, image: a}]"},
			{field: ".mongodb", value: "mongodb: {}\ncronJobs: [{name: mongodb, image: a, schedule: '@daily'}]"},
		},
	}
}

// replicationViolations returns violations of the rules for a mysql of several members, by the rule's message.
func replicationViolations() map[string][]violation {
	return map[string][]violation{
		"must be at most 5": {
			{field: ".replica", value: "{replica: 6}"},
		},
		"must be StatefulSet if replica is above 1 or replication is set": {
			{field: ".kind", value: "{replica: 2, kind: Deployment}"}, {field: ".kind", value: "{replication: {}, kind: 2}"},
			{field: ".kind", value: "{replica: 3, kind: 3, thirdParty: {url: 'mysql://a'}}"},
		},
		"with replica above 1, or with replication, the fields image, version and serverVersion must be of MySQL 8.4 or newer: MariaDB and older servers can lose acknowledged transactions": {
			{field: ".replica", value: "{replica: 2, image: 'mariadb:11.4'}"}, {field: ".replica", value: "{replication: {}, image: 'a.example.com/b/my-mariadb-galera@sha256:abc'}"},
			{field: ".replica", value: "{replica: 2, image: 'mysql:8.0.36'}"}, {field: ".replica", value: "{replication: {}, image: 'a/mysql:5.7'}"},
			{field: ".replica", value: "{replica: 3, version: '8.0'}"}, {field: ".replica", value: "{replica: 3, version: 8.3.0-debian}"},
			{field: ".replica", value: "{replica: 3, serverVersion: '5.7'}"}, {field: ".replica", value: "{replica: 3, serverVersion: '8.0'}"},
			{field: ".replica", value: "{replica: 3, serverVersion: '10.11'}"},
		},
		"may not be changed with replica above 1 or with replication: under another name mysql starts without its data": {
			{field: ".name", before: "{replica: 3}", value: "{replica: 3, name: a}"}, {field: ".name", before: "{replica: 3, name: a}", value: "{replication: {}}"},
		},
		"must be the ordinal of a member, below replica": {
			{field: ".replication.primary", value: "{replica: 3, replication: {primary: 3}}"},
		},
	}
}
