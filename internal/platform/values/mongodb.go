// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"maps"
	"slices"
	"strings"

	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

const (
	mongoDBPort = "27017"
	// MongoDBAccount is the account of the services in MongoDB.
	MongoDBAccount = "dataservice"
	// mongoDBKey is the key of the connection string in the Secret that MongoDB's operator creates for an account.
	mongoDBKey = "connectionString.standard"
)

// managedMongoDB returns the chart values of a MongoDBCommunity. fields are the component's fields, including the defaults for all
// components.
func managedMongoDB(in Input, c *component.Component, fields map[string]any) (map[string]any, error) {
	m := c.MongoDB
	v := map[string]any{
		"instance": in.Instance, "managedBy": ManagedBy, "component": string(c.Name), "name": c.ObjectName,
		"replicas": int64(m.Replicas), "version": m.Version, "database": m.Database, "username": MongoDBAccount,
		"credentialsSecret": in.Credentials.MongoDBSecret,
		"storage":           map[string]any{"size": m.Storage.Size.String(), "storageClassName": m.Storage.StorageClassName},
	}
	if m.Image != "" {
		v["image"] = withRegistry(in, m.Image)
	}
	take(v, fields, append([]string{"size", "resources", "config", "antiAffinity"}, ofProbe...)...)
	return v, networkPolicy(v, in, c)
}

// MongoDBConnection returns the name of the Secret with the connection string that MongoDB's operator creates for the services' account.
func MongoDBConnection(mongodb *component.Component) string {
	return strings.Join([]string{mongodb.ObjectName, mongodb.MongoDB.Database, MongoDBAccount}, "-")
}

// useMongoDB adds the connection string to a component that depends on MongoDB.
func useMongoDB(v map[string]any, in Input, c *component.Component) {
	mongodb := in.Graph.Get(component.MongoDB)
	if mongodb == nil || mongodb.MongoDB == nil || !slices.Contains(c.Requires, component.MongoDB) {
		return
	}
	secret := MongoDBConnection(mongodb)
	if mongodb.Kind == component.ThirdParty {
		if secret = mongoDBSecretElsewhere(mongodb); secret == "" {
			added(v, "endpoints")["mongodb"] = map[string]any{"uri": mongodb.ThirdParty.URL}
			return
		}
	}
	added(v, "credentials")["mongodb"] = map[string]any{"secretName": secret, "key": mongoDBKey}
}

// mongoDBElsewhere makes the probe connect to the hosts. A check that the user sets may use the connection string.
func mongoDBElsewhere(v map[string]any, c *component.Component) {
	v["url"] = "tcp://" + strings.Join(nodes(c.ThirdParty.URL, mongoDBPort), ",")
	if secret := mongoDBSecretElsewhere(c); secret != "" && c.ThirdParty.CheckCMD != "" {
		v["credentials"] = map[string]any{"mongodb": map[string]any{"secretName": secret, "key": mongoDBKey}}
	}
}

// mongoDBSecretElsewhere returns the name of the user's Secret with the connection string, or "".
func mongoDBSecretElsewhere(c *component.Component) string {
	if ref := c.ThirdParty.SecretRef; ref != nil {
		return ref.Name
	}
	return ""
}

// ownSettings are the settings of mongod on which other objects depend.
var ownSettings = map[string]string{
	"net.port":                "the network policy, and the Secret with the connection string, use port 27017",
	"storage.dbPath":          "the operator of MongoDB mounts the volume at the default path",
	"replication.replSetName": "it is the name of the component",
}

// checkMongoDB refuses settings on which other objects depend, both as dotted names and as nested objects.
func checkMongoDB(c *component.Component, v map[string]any) error {
	settings, _ := v["config"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(ownSettings)) {
		if hasSetting(settings, name) {
			return render.FieldError(c.Path+".config", "%s may not be set: %s; remove it", name, ownSettings[name])
		}
	}
	return nil
}

// hasSetting reports whether settings contain a dotted name: written with dots, as nested objects, or as a mix of both.
func hasSetting(settings map[string]any, name string) bool {
	if _, ok := settings[name]; ok {
		return true
	}
	for i, r := range name {
		if r != '.' {
			continue
		}
		if below, ok := settings[name[:i]].(map[string]any); ok && hasSetting(below, name[i+1:]) {
			return true
		}
	}
	return false
}
