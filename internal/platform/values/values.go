// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package values computes the chart values of a DataService's component. It is pure. It is the only package that uses both the API's fields
// and the charts' values. Most fields have the same name in both, and are passed unchanged (see fields). The package translates the others.
package values

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	vocabulary "d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
)

// ManagedBy is the value of the label app.kubernetes.io/managed-by on all objects that the operator creates.
const ManagedBy = "d3os-operator"

// Credentials holds the names of the Secrets with a platform's credentials. It never contains a secret value.
type Credentials struct {
	// MySQLSecret contains username and password of the database. If the operator runs the database, it also contains root-password.
	MySQLSecret string
	// MySQLUsersSecret contains the passwords of additional accounts, by the names of the accounts.
	MySQLUsersSecret string
	// MySQLChecksum changes when credentials in the spec change, so that the pods that use them restart. It is empty for generated
	// credentials.
	MySQLChecksum string
	// RedisSecret contains the password of Redis and, if RedisHasUser is true, the username. It is empty for a Redis without a password.
	RedisSecret  string
	RedisHasUser bool
	// RedisChecksum is the checksum for Redis; see MySQLChecksum.
	RedisChecksum string
	// PlatformSecret contains jwt-secret, gateway-username and gateway-password.
	PlatformSecret string
	// MongoDBSecret contains the password of the services' account, if MongoDB's operator runs MongoDB.
	MongoDBSecret string
}

// Input describes the DataService of a component.
type Input struct {
	Instance      string // name of the DataService
	Namespace     string
	Graph         *component.Graph
	Defaults      *dsv1.Defaults      // defaults in the spec; nil for none
	NetworkPolicy *dsv1.NetworkPolicy // network policy in the spec; nil for none
	Credentials   Credentials
	// Images maps a component's name, or ProbeImage, to the image that replaces the chart's default image.
	Images map[string]string
	// UID is the UID of the DataService; empty if the DataService was not read from a cluster. It affects only the writer of backups, and
	// no running pod.
	UID string
}

// AgentImage is the key in Input.Images of the agent's image.
const AgentImage = "agent"

// BackupAccount is the name of the database account for backups, and the key of its password.
const BackupAccount = "d3os_backup"

// ArchiveAccount is the name of the database account for the archive of the binary log, and the key of its password.
const ArchiveAccount = "d3os_archive"

// ProbeImage is the key in Input.Images of the image that monitors third parties.
const ProbeImage = "probe"

// Build returns the chart values of one component. It returns a *render.Error for a field that the API server could not check.
func Build(in Input, c *component.Component) (map[string]any, error) {
	v, err := fields(in, c)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Kind == component.Managed && c.Etcd != nil:
		return managedEtcd(in, c, v)
	case c.Kind == component.Managed && c.MongoDB != nil:
		return managedMongoDB(in, c, v)
	case c.Kind == component.Managed && c.MySQL != nil:
		return managedMySQL(in, c, v)
	case c.Kind == component.Managed:
		return managedRedis(in, c, v)
	}
	v["instance"] = in.Instance
	v["managedBy"] = ManagedBy
	v["component"] = string(c.Name)
	v["name"] = c.ObjectName
	v["image"] = image(in, c)
	if in.Defaults != nil && in.Defaults.TimeZone != "" {
		v["timeZone"] = in.Defaults.TimeZone
	}
	switch c.Chart {
	case component.ChartThirdParty:
		thirdParty(v, in, c)
	case component.ChartCronJob:
		connections(v, in, c)
		if c.CronJob.HasSeconds() {
			v["agentImage"] = cmp.Or(in.Images[AgentImage], vocabulary.UnknownImage)
		}
	case component.ChartMySQL:
		mysql(v, in, c)
	case component.ChartMicroservice:
		microservice(v, in, c)
	}
	if c.Kind == component.ThirdParty || c.Kind == component.CronJob {
		return v, nil
	}
	workload(v, c)
	return v, networkPolicy(v, in, c)
}

// workload sets the values that every chart of a workload needs.
func workload(v map[string]any, c *component.Component) {
	v["kind"] = string(c.Kind)
	v["port"] = int64(port(c))
	v["replicas"] = int64(1)
	if c.Workload.Replica != nil {
		v["replicas"] = int64(*c.Workload.Replica)
	}
	if c.Service != nil && c.Service.Autoscaling != nil {
		v["replicas"] = nil
	}
}

func mysql(v map[string]any, in Input, c *component.Component) {
	storage := c.MySQL.Storage
	v["storage"] = map[string]any{
		"size":             storage.Size.String(),
		"storageClassName": storage.StorageClassName,
		"accessMode":       cmp.Or(storage.AccessMode, string(corev1.ReadWriteOnce)),
		"retain":           storage.Retention != dsv1.RetentionDelete,
		"autoGrow":         storage.AutoGrow != nil,
	}
	v["credentialsSecret"] = in.Credentials.MySQLSecret
	v["usersSecret"] = in.Credentials.MySQLUsersSecret
	v["agentImage"] = in.Images[AgentImage]
	if c.ChecksMembers {
		v["membersCheck"] = true
	}
	if backup, ok := v["backup"].(map[string]any); ok {
		v["writer"] = in.UID
		delete(backup, "podTemplate") // the plan merges the podTemplate into the pods
	}
	var scripts []any
	for _, ref := range c.MySQL.InitScripts {
		scripts = append(scripts, ref.Name)
	}
	if scripts != nil {
		v["initConfigMaps"] = scripts
	}
}

