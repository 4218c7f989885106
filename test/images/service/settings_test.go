package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a/application.yml", `
server: {port: 1}
manager:
  datasource: {url: "jdbc:mysql://db:3307/x?a=b", userName: "${USER_NAME}"}
eureka: {client: {serviceUrl: {defaultZone: http://e/eureka}}}
sql: {show: "${db.show:false}"}
---
server: {port: 2}
`)
	write("b/application.properties", `# a comment
callback.url=${CALLBACK_URL:}
base.baseUri=http://x
base.add=${base.baseUri}/add
long = one, \
   two
later=1
later=2
umlaut=\u00fc\ud83d\ude00
missing=${NOBODY}
host=${ABSENT:${OTHER:c}}:1
`)
	s, files, err := readSettings([]string{dir, filepath.Join(dir, "none")}, []string{"USER_NAME=u", "EUREKA_CLIENT_SERVICEURL_DEFAULTZONE=http://v/eureka"})
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for name, want := range map[string]string{
		"server.port":                           "2",
		"manager.datasource.username":           "u",
		"eureka.client.service-url.defaultZone": "http://v/eureka",
		"sql.show":                              "false", "callback.url": "", "base.add": "http://x/add", "long": "one, two",
		"later": "2", "umlaut": "ü😀", "host": "c:1",
	} {
		if got, err := s.get(name, "none"); err != nil || got != want {
			t.Errorf("%s = %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := s.get("missing", ""); err == nil {
		t.Error("a placeholder that nothing resolves is no error")
	}
	if got := s.sources(); !slices.Equal(got, []string{"manager.datasource"}) {
		t.Error(got)
	}
}
