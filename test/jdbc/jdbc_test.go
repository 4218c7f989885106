// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

// Package jdbc_test tests that the product's services can log in to their database. A Java program with a real JDBC driver uses the urls in
// the services' files, and a real server reads its rendered my.cnf. The driver is MariaDB Connector/J, because Debian lacks MySQL's own
// driver. If JDBC_DRIVER names the file of MySQL's driver, the test uses that driver.
package jdbc_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
)

// rendered is the part of a rendered platform that concerns log-ins.
type rendered struct {
	config  string            // mysql's my.cnf
	schemas string            // the script that creates the schemas
	urls    map[string]string // the urls of the services' files, with the service's name
}

// The answers of MariaDB's and MySQL's drivers without the public key, and of MySQL and MariaDB without TLS.
var (
	withoutKey = regexp.MustCompile(`^refused: .*(RSA public key is not available|Public Key Retrieval is not allowed)`)
	withoutTLS = regexp.MustCompile(`^refused: .*(require_secure_transport|Access denied)`)
)

var (
	urls = regexp.MustCompile(`jdbc:[^"\n]*`)
	host = regexp.MustCompile(`^jdbc:mysql://db\.data\.svc:3306/([a-z_]+)\?`)
)

// render renders a platform of the eight services in Java with fields of spec.mysql and of spec.defaults.
func render(t *testing.T, mysql map[string]any, timeZone string) rendered {
	t.Helper()
	spec := map[string]any{"mysql": mysql, "eureka": map[string]any{}, "defaults": map[string]any{"timeZone": timeZone}}
	for _, service := range []string{"api-manager", "auth", "ds-adapter", "es-adapter", "gateway-master", "gateway-web", "proxy", "trd-adapter"} {
		spec[service] = map[string]any{}
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": map[string]any{"name": "platform", "namespace": "data"}, "spec": spec})
	assert.NilError(t, err)
	ds, err := plan.Parse(text)
	assert.NilError(t, err)
	objects, err := plan.Objects(ds, plan.KubeVersion)
	assert.NilError(t, err)
	r := rendered{urls: map[string]string{}}
	for _, o := range objects {
		if o.GetKind() != object.ConfigMapKind.Kind {
			continue
		}
		files, _ := o.Object["data"].(map[string]any)
		for name, content := range files {
			switch text, _ := content.(string); name {
			case "my.cnf":
				r.config = text
			case "00-schemas.sh":
				r.schemas = text
			default:
				for _, url := range urls.FindAllString(text, -1) {
					r.urls[o.GetName()+" "+url] = url
				}
			}
		}
	}
	assert.Equal(t, len(r.urls), 11, "%v", r.urls)
	return r
}

// form is a server's configuration, in the fields of spec.mysql.
type form struct {
	name     string
	mysql    map[string]any
	timeZone string
	// key reports whether accounts have caching_sha2_password. Without a cached password or TLS, a log-in needs the server's public key.
	key bool
	// tls reports whether the server requires TLS.
	tls bool
}

// Each service logs in with each of its urls: after a restart of the server, a second time, and if the server requires TLS.
func TestServicesLogIn(t *testing.T) {
	t.Parallel()
	authority, err := database.NewAuthority("test", time.Now())
	assert.NilError(t, err)
	pair, err := authority.Issue(database.Leaf{Name: "db", Hosts: []string{"db"}}, time.Now())
	assert.NilError(t, err)
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	assert.NilError(t, os.WriteFile(certificate, pair.Cert, 0o600))
	assert.NilError(t, os.WriteFile(key, pair.Key, 0o600))

	const shanghai, offset = "Asia/Shanghai", "Etc/GMT+8" // the url escapes the plus sign
	for _, flavour := range []struct {
		name  string
		forms []form
	}{
		// No package has MySQL 8.4. The server 9.7 has the same default authentication, and here reads the settings of 8.4.
		{"mysql", []form{
			{name: "8.4", mysql: fields("8.4", nil), timeZone: shanghai, key: true},
			{name: "9.7", mysql: fields("9.7", nil), timeZone: offset, key: true},
			{name: "TLS", mysql: fields("8.4", map[string]any{"require_secure_transport": "ON"}), timeZone: shanghai, tls: true},
			{name: "TLS, another spelling", mysql: fields("9.7", map[string]any{"require-secure-transport": "1"}), timeZone: offset, tls: true},
		}},
		{"mariadb", []form{
			{name: "10.11", mysql: fields("10.11", nil), timeZone: shanghai},
			{name: "the settings of 5.7", mysql: fields("5.7", nil), timeZone: offset},
			{name: "TLS", mysql: fields("10.11", map[string]any{"require_secure_transport": "ON", "ssl_cert": certificate, "ssl_key": key}), timeZone: offset, tls: true},
		}},
	} {
		t.Run(flavour.name, func(t *testing.T) {
			s := newServer(t, flavour.name)
			c := newClient(t)
			for _, f := range flavour.forms {
				t.Run(f.name, func(t *testing.T) {
					r := render(t, f.mysql, f.timeZone)
					s.restart(t, r)
					s.logIn(t, c, f, r)
				})
			}
		})
	}
}

func fields(version string, config map[string]any) map[string]any {
	return map[string]any{"name": "db", "image": "example/mysql:" + version, "serverVersion": version, "config": config}
}

// logIn logs in with each url, while the server has no cached password. Control: the same url is refused without the
// public key, and without TLS if the server requires TLS.
func (s *server) logIn(t *testing.T, c *client, f form, r rendered) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(r.urls)) {
		url := r.urls[name]
		found := host.FindStringSubmatch(url)
		assert.Assert(t, found != nil, "%s", name)
		url = strings.Replace(url, "//db.data.svc:3306/", "//"+s.address+":3306/", 1)
		want := found[1] + " " + account + "@%"
		s.sql(t, "FLUSH PRIVILEGES") // empties the cache of caching_sha2_password
		switch plain := url + "&useSSL=false"; {
		case f.key:
			got := c.logIn(t, strings.Replace(plain, "allowPublicKeyRetrieval=true&", "", 1))
			assert.Assert(t, withoutKey.MatchString(got), "without allowPublicKeyRetrieval: %s: %s", name, got)
		case f.tls:
			got := c.logIn(t, plain)
			assert.Assert(t, withoutTLS.MatchString(got), "without TLS: %s: %s", name, got)
		}
		for range 2 {
			got := c.logIn(t, c.adapted(url, f.tls))
			cipher, ok := strings.CutPrefix(got, want+" ")
			assert.Assert(t, ok && (cipher != "" || !f.tls), "%s: %s", name, got)
		}
	}
}
