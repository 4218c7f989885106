// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helm4_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	loader3 "helm.sh/helm/v3/pkg/chart/loader"
	chartutil3 "helm.sh/helm/v3/pkg/chartutil"
	engine3 "helm.sh/helm/v3/pkg/engine"
	releaseutil3 "helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	loader4 "helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil4 "helm.sh/helm/v4/pkg/chart/v2/util"
	engine4 "helm.sh/helm/v4/pkg/engine"
	releaseutil4 "helm.sh/helm/v4/pkg/release/v1/util"
)

// output is the result of `helm template`.
type output struct {
	files       map[string]string // every template by its path, NOTES.txt included
	manifests   []manifest        // the objects in the order of their installation
	hooks, crds int
}

// manifest is an object that Helm installs, and the path of its template.
type manifest struct{ path, text string }

// withoutNotes returns the files without NOTES.txt, which Helm does not parse.
func withoutNotes(files map[string]string) map[string]string {
	rest := map[string]string{}
	for name, text := range files {
		if !strings.HasSuffix(name, "NOTES.txt") {
			rest[name] = text
		}
	}
	return rest
}

// plain3 renders with Helm 3 like `helm template`.
func plain3(t *testing.T, folder, valuesFile string) output {
	t.Helper()
	chart, err := loader3.Load(folder)
	assert.NilError(t, err)
	values, err := chartutil3.ReadValuesFile(valuesFile)
	assert.NilError(t, err)
	assert.NilError(t, chartutil3.ProcessDependenciesWithMerge(chart, values))
	version, err := chartutil3.ParseKubeVersion(kubeVersion)
	assert.NilError(t, err)
	capabilities := chartutil3.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	options := chartutil3.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}
	all, err := chartutil3.ToRenderValues(chart, values, options, capabilities)
	assert.NilError(t, err)
	files, err := engine3.Render(chart, all)
	assert.NilError(t, err)
	hooks, manifests, err := releaseutil3.SortManifests(withoutNotes(files), nil, releaseutil3.InstallOrder)
	assert.NilError(t, err)
	out := output{files: files, hooks: len(hooks), crds: len(chart.CRDObjects())}
	for _, m := range manifests {
		out.manifests = append(out.manifests, manifest{m.Name, m.Content})
	}
	return out
}

// plain4 renders with Helm 4 like `helm template`.
func plain4(t *testing.T, folder, valuesFile string) output {
	t.Helper()
	chart, err := loader4.Load(folder)
	assert.NilError(t, err)
	values, err := common.ReadValuesFile(valuesFile)
	assert.NilError(t, err)
	assert.NilError(t, chartutil4.ProcessDependencies(chart, values))
	version, err := common.ParseKubeVersion(kubeVersion)
	assert.NilError(t, err)
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	options := common.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}
	all, err := commonutil.ToRenderValues(chart, values, options, capabilities)
	assert.NilError(t, err)
	files, err := engine4.Engine{}.RenderWithContext(t.Context(), chart, all)
	assert.NilError(t, err)
	hooks, manifests, err := releaseutil4.SortManifests(withoutNotes(files), nil, releaseutil4.InstallOrder)
	assert.NilError(t, err)
	out := output{files: files, hooks: len(hooks), crds: len(chart.CRDObjects())}
	for _, m := range manifests {
		out.manifests = append(out.manifests, manifest{m.Name, m.Content})
	}
	return out
}
