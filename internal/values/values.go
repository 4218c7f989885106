// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package values turns a component of a DataService into the values of its
// chart. It is pure, and the only place that knows both the API's fields and
// the charts' values.
package values

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/component"
)

// ManagedBy is the value of the label app.kubernetes.io/managed-by on everything the operator creates.
const ManagedBy = "d3os-operator"

// Credentials say in which Secrets a platform's credentials are; no value of one is ever here.
type Credentials struct {
	// MySQLSecret holds username and password of the database, and root-password where it is ours.
	MySQLSecret string
	// MySQLChecksum changes when credentials given in the spec change, so that the pods that
	// use them restart. Empty for generated ones.
	MySQLChecksum string
	// PlatformSecret holds jwt-secret, gateway-username and gateway-password.
	PlatformSecret string
}

// Input is the DataService that a component belongs to.
type Input struct {
	Instance    string // name of the DataService
	Namespace   string
	Graph       *component.Graph
	Credentials Credentials
	// Images replace the charts' default images: component name, or ProbeImage, to image.
	Images map[string]string
}

// ProbeImage is the key in Input.Images of the image that watches over third parties.
const ProbeImage = "probe"

// Build returns the values for the chart of one component.
func Build(in Input, c *component.Component) (map[string]any, error) {
	v := map[string]any{
		"instance":  in.Instance,
		"managedBy": ManagedBy,
		"component": string(c.Name),
		"name":      c.ObjectName,
		"image":     c.Workload.Image,
	}
	if c.Workload.Resources != nil {
		resources, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.Workload.Resources)
		if err != nil {
			return nil, fmt.Errorf("convert spec.%s.resources: %w", c.Name, err)
		}
		v["resources"] = resources
	}
	if v["image"] == "" {
		v["image"] = in.Images[imageKey(c)]
	}
	if v["image"] == "" {
		v["image"] = defaults(c).Image
	}
	if c.Kind == component.ThirdParty {
		thirdParty(v, in, c)
		return v, nil
	}
	workload(v, c)
	switch c.Chart {
	case component.ChartMySQL:
		mysql(v, in, c)
	case component.ChartMicroservice:
		microservice(v, in, c)
	}
	return v, nil
}

// workload sets what every chart but third-party takes.
func workload(v map[string]any, c *component.Component) {
	v["kind"] = string(c.Kind)
	v["port"] = int64(port(c))
	v["replicas"] = int64(1)
	if c.Workload.Replica != nil {
		v["replicas"] = int64(*c.Workload.Replica)
	}
	if c.Workload.NodePort != nil {
		v["nodePort"] = int64(*c.Workload.NodePort)
	}
	if len(c.Workload.Env) > 0 {
		env := make(map[string]any, len(c.Workload.Env))
		for name, value := range c.Workload.Env {
			env[name] = value
		}
		v["env"] = env
	}
}

func mysql(v map[string]any, in Input, c *component.Component) {
	storage := c.MySQL.Storage
	v["storage"] = map[string]any{
		"size":             storage.Size.String(),
		"storageClassName": storage.StorageClassName,
		"retain":           storage.Retention != dsv1.RetentionDelete,
	}
	v["credentialsSecret"] = in.Credentials.MySQLSecret
	var scripts []any
	for _, ref := range c.MySQL.InitScripts {
		scripts = append(scripts, ref.Name)
	}
	if scripts != nil {
		v["initConfigMaps"] = scripts
	}
}

func microservice(v map[string]any, in Input, c *component.Component) {
	v["service"] = ""
	if !c.Preset {
		return
	}
	v["service"] = string(c.Name)
	v["endpoints"] = endpoints(in)
	v["credentials"] = map[string]any{
		"mysql":    mysqlCredentials(in),
		"platform": map[string]any{"secretName": in.Credentials.PlatformSecret},
	}
	if in.Credentials.MySQLChecksum != "" && c.Name != "web" {
		v["podAnnotations"] = map[string]any{"checksum/credentials": in.Credentials.MySQLChecksum}
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
	tp := c.Middleware.ThirdParty
	v["url"] = strings.TrimRight(tp.URL, "/")
	v["checkCommand"] = tp.CheckCMD
	if c.Name == component.MySQL {
		v["credentials"] = map[string]any{"mysql": mysqlCredentials(in)}
	}
}

// endpoints are the addresses of the components that presets refer to.
func endpoints(in Input) map[string]any {
	found := map[string]any{}
	for _, name := range []dsv1.ComponentName{component.MySQL, component.UUC, component.Eureka} {
		if c := in.Graph.Get(name); c != nil {
			found[string(name)] = map[string]any{"url": address(in, c)}
		}
	}
	for _, name := range []dsv1.ComponentName{component.Proxy, component.GatewayMaster} {
		if c := in.Graph.Get(name); c != nil {
			found[string(name)] = map[string]any{"host": host(in, c), "port": int64(port(c))}
		}
	}
	return found
}

func address(in Input, c *component.Component) string {
	if c.Kind == component.ThirdParty {
		return strings.TrimRight(c.Middleware.ThirdParty.URL, "/")
	}
	scheme := "http"
	if c.Name == component.MySQL {
		scheme = "mysql"
	}
	u := url.URL{Scheme: scheme, Host: fmt.Sprintf("%s:%d", host(in, c), port(c))}
	return u.String()
}

func host(in Input, c *component.Component) string {
	return fmt.Sprintf("%s.%s.svc", c.ObjectName, in.Namespace)
}

func port(c *component.Component) int32 {
	if c.Workload.Port != nil {
		return *c.Workload.Port
	}
	return defaults(c).Port
}
