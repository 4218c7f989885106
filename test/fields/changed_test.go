// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

// change names objects that an upgrade from the last release writes, and the reason.
type change struct {
	// objects is a regular expression for "<DataService> <Kind>/<name>". The expression must not match an unchanged object.
	objects string
	because string
}

// backEndsOfInputs are the settings and pods of the product's services that run on Spring Boot.
const backEndsOfInputs = `\S+ (ConfigMap|Deployment)/(everything-auth|gateway|relay|api-manager|auth|ds-adapter|es-adapter|trd-adapter|gateway-master|gateway-web|proxy)`

// changed lists all objects that an upgrade from the last release writes. It is empty after each release.
var changed = []change{
	{`(dataservice-production|mysql-third-party-inline) Deployment/uuc-probe|eureka-third-party Deployment/eureka-probe`, "the check of a third party's URL takes any answer below 500 as life, and asks with GET where HEAD is refused"},
	{`\S+ ConfigMap/\S+-accounts`, "its script also makes the account of backups; the container that runs it is not restarted for that"},
	{`(dataservice-\S+|minimal|sequential|eureka-third-party|uuc-deployment|mysql-(daemonset|delete|deployment|deployment-delete|statefulset)) Service/(mysql-dataservice|everything-mysql)|customised Service/store`, "its port is called http: meshes spoke HTTP to the database until appProtocol says tcp"},
	{`(customised|dataservice-(everything|production|sample)|mysql-third-party-inline) (ConfigMap/(web|console)-template|Deployment/(web|console))`, "nginx looks up names again, listens on IPv6 as well, answers 502 itself, takes larger headers, and goes on serving for a while before it stops: what it used before is read at its start only"},
	{backEndsOfInputs, "they take headers of 16 KB, as nginx does, go on serving for a while before they stop, and then answer what they have accepted. Their JDBC connections have the time zone of spec.defaults"},
}
