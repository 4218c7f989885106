// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// unpacked returns the files of an archive, and the files' names in order.
func unpacked(t *testing.T, file string) (content map[string]string, names []string) {
	t.Helper()
	f, err := os.Open(file)
	assert.NilError(t, err)
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	assert.NilError(t, err)
	content = map[string]string{}
	for files := tar.NewReader(zipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return content, names
		}
		assert.NilError(t, err)
		data, err := io.ReadAll(files)
		assert.NilError(t, err)
		content[header.Name] = string(data)
		names = append(names, header.Name)
	}
}

// A report contains all objects that the user may read, and names the others. The command replaces an existing file only with --force.
func TestReport(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	code, out, errOut := s.run(t, "report", "platform", "-o", file)
	assert.Equal(t, code, exitYes, out+errOut)
	content, names := unpacked(t, file)
	assert.Assert(t, slices.IsSorted(names))
	for name, text := range map[string]string{
		"resources/DataService/platform.yaml":            "kind: DataService",
		"resources/Pod/mysql-dataservice-0.yaml":         "kind: Pod",
		"logs/mysql-dataservice-0/accounts.previous.log": "no connection",
		"logs/mysql-dataservice-0/mysql-dataservice.log": "ready for connections",
		"not-read.txt": "ConfigMap of ", "why.txt": "platform", "versions.txt": "plugin ", "events.txt": "",
	} {
		got, found := content["platform-report/"+name]
		assert.Check(t, found && strings.Contains(got, text), "%s: %s", name, got)
	}
	for _, request := range s.asked {
		assert.Check(t, !strings.Contains(request, "/secrets"), request)
	}
	code, out, errOut = s.run(t, "report", "platform", "-o", file)
	assert.Equal(t, code, exitError, out)
	assert.Assert(t, strings.Contains(errOut, "exists: choose another file"), errOut)
	code, _, errOut = s.run(t, "report", "platform", "-o", file, "--force")
	assert.Equal(t, code, exitYes, errOut)
	_, again := unpacked(t, file)
	assert.DeepEqual(t, again, names)
}

// No file of the archive contains a password that a user wrote into the spec.
func TestReportMasksPasswords(t *testing.T) {
	t.Parallel()
	const password = "correct-horse-battery"
	spec := dsv1.DataServiceSpec{Auth: &dsv1.Service{}}
	spec.Auth.Envs = []dsv1.Object{{}}
	spec.Auth.Envs[0].Raw = []byte(`{"name": "DB_PASSWORD", "value": "` + password + `"}`)
	spec.Auth.Config = map[string]string{"spring.datasource.url": "jdbc:mysql://app:" + password + "@db:3306/a"}
	s := answering(t, map[string]func(int) any{dataServices + "platform": always(platform(spec)), podsPath: always(http.StatusForbidden)})
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	code, _, errOut := s.run(t, "report", "platform", "-o", file)
	assert.Equal(t, code, exitYes, errOut)
	content, _ := unpacked(t, file)
	assert.Assert(t, strings.Contains(content["platform-report/resources/DataService/platform.yaml"], "DB_PASSWORD"))
	for name, text := range content {
		assert.Check(t, !strings.Contains(text, password), "%s:\n%s", name, text)
	}
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	s := answering(t, map[string]func(int) any{redisOnes + "/cache": always(http.StatusForbidden), podsPath: always(http.StatusForbidden)})
	code, _, errOut := s.run(t, "report", "redis/cache", "-o", file)
	assert.Equal(t, code, exitNo, errOut)
	assert.Assert(t, strings.Contains(errOut, "you may read nothing of redis/cache"), errOut)
	_, err := os.Stat(file)
	assert.Assert(t, os.IsNotExist(err))
	code, _, errOut = s.run(t, "report", "redis/other", "-o", file)
	assert.Equal(t, code, exitError, errOut)
}
