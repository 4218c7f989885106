// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle_test holds the OLM bundle against what it is made from: the
// CRD, the operator's kinds and images, the releases.
package bundle_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"d3os.com/d3os-operator/internal/kinds/dataservice/preview"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster"
	"d3os.com/d3os-operator/internal/kinds/rediscluster"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/cluster"
)

const (
	csvFile = "bundle/manifests/d3os-operator.clusterserviceversion.yaml"
	// The file of each CRD, in the order of the bundle.
	backupFile  = "bundle/manifests/d3os-product.com.d3os_databackups.yaml"
	restoreFile = "bundle/manifests/d3os-product.com.d3os_datarestores.yaml"
	crdFile     = "bundle/manifests/d3os-product.com.d3os_dataservices.yaml"
	etcdFile    = "bundle/manifests/etcd.database.coreos.com_etcdclusters.yaml"
	redisFile   = "bundle/manifests/redis.middleware.hc.cn_redisclusters.yaml"
)

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// Consoles show a field by its descriptor.
func TestDescriptors(t *testing.T) {
	owned := read[csv](t, csvFile).Spec.Definitions.Owned
	files := []string{backupFile, restoreFile, crdFile, etcdFile, redisFile}
	assert.Equal(t, len(owned), len(files))
	for i, file := range files {
		crd := read[apiextensionsv1.CustomResourceDefinition](t, file)
		assert.Equal(t, len(crd.Spec.Versions), 1)
		for field, descriptors := range map[string][]descriptor{"spec": owned[i].SpecDescriptors, "status": owned[i].StatusDescriptors} {
			var described []string
			for _, d := range descriptors {
				described = append(described, d.Path)
				assert.Assert(t, d.DisplayName != "" && d.Description != "", "%s.%s has no name or no description", field, d.Path)
			}
			properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[field].Properties
			assert.DeepEqual(t, sorted(described), slices.Sorted(maps.Keys(properties)))
		}
	}
}

// The list of what a DataService brings about is the operator's own.
func TestResources(t *testing.T) {
	kinds := append(slices.Clone(object.Kinds), corev1.SchemeGroupVersion.WithKind("Pod"), eventsv1.SchemeGroupVersion.WithKind("Event"))
	var want, got []string
	for _, gvk := range kinds {
		want = append(want, gvk.GroupVersion().String()+" "+gvk.Kind)
	}
	const dataService = 2 // its place among files
	for _, resource := range read[csv](t, csvFile).Spec.Definitions.Owned[dataService].Resources {
		got = append(got, resource.Version+" "+resource.Kind)
	}
	assert.DeepEqual(t, sorted(got), sorted(want))
}

// What catalogs mirror is what the charts use, and the operator takes what a mirror sets.
func TestRelatedImages(t *testing.T) {
	spec := read[csv](t, csvFile).Spec
	listed := map[string]string{}
	for _, i := range spec.RelatedImages {
		listed[i.Name] = i.Image
	}
	want := values.DefaultImages()
	maps.Copy(want, rediscluster.DefaultImages())
	maps.Copy(want, etcdcluster.DefaultImages())
	assert.DeepEqual(t, listed, want)

	for _, v := range spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers[0].Env {
		if strings.HasPrefix(v.Name, "RELATED_IMAGE_") {
			t.Setenv(v.Name, v.Value)
		}
	}
	options, err := manager.ParseOptions(nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, options.Images, want)
}

// OLM grants what is in permissions where the operator is installed for: nothing there may be of the
// cluster's, and nothing that is of a namespace may be granted everywhere.
func TestRights(t *testing.T) {
	ofCluster := "authentication.k8s.io/tokenreviews authorization.k8s.io/subjectaccessreviews"
	ofNamespaces := `/configmaps /persistentvolumeclaims /secrets /services /pods /events events.k8s.io/events
		apps/controllerrevisions apps/daemonsets apps/deployments apps/statefulsets autoscaling/horizontalpodautoscalers
		batch/cronjobs batch/jobs coordination.k8s.io/leases networking.k8s.io/ingresses networking.k8s.io/networkpolicies
		policy/poddisruptionbudgets
		d3os-product.com.d3os/databackups d3os-product.com.d3os/datarestores d3os-product.com.d3os/dataservices
		etcd.database.coreos.com/etcdclusters redis.middleware.hc.cn/redisclusters`
	spec := read[csv](t, csvFile).Spec.Install.Spec
	for _, c := range []struct {
		where       string
		permissions []permission
		may         string
	}{{"permissions", spec.Permissions, ofNamespaces}, {"clusterPermissions", spec.ClusterPermissions, ofCluster}} {
		assert.Equal(t, len(c.permissions), 1)
		for _, rule := range c.permissions[0].Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					object, _, _ := strings.Cut(resource, "/") // without finalizers and status
					assert.Assert(t, slices.Contains(strings.Fields(c.may), group+"/"+object),
						"%s/%s in %s (config/manifests/patches/rights.yaml, config/rbac)", group, resource, c.where)
				}
			}
		}
	}
}

