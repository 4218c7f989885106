// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

// change is something that an upgrade from the last release writes, and why it has to.
type change struct {
	// objects is a regular expression for "<DataService> <Kind>/<name>". It may match no object that is the same.
	objects string
	because string
}

// changed is all that an upgrade from the last release writes. It starts empty after each release.
var changed = []change{
	{`\S+ ConfigMap/\S+-accounts`, "its script also makes the account of backups; the container that runs it is not restarted for that"},
	{`(dataservice-\S+|minimal|sequential|eureka-third-party|uuc-deployment|mysql-(daemonset|delete|deployment|deployment-delete|statefulset)) Service/(mysql-dataservice|everything-mysql)|customised Service/store`, "its port is called http: meshes spoke HTTP to the database until appProtocol says tcp"},
}
