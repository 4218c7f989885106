// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle_test compares the OLM bundle with its sources: the CRDs, the operator's kinds and images, the releases. It also tests
// properties of all kinds together: every field has a bound, the largest value of each field is planned in time, and no selector of a
// resource selects pods of another resource.
package bundle_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/etcd"
	"d3os.com/d3os-operator/internal/manager"
	mysqlcluster "d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/redis"
	"d3os.com/d3os-operator/test/cluster"
)

const (
	csvFile = "bundle/manifests/d3os-operator.clusterserviceversion.yaml"
	// crdFile is the CRD of DataService.
	crdFile = "bundle/manifests/d3os-product.com.d3os_dataservices.yaml"
)

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// crds returns the CRDs of the bundle by the names that the CSV uses, such as dataservices.d3os-product.com.d3os.
func crds(t *testing.T) map[string]apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config/crd/bases/*.yaml"))
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 5)
	all := map[string]apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		crd := read[apiextensionsv1.CustomResourceDefinition](t, "bundle/manifests/"+filepath.Base(file))
		all[crd.Name] = crd
	}
	return all
}

// Each field of spec and status has a descriptor, by which consoles show the field.
func TestDescriptors(t *testing.T) {
	var names []string
	all := crds(t)
	for i, owned := range read[csv](t, csvFile).Spec.Definitions.Owned {
		names = append(names, owned.Name)
		crd, known := all[owned.Name]
		assert.Assert(t, known, "the bundle lacks the CRD of %s", owned.Name)
		assert.Equal(t, len(crd.Spec.Versions), 1)
		for field, descriptors := range map[string][]descriptor{"spec": owned.SpecDescriptors, "status": owned.StatusDescriptors} {
			var described []string
			for _, d := range descriptors {
				described = append(described, d.Path)
				assert.Check(t, d.DisplayName != "" && d.Description != "", "%s: %s.%s has no name or no description", owned.Kind, field, d.Path)
			}
			properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[field].Properties
			assert.Check(t, cmp.DeepEqual(sorted(described), slices.Sorted(maps.Keys(properties))),
				"owned/%d/%sDescriptors of config/manifests/patches/descriptors.yaml must have the fields of %s", i, field, owned.Kind)
		}
	}
	assert.DeepEqual(t, sorted(names), slices.Sorted(maps.Keys(all)))
}

// The bundle lists exactly the kinds of objects that the operator creates for a DataService.
func TestResources(t *testing.T) {
	kinds := append(slices.Clone(object.Kinds), corev1.SchemeGroupVersion.WithKind("Pod"), eventsv1.SchemeGroupVersion.WithKind("Event"))
	var want, got []string
	for _, gvk := range kinds {
		want = append(want, gvk.GroupVersion().String()+" "+gvk.Kind)
	}
	for _, owned := range read[csv](t, csvFile).Spec.Definitions.Owned {
		for _, resource := range owned.Resources {
			if owned.Kind == dsv1.Kind {
				got = append(got, resource.Version+" "+resource.Kind)
			}
		}
	}
	assert.DeepEqual(t, sorted(got), sorted(want))
}

// The related images are the images of the charts. The operator uses the images that a mirror sets in the operator's environment.
func TestRelatedImages(t *testing.T) {
	spec := read[csv](t, csvFile).Spec
	listed := map[string]string{}
	for _, i := range spec.RelatedImages {
		listed[i.Name] = i.Image
	}
	want := values.DefaultImages()
	maps.Copy(want, redis.DefaultImages())
	maps.Copy(want, etcd.DefaultImages())
	maps.Copy(want, mysqlcluster.DefaultImages())
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

// OLM grants the bundle's permissions only in the namespaces for which the operator is installed. These permissions must not contain
// cluster-scoped resources. clusterPermissions must not contain namespaced resources.
func TestRights(t *testing.T) {
	ofCluster := "authentication.k8s.io/tokenreviews authorization.k8s.io/subjectaccessreviews networking.k8s.io/ingressclasses"
	ofNamespaces := `/configmaps /persistentvolumeclaims /secrets /services /pods /events events.k8s.io/events
		apps/controllerrevisions apps/daemonsets apps/deployments apps/statefulsets autoscaling/horizontalpodautoscalers
		batch/cronjobs batch/jobs coordination.k8s.io/leases networking.k8s.io/ingresses networking.k8s.io/networkpolicies gateway.networking.k8s.io/httproutes
		policy/poddisruptionbudgets mongodbcommunity.mongodb.com/mongodbcommunity`
	for _, crd := range crds(t) {
		assert.Equal(t, crd.Spec.Scope, apiextensionsv1.NamespaceScoped, crd.Name)
		ofNamespaces += " " + crd.Spec.Group + "/" + crd.Spec.Names.Plural
	}
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
					object, _, _ := strings.Cut(resource, "/") // omits /finalizers and /status
					assert.Assert(t, slices.Contains(strings.Fields(c.may), group+"/"+object),
						"%s/%s in %s (config/manifests/patches/rights.yaml, config/rbac)", group, resource, c.where)
				}
			}
		}
	}
}

// A bundle upgrades from the previous release, and installs the operator of the bundle's version.
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

// Releases are ordered by their versions, not by their names.
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

// The catalog's icon equals the icon in config/manifests, and is well-formed.
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

// The namespace that consoles suggest is the namespace of make deploy and of config/olmv1. The example in the description is a valid
// DataService.
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
	assert.NilError(t, plan.Run(nil, strings.NewReader(example[1]), &manifests))
	for _, want := range []string{"name: mysql-dataservice", "name: eureka", "name: auth", "name: api-manager"} {
		assert.Assert(t, strings.Contains(manifests.String(), want), want)
	}
}

// fence matches an example in a description.
var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// In the namespaces for which OLM installs the operator, the operator can read and change exactly one Lease: its own.
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

type descriptor struct {
	Path        string `json:"path"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
}

type image struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

type permission struct {
	Rules []rbacv1.PolicyRule `json:"rules"`
}

// csv holds the fields of a ClusterServiceVersion that these tests read.
type csv struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Version     string `json:"version"`
		Description string `json:"description"`
		Replaces    string `json:"replaces"`
		Maturity    string `json:"maturity"`
		Icon        []struct {
			Data      string `json:"base64data"`
			MediaType string `json:"mediatype"`
		} `json:"icon"`
		RelatedImages []image `json:"relatedImages"`
		Definitions   struct {
			Owned []struct {
				Kind      string `json:"kind"`
				Name      string `json:"name"`
				Resources []struct {
					Kind    string `json:"kind"`
					Version string `json:"version"`
				} `json:"resources"`
				SpecDescriptors   []descriptor `json:"specDescriptors"`
				StatusDescriptors []descriptor `json:"statusDescriptors"`
			} `json:"owned"`
		} `json:"customresourcedefinitions"`
		Install struct {
			Spec struct {
				Deployments []struct {
					Spec struct {
						Template corev1.PodTemplateSpec `json:"template"`
					} `json:"spec"`
				} `json:"deployments"`
				Permissions        []permission `json:"permissions"`
				ClusterPermissions []permission `json:"clusterPermissions"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

func read[T any](t *testing.T, file string) T {
	t.Helper()
	var into T
	assert.NilError(t, yaml.Unmarshal(mustRead(t, file), &into), file)
	return into
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cluster.Root(), file))
	assert.NilError(t, err)
	return data
}

// The file releases/commits names a commit for each release.
func TestReleasesHaveCommits(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(cluster.Root(), "releases", "v*"))
	assert.NilError(t, err)
	var released, committed []string
	for _, folder := range folders {
		released = append(released, strings.TrimPrefix(filepath.Base(folder), "v"))
	}
	for line := range strings.Lines(string(mustRead(t, "releases/commits"))) {
		version, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		assert.Assert(t, regexp.MustCompile("^[0-9a-f]{40}$").MatchString(commit), "no commit: %q", line)
		committed = append(committed, version)
	}
	assert.DeepEqual(t, sorted(committed), sorted(released))
}

// The documented commands install this version, and upgrade to it from the last release.
func TestDocsNameThisVersion(t *testing.T) {
	version := strings.TrimSpace(string(mustRead(t, "VERSION")))
	previous := strings.TrimSpace(string(script(t, "hack/released.sh", version)))
	for _, c := range []struct {
		file, pattern string
		want          []string
	}{
		{"docs/install.md", `d3os-operator-catalog:v([0-9.]+)`, []string{version}},
		{"config/olmv1/clustercatalog.yaml", `d3os-operator-catalog:v([0-9.]+)`, []string{version}},
		{"config/olmv1/clusterextension.yaml", `version: ([0-9.]+)`, []string{version}},
		{"docs/install.md", `path: /spec/source/catalog/version, value: ([0-9.]+)`, []string{previous}},
		{"docs/install.md", `newTag: v([0-9.]+)`, []string{version}},
		{"docs/install.md", `d3os-operator-bundle:v([0-9.]+)`, []string{previous, version}},
		{"docs/develop/images.md", `d3os-operator-catalog:v([0-9.]+)`, []string{version}},
	} {
		var named []string
		for _, match := range regexp.MustCompile(c.pattern).FindAllStringSubmatch(string(mustRead(t, c.file)), -1) {
			named = append(named, match[1])
		}
		assert.DeepEqual(t, slices.Compact(named), c.want)
	}
}

// The printed list of images for a mirror contains all images of each release, so that the mirror serves every upgrade
// that the catalog offers.
func TestImagesOfEveryUpgradeAreListed(t *testing.T) {
	version := strings.TrimSpace(string(mustRead(t, "VERSION")))
	const base = "registry-edge.cosmoplat.com/dataservice/d3os-operator"
	c := command(t, "hack/images.sh", "list")
	c.Env = append(c.Environ(), "IMAGE_TAG_BASE="+base, "VERSION="+version)
	out, err := c.Output()
	assert.NilError(t, err)
	listed := strings.Fields(string(out))
	folders, err := filepath.Glob(filepath.Join(cluster.Root(), "releases", "v*"))
	assert.NilError(t, err)
	for _, folder := range append(folders, filepath.Join(cluster.Root(), "bundle")) {
		folder, err = filepath.Rel(cluster.Root(), folder)
		assert.NilError(t, err)
		release := read[csv](t, folder+"/manifests/d3os-operator.clusterserviceversion.yaml")
		want := []string{release.Annotations["containerImage"], base + "-bundle:" + strings.TrimPrefix(release.Name, "d3os-operator.")}
		for _, related := range release.Spec.RelatedImages {
			want = append(want, related.Image)
		}
		for _, container := range release.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers {
			want = append(want, container.Image)
		}
		assert.Assert(t, len(want) > 10, folder)
		for _, image := range want {
			assert.Check(t, slices.Contains(listed, image), "%s needs %s", folder, image)
		}
	}
	assert.Equal(t, len(listed), len(slices.Compact(sorted(listed))), "an image is listed twice")
}

// Every link to the project uses the address in hack/project.env, and no file contains another address of the project.
func TestLinksLeadToThePublisher(t *testing.T) {
	t.Parallel()
	project := map[string]string{}
	for line := range strings.Lines(string(mustRead(t, "hack/project.env"))) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			project[name] = value
		}
	}
	url, email := project["PROJECT_URL"], project["PROJECT_EMAIL"]
	assert.Assert(t, url != "" && email != "", "%v", project)
	catalogued := read[struct {
		Metadata struct {
			Annotations map[string]string
		}
		Spec struct {
			Links       []struct{ URL string }
			Maintainers []struct{ Email string }
			Provider    struct{ URL string }
		}
	}](t, csvFile)
	assert.Equal(t, catalogued.Metadata.Annotations["repository"], url)
	assert.Equal(t, catalogued.Spec.Provider.URL, url)
	assert.Equal(t, catalogued.Spec.Maintainers[0].Email, email)
	assert.Assert(t, len(catalogued.Spec.Links) > 3)
	for _, link := range catalogued.Spec.Links {
		assert.Check(t, strings.HasPrefix(link.URL, url), link.URL)
	}
	assert.Assert(t, strings.Contains(string(mustRead(t, "SECURITY.md")), "<"+email+">"))
	rules := string(mustRead(t, "config/prometheus/rules.yaml"))
	assert.Equal(t, strings.Count(rules, "runbook_url: "), strings.Count(rules, "runbook_url: "+url+"/"))
	assert.NilError(t, filepath.WalkDir(cluster.Root(), func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(cluster.Root(), path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bin" || name == "dist" || name == "releases" || strings.HasPrefix(entry.Name(), ".") && name != "."):
			return filepath.SkipDir
		case entry.IsDir() || !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Two files contain such addresses: hack/catalog.sh replaces them in released bundles, and this test searches for them.
		if name != "hack/catalog.sh" && !strings.HasSuffix(name, "bundle_test.go") {
			assert.Check(t, !stranger.Match(data), "%s leads to %s", name, stranger.Find(data))
		}
		return nil
	}))
}

// stranger matches addresses of earlier releases, on accounts that do not belong to the project.
var stranger = regexp.MustCompile(`github\.com/d3os/|https://d3os\.com|@d3os\.com`)

// The page on stability names the version of each existing kind, and no other kind.
func TestStabilityOfEveryKindIsStated(t *testing.T) {
	t.Parallel()
	_, text, found := strings.Cut(string(mustRead(t, "docs/README.md")), "## Stability of the API\n")
	assert.Assert(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	stated := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([A-Z][A-Za-z, ]+) \\| `(v[0-9a-z]+)` \\|").FindAllStringSubmatch(text, -1) {
		for kind := range strings.SplitSeq(row[1], ", ") {
			stated[kind] = row[2]
		}
	}
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config/c*/bases/*.yaml"))
	assert.NilError(t, err)
	want := map[string]string{}
	for _, file := range files {
		file, err = filepath.Rel(cluster.Root(), file)
		assert.NilError(t, err)
		crd := read[apiextensionsv1.CustomResourceDefinition](t, file)
		assert.Equal(t, len(crd.Spec.Versions), 1, file)
		want[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Name
	}
	assert.DeepEqual(t, stated, want)
}

// Only an operator in the channel stable has the maturity stable. A bundle claims support for clusters without internet only if it names
// each image by digest.
func TestCatalogClaimsWhatHolds(t *testing.T) {
	t.Parallel()
	c := read[csv](t, csvFile)
	channels := read[struct {
		Annotations map[string]string `json:"annotations"`
	}](t, "bundle/metadata/annotations.yaml").Annotations["operators.operatorframework.io.bundle.channels.v1"]
	isStable := slices.Contains(strings.Split(channels, ","), "stable")
	assert.Equal(t, isStable, c.Spec.Maturity == "stable", "maturity %q in channels %s", c.Spec.Maturity, channels)

	byDigest := true
	for _, related := range c.Spec.RelatedImages {
		byDigest = byDigest && strings.Contains(related.Image, "@sha256:")
	}
	for _, container := range c.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers {
		byDigest = byDigest && strings.Contains(container.Image, "@sha256:")
		for _, variable := range container.Env {
			byDigest = byDigest && (!strings.HasPrefix(variable.Name, "RELATED_IMAGE_") || strings.Contains(variable.Value, "@sha256:"))
		}
	}
	assert.Equal(t, c.Annotations["features.operators.openshift.io/disconnected"], fmt.Sprint(byDigest))
}

// Each example of the catalog works: no example names example.com, and each resource that a backup or a restore refers to is another
// example. After the installation, a console proposes the smallest example.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	type example struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     map[string]any
	}
	c := read[csv](t, csvFile)
	var examples []example
	assert.NilError(t, json.Unmarshal([]byte(c.Annotations["alm-examples"]), &examples))
	specs := map[string]map[string]any{}
	for _, e := range examples {
		specs[e.Kind+"/"+e.Metadata.Name] = e.Spec
		text, err := json.Marshal(e.Spec)
		assert.NilError(t, err)
		assert.Check(t, !strings.Contains(string(text), "example.com"), "%s %s names %s", e.Kind, e.Metadata.Name, text)
	}
	for _, owned := range c.Spec.Definitions.Owned {
		assert.Check(t, slices.ContainsFunc(examples, func(e example) bool { return e.Kind == owned.Kind }), "%s has no example", owned.Kind)
	}
	for _, e := range examples {
		if e.Kind != "DataBackup" && e.Kind != "DataRestore" {
			continue
		}
		of := e.Spec["of"].(map[string]any)
		source := specs[fmt.Sprint(of["kind"], "/", of["name"])]
		if component, ok := of["component"].(string); ok {
			source, _ = source[component].(map[string]any)
		}
		assert.Check(t, source["backup"] != nil, "%s %s: no example is a source of backups with %v", e.Kind, e.Metadata.Name, of)
	}
	var proposed, minimal map[string]any
	assert.NilError(t, json.Unmarshal([]byte(c.Annotations["operatorframework.io/initialization-resource"]), &proposed))
	text, err := yaml.YAMLToJSON(mustRead(t, "config/samples/minimal.yaml"))
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(text, &minimal))
	assert.DeepEqual(t, proposed, minimal)
}