// A bundle upgrades from the release before it, and its image is the operator of its version.
func TestVersions(t *testing.T) {
	version := strings.TrimSpace(string(mustRead(t, "VERSION")))
	releases, err := filepath.Glob(filepath.Join(cluster.Root(), "releases", "v*"))
	assert.NilError(t, err)
	assert.Assert(t, len(releases) > 0)
	for _, release := range releases {
		name := filepath.Base(release)
		c := read[csv](t, filepath.Join("releases", name, strings.TrimPrefix(csvFile, "bundle/")))
		assert.Equal(t, "v"+c.Spec.Version, name)
		assert.Equal(t, c.Name, "d3os-operator."+name)
		assert.Assert(t, strings.HasSuffix(c.Annotations["containerImage"], "/d3os-operator:"+name))
	}
	c := read[csv](t, csvFile)
	assert.Equal(t, c.Spec.Version, version)
	assert.Equal(t, c.Name, "d3os-operator.v"+version)
	assert.Equal(t, c.Annotations["containerImage"], c.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers[0].Image)
	assert.Assert(t, strings.HasSuffix(c.Annotations["containerImage"], "/d3os-operator:v"+version))

	previous := strings.TrimSpace(string(script(t, "hack/released.sh", version)))
	assert.Equal(t, c.Spec.Replaces, "d3os-operator.v"+previous)
	assert.Equal(t, c.Annotations["olm.skipRange"], ">="+previous+" <"+version)
	_, err = os.Stat(filepath.Join(cluster.Root(), "releases", "v"+previous))
	assert.NilError(t, err)
}

// The order of releases is that of their versions, not of their names.
func TestReleased(t *testing.T) {
	root := t.TempDir()
	for _, folder := range []string{"hack", "releases/v0.2.0", "releases/v0.9.0", "releases/v0.10.0", "releases/v1.0.0"} {
		assert.NilError(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	copied := filepath.Join(root, "hack", "released.sh")
	assert.NilError(t, os.WriteFile(copied, mustRead(t, "hack/released.sh"), 0o755))
	for version, want := range map[string]string{
		"0.1.0": "", "0.2.0": "", "0.3.0": "0.2.0", "0.10.0": "0.9.0", "0.10.1": "0.10.0", "1.0.0": "0.10.0", "2.0.0": "1.0.0",
	} {
		assert.Equal(t, strings.TrimSpace(string(script(t, copied, version))), want, version)
	}
}

// A catalog shows the icon: it is the one in config/manifests, and well-formed.
func TestIcon(t *testing.T) {
	icons := read[csv](t, csvFile).Spec.Icon
	assert.Equal(t, len(icons), 1)
	assert.Equal(t, icons[0].MediaType, "image/svg+xml")
	data, err := base64.StdEncoding.DecodeString(icons[0].Data)
	assert.NilError(t, err)
	assert.Equal(t, string(data), string(mustRead(t, "config/manifests/icon.svg")))
	var svg struct {
		XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
	}
	assert.NilError(t, xml.Unmarshal(data, &svg))
}

// The namespace that a console suggests is the one that make deploy and config/olmv1 create, and the description's
// example is a DataService that the API knows.
func TestSuggestions(t *testing.T) {
	c := read[csv](t, csvFile)
	var suggested corev1.Namespace
	assert.NilError(t, json.Unmarshal([]byte(c.Annotations["operatorframework.io/suggested-namespace-template"]), &suggested))
	assert.Equal(t, suggested.Name, c.Annotations["operatorframework.io/suggested-namespace"])
	assert.DeepEqual(t, suggested.Labels, read[corev1.Namespace](t, "config/default/namespace.yaml").Labels)
	assert.DeepEqual(t, suggested.Labels, read[corev1.Namespace](t, "config/olmv1/namespace.yaml").Labels)
	assert.Equal(t, suggested.Name, read[corev1.Namespace](t, "config/olmv1/namespace.yaml").Name)

	example := fence.FindStringSubmatch(c.Spec.Description)
	assert.Assert(t, example != nil)
	var manifests strings.Builder
	assert.NilError(t, preview.Run(nil, strings.NewReader(example[1]), &manifests))
	for _, want := range []string{"name: mysql-dataservice", "name: eureka", "name: auth", "name: api-manager"} {
		assert.Assert(t, strings.Contains(manifests.String(), want), want)
	}
}

// fence is an example in a description.
var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Of the namespaces that it is installed for, which may be all, the operator reads and changes its own Lease alone.
func TestTheOperatorChangesItsOwnLeaseAlone(t *testing.T) {
	found := 0
	for _, rule := range read[csv](t, csvFile).Spec.Install.Spec.Permissions[0].Rules {
		if !slices.Contains(rule.Resources, "leases") || slices.Equal(rule.Verbs, []string{"create"}) {
			continue
		}
		found++
		assert.Equal(t, len(rule.ResourceNames), 1, "%v", rule)
		lease := `leaseName = "` + rule.ResourceNames[0] + `"`
		assert.Assert(t, strings.Contains(string(mustRead(t, "internal/manager/manager.go")), lease), lease)
	}
	assert.Equal(t, found, 1)
}
