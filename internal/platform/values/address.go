// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/component"
)

// endpoints returns the addresses that charts may need: those of mysql, uuc, eureka, proxy and gateway-master, if they
// are declared and wanted.
func endpoints(in Input, wanted func(dsv1.ComponentName) bool) map[string]any {
	found := map[string]any{}
	for _, name := range []dsv1.ComponentName{component.MySQL, component.UUC, component.Eureka} {
		if c := in.Graph.Get(name); c != nil && wanted(name) {
			found[string(name)] = map[string]any{"url": address(in, c)}
		}
	}
	for _, name := range []dsv1.ComponentName{component.Proxy, component.GatewayMaster} {
		if c := in.Graph.Get(name); c != nil && wanted(name) {
			found[string(name)] = map[string]any{"host": host(in, c), "port": int64(port(c))}
		}
	}
	return found
}

func address(in Input, c *component.Component) string {
	if c.Kind == component.ThirdParty {
		return strings.TrimRight(c.ThirdParty.URL, "/")
	}
	scheme := "http"
	if c.Name == component.MySQL {
		scheme = "mysql"
	}
	u := url.URL{Scheme: scheme, Host: fmt.Sprintf("%s:%d", host(in, c), port(c))}
	return u.String()
}

// afterMySQL7 matches the release series of MySQL since 8.0. Series from 10 to 19 are releases of MariaDB.
var afterMySQL7 = regexp.MustCompile(`^([89]|[2-9][0-9])\.`)

// tlsVersions are the versions of TLS with which drivers connect to a MariaDB 10 that requires TLS. MariaDB 10 reports the version 5.5.5 to
// clients. For this version, MySQL's driver before 8.0.28 uses TLS 1.1 and older, which current versions of Java refuse. MariaDB 11 and newer
// report their own version.
const tlsVersions = "TLSv1.2,TLSv1.3"

// needsPublicKey reports whether the accounts of a database log in with caching_sha2_password. Without TLS, the server accepts a password
// of such an account only if the client encrypts it with the server's public key. Drivers request the key only if the URL allows that.
func needsPublicKey(c *component.Component) bool {
	return c.Kind != component.ThirdParty && (c.Chart == component.ChartReplicated || afterMySQL7.MatchString(c.MySQL.ServerVersion))
}

// requiresTLS reports whether a database accepts only connections with TLS. Drivers use TLS if the server offers it, unless the URL forbids
// TLS.
func requiresTLS(c *component.Component) bool {
	for name, value := range c.Workload.Config {
		if strings.ReplaceAll(name, "-", "_") == "require_secure_transport" {
			return c.Kind != component.ThirdParty && slices.Contains([]string{"", "1", "ON", "TRUE"}, strings.ToUpper(value))
		}
	}
	return false
}

func host(in Input, c *component.Component) string {
	return fmt.Sprintf("%s.%s.svc", c.ObjectName, in.Namespace)
}

// port returns the main port of a component; 0 for a user's component without a main port.
func port(c *component.Component) int32 {
	if c.Workload.Port != nil {
		return *c.Workload.Port
	}
	if c.Chart == component.ChartReplicated {
		return mysqlPort
	}
	return defaults(c).Port
}

// image returns the image of a component's container: from the spec, or else from the release, or else from the chart.
func image(in Input, c *component.Component) string {
	if given := c.Image(); given != "" {
		return withRegistry(in, given)
	}
	shipped := in.Images[imageKey(c)]
	if shipped == "" {
		shipped = defaults(c).Image
	}
	if c.Middleware != nil && c.Middleware.Version != "" && c.Kind != component.ThirdParty {
		shipped = withTag(shipped, c.Middleware.Version)
	}
	return inRegistry(in, shipped)
}

// withRegistry returns an image from the spec. If the image has no registry, it gets the registry for all images.
func withRegistry(in Input, given string) string {
	if host, _ := splitHost(given); host == "" && in.registry() != "" {
		return in.registry() + "/" + given
	}
	return given
}

// inRegistry returns a built-in image. If a registry for all images is set, it replaces the image's registry.
func inRegistry(in Input, shipped string) string {
	if in.registry() == "" {
		return shipped
	}
	_, repository := splitHost(shipped)
	return in.registry() + "/" + repository
}

func (in *Input) registry() string {
	if in.Defaults == nil {
		return ""
	}
	return in.Defaults.Registry
}

// splitHost splits an image into the host of its registry and the rest. As in Docker, the first part is a host if it contains a dot or a
// port, or is localhost.
func splitHost(image string) (host, rest string) {
	first, rest, ok := strings.Cut(image, "/")
	if ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first, rest
	}
	return "", image
}

// withTag replaces the tag or digest of an image.
func withTag(image, tag string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image + ":" + tag
}
