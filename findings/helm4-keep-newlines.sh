#!/usr/bin/env bash
# Helm 3.22.0 and 4.3.1: a text that keeps its trailing newlines (|+) at the end of an object is installed with fewer or more newlines than
# in the chart.
#
# Helm splits the rendered templates into objects (SortManifests). It prints each object, followed by one newline, into the manifest to
# install (renderResources). Helm 3 trims the white space around an object before that, so three trailing newlines become one. Helm 4 keeps
# the trailing white space, so three newlines become four. After an upgrade of Helm, such a ConfigMap changes with the same chart and the
# same values, and no message reports it. Texts with | or |- do not change.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<'MOD'
module example
go 1.26.0
require (
	helm.sh/helm/v3 v3.22.0
	helm.sh/helm/v4 v4.3.1
	sigs.k8s.io/yaml v1.6.0
)
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"

	three "helm.sh/helm/v3/pkg/releaseutil"
	four "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"
)

func text(manifest string) string {
	var object struct{ Data struct{ Text string } }
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		panic(err)
	}
	return object.Data.Text
}

func main() {
	for _, style := range []string{"|+", "|", "|-"} {
		rendered := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: example\ndata:\n  text: " + style + "\n    welcome\n\n\n"
		files := map[string]string{"example/templates/all.yaml": rendered}
		_, of3, err := three.SortManifests(files, nil, three.InstallOrder)
		if err != nil {
			panic(err)
		}
		_, of4, err := four.SortManifests(files, nil, four.InstallOrder)
		if err != nil {
			panic(err)
		}
		printed := func(name, content string) string { return fmt.Sprintf("---\n# Source: %s\n%s\n", name, content) } // as renderResources does
		fmt.Printf("%s: the chart has %q, Helm 3 installs %q, Helm 4 installs %q\n", style,
			text(rendered), text(printed(of3[0].Name, of3[0].Content)), text(printed(of4[0].Name, of4[0].Content)))
	}
}
GO
go mod tidy >/dev/null 2>&1
for module in helm.sh/helm/v3 helm.sh/helm/v4; do
	go list -m "$module"
	grep -qF 'fmt.Fprintf(b, "---\n# Source: %s\n%s\n", m.Name, m.Content)' "$(go list -m -f '{{.Dir}}' "$module")/pkg/action/action.go"
done
out=$(go run .)
echo "$out"
for line in '|+: the chart has "welcome\n\n\n", Helm 3 installs "welcome\n", Helm 4 installs "welcome\n\n\n\n"' \
	'|: the chart has "welcome\n", Helm 3 installs "welcome\n", Helm 4 installs "welcome\n"' \
	'|-: the chart has "welcome", Helm 3 installs "welcome", Helm 4 installs "welcome"'; do
	grep -qxF "$line" <<<"$out"
done
