// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

// change names objects that an upgrade from the last release writes, and the reason.
type change struct {
	// objects is a regular expression for "<DataService> <Kind>/<name>". The expression must not match an unchanged object.
	objects string
	because string
}

// backEndsOfInputs matches the ConfigMaps and Deployments of the product's services that run on Spring Boot.
const backEndsOfInputs = `\S+ (ConfigMap|Deployment)/(everything-auth|gateway|relay|api-manager|auth|ds-adapter|es-adapter|trd-adapter|gateway-master|gateway-web|proxy)`

// changed lists all objects that an upgrade from the last release writes. It is empty after each release.
var changed = []change{
	{`(dataservice-production|mysql-third-party-inline) Deployment/uuc-probe|eureka-third-party Deployment/eureka-probe`, "the check of a third party's URL accepts any status below 500, and sends GET if HEAD is refused"},
	{`\S+ ConfigMap/\S+-accounts`, "the script also creates the account for backups; the container that runs the script is not restarted"},
	{`(dataservice-\S+|minimal|sequential|eureka-third-party|uuc-deployment|mysql-(daemonset|delete|deployment|deployment-delete|statefulset)) Service/(mysql-dataservice|everything-mysql)|customised Service/store`, "the port is named http, so meshes treat its connections as HTTP; appProtocol tcp prevents this"},
	{`(customised|dataservice-(everything|production|sample)|mysql-third-party-inline) (ConfigMap/(web|console)-template|Deployment/(web|console))`, "nginx resolves names again, also listens on IPv6, returns 502 itself, accepts larger headers, and serves for some more seconds before it stops. It reads its settings only at its start"},
	{backEndsOfInputs, "the services accept headers of 16 KB, as nginx does, serve for some more seconds before they stop, and complete accepted requests. Their JDBC connections have the time zone of spec.defaults"},
}