// routePause is the time in seconds for which a terminating pod of a user's service with an httpRoute keeps serving, so that the Gateway stops
// using its address. A service with an ingress has no pause: release 0.2.0 has ingresses, so a pause would restart pods at the upgrade.
const routePause = 10

func microservice(v map[string]any, in Input, c *component.Component) {
	v["service"] = ""
	if !c.HasProductDefaults {
		connections(v, in, c)
		if c.HTTPRoute != nil {
			v["preStopSeconds"] = int64(routePause)
		}
		return
	}
	v["service"] = string(c.Name)
	found := endpoints(in, func(dsv1.ComponentName) bool { return true })
	if mysql := in.Graph.Get(component.MySQL); mysql != nil {
		for field, isSet := range map[string]bool{"publicKey": needsPublicKey(mysql), "tls": requiresTLS(mysql)} {
			if isSet {
				found[string(component.MySQL)].(map[string]any)[field] = true
			}
		}
		if requiresTLS(mysql) && strings.HasPrefix(mysql.MySQL.ServerVersion, "10.") {
			found[string(component.MySQL)].(map[string]any)["tlsVersions"] = tlsVersions
		}
	}
	v["endpoints"] = found
	v["credentials"] = map[string]any{
		"mysql":    mysqlCredentials(in),
		"platform": map[string]any{"secretName": in.Credentials.PlatformSecret},
	}
	if c.Name != component.Web {
		restartWithCredentials(v, in)
	}
	useRedis(v, in, c)
	useEtcd(v, in, c)
	useMongoDB(v, in, c)
}

// connections adds the database account, and the addresses of the middleware on which a user's component depends.
func connections(v map[string]any, in Input, c *component.Component) {
	needs := func(name dsv1.ComponentName) bool { return slices.Contains(c.Requires, name) }
	if found := endpoints(in, needs); len(found) > 0 {
		v["endpoints"] = found
	}
	if needs(component.MySQL) {
		v["credentials"] = map[string]any{"mysql": mysqlCredentials(in)}
		restartWithCredentials(v, in)
	}
	useRedis(v, in, c)
	useEtcd(v, in, c)
	useMongoDB(v, in, c)
}

// restartWithCredentials restarts pods when credentials in the spec change.
func restartWithCredentials(v map[string]any, in Input) {
	annotate(v, "checksum/credentials", in.Credentials.MySQLChecksum)
}

// annotate adds an annotation to the pods if the value is not empty.
func annotate(v map[string]any, name, value string) {
	if value != "" {
		added(v, "annotations")[name] = value
	}
}

func mysqlCredentials(in Input) map[string]any {
	return map[string]any{
		"secretName":  in.Credentials.MySQLSecret,
		"usernameKey": "username",
		"passwordKey": "password",
	}
}

func thirdParty(v map[string]any, in Input, c *component.Component) {
	tp := c.ThirdParty
	v["url"] = strings.TrimRight(tp.URL, "/")
	v["checkCommand"] = tp.CheckCMD
	if c.Name == component.MySQL {
		v["credentials"] = map[string]any{"mysql": mysqlCredentials(in)}
		if image := in.Images[AgentImage]; tp.CheckCMD == "" && strings.HasPrefix(tp.URL, "mysql:") && image != "" && image != vocabulary.UnknownImage {
			v["agentImage"] = image
		}
		if tp.CheckCMD != "" || v["agentImage"] != nil { // the probe may log in
			restartWithCredentials(v, in)
		}
	}
	if c.Etcd != nil {
		etcdElsewhere(v, c)
	}
	if c.MongoDB != nil {
		mongoDBElsewhere(v, c)
	}
	if c.Redis != nil {
		v["port"] = int64(6379)
		if in.Credentials.RedisSecret != "" && tp.CheckCMD != "" {
			v["credentials"] = map[string]any{"redis": redisCredentials(in)}
			annotate(v, "checksum/redis-credentials", in.Credentials.RedisChecksum)
		}
	}
}

// networkPolicy sets the clients that may connect to a component.
func networkPolicy(v map[string]any, in Input, c *component.Component) error {
	if in.NetworkPolicy == nil || !in.NetworkPolicy.Enabled {
		return nil
	}
	allowed, err := peers(in.NetworkPolicy.AllowFrom)
	if err != nil {
		return err
	}
	callers := []any{}
	for _, name := range in.Graph.Callers(c.Name) {
		callers = append(callers, string(name))
	}
	policy := map[string]any{"enabled": true, "from": callers, "allowFrom": allowed, "open": published(v)}
	addPorts(policy, in.NetworkPolicy)
	v["networkPolicy"] = policy
	return nil
}

// addPorts adds the policy's ports to those of the component.
func addPorts(policy map[string]any, given *dsv1.NetworkPolicy) {
	var ports []any
	for _, port := range given.AdditionalPorts {
		ports = append(ports, int64(port))
	}
	if len(ports) > 0 {
		policy["additionalPorts"] = ports
	}
}

// published reports whether all ports of a component are exposed outside of the cluster. It ignores an ingress: an ingress exposes only the
// main port, and the chart handles that.
func published(v map[string]any) bool {
	return onNodes(v) || v["serviceType"] == "NodePort" || v["serviceType"] == "LoadBalancer"
}

// onNodes reports whether a component has a port on every node.
func onNodes(v map[string]any) bool {
	main, _ := v["nodePort"].(int64)
	ports, _ := v["ports"].([]any)
	return main > 0 || slices.ContainsFunc(ports, func(port any) bool {
		number, _ := port.(map[string]any)["nodePort"].(int64)
		return number > 0
	})
}
