// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chart writes the Helm chart of the operator (make chart). It reads the objects of config/ from kustomize, and writes each as a
// template. A placeholder marks each part that a value can change. The command replaces each placeholder by a template action. Everything
// else equals config/.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed all:files
var files embed.FS

// chart holds the values for the placeholders in files/. It reads them from the objects of config/.
type chart struct {
	Version, URL, Repository, Tag string // of the operator and its image
	Replicas                      int64
	Resources, RelatedImages      string // YAML

	namespace string // namespace of the objects in config/
}

func main() {
	c := chart{namespace: "d3os-operator-system"}
	out := flag.String("out", "dist/chart", "the folder of the chart")
	image := flag.String("image", "", "the operator's image, with a tag")
	flag.StringVar(&c.Version, "version", "", "the operator's version")
	flag.StringVar(&c.URL, "url", "", "the project's home page")
	flag.Parse()
	c.Repository, c.Tag = (*image)[:strings.LastIndex(*image, ":")], (*image)[strings.LastIndex(*image, ":")+1:]
	if err := c.write(os.Stdin, *out); err != nil {
		fmt.Fprintf(os.Stderr, "error: write the chart to %s: %v\n", *out, err)
		os.Exit(1)
	}
}

// write replaces a folder by the chart of the objects in a stream of YAML documents.
func (c *chart) write(from io.Reader, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	documents := yaml.NewYAMLOrJSONDecoder(from, 1<<16)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read an object: %w", err)
		}
		if object.GetKind() == "Namespace" { // helm install --create-namespace creates the namespace
			continue
		}
		name, text, err := c.template(object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if err := save(filepath.Join(to, "templates", name+".yaml"), text); err != nil {
			return err
		}
	}
	return fs.WalkDir(files, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return save(filepath.Join(to, strings.TrimPrefix(path, "files/")), c.fill(string(text)))
	})
}

// fill replaces the placeholders of a file. Placeholders are not in Helm's notation, so the file may contain template actions.
func (c *chart) fill(text string) string {
	return strings.NewReplacer(
		"@version@", c.Version, "@url@", c.URL, "@repository@", c.Repository, "@tag@", c.Tag,
		"@replicas@", fmt.Sprint(c.Replicas), "@resources@", indented(c.Resources, 4), "@relatedImages@", indented(c.RelatedImages, 2),
	).Replace(text)
}

func indented(text string, by int) string {
	indent := strings.Repeat(" ", by)
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+indent)
}

func save(path, text string) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s is written twice", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
