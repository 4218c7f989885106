// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/platform/component"
)

// With publicKey, each url of the presets lets the driver request MySQL's public key. With tls, no url forbids TLS. With tlsVersions, each url
// names the versions of TLS. The rest of the files does not change.
func TestURLsOfMySQL(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("microservice/ci/*-values.yaml")
	assert.NilError(t, err)
	const url, added, forbids = "jdbc:mysql://", "enabledTLSProtocols=TLSv1.2,TLSv1.3&allowPublicKeyRetrieval=true&", "useSSL=false&"
	urls, plain := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		values := parsed(t, string(data))
		mysql, _ := at(values, "endpoints", "mysql").(map[string]any)
		if service, _ := values["service"].(string); service == "" || mysql == nil {
			continue
		}
		before := made(t, component.ChartMicroservice, string(data))
		mysql["publicKey"], mysql["tls"], mysql["tlsVersions"] = true, true, "TLSv1.2,TLSv1.3"
		for name, object := range made(t, component.ChartMicroservice, flow(t, values)) {
			files, _ := object["data"].(map[string]any)
			for key, text := range files {
				text, was := text.(string), at(before[name], "data", key).(string)
				assert.Equal(t, strings.ReplaceAll(text, added, ""), strings.ReplaceAll(was, forbids, ""), file)
				assert.Equal(t, strings.Count(text, "?"+added), strings.Count(was, url), file)
				urls += strings.Count(was, url)
				plain += strings.Count(was, forbids)
			}
		}
	}
	assert.Equal(t, urls, 11)
	assert.Equal(t, plain, 3)
}
