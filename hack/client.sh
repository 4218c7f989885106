#!/usr/bin/env bash
# Generates client/: clientset, listers, informers and apply configurations for each package below api/ that has a type with the marker
# +genclient.
#
# The generators expect one Go package for each group and version, but d3os-product.com.d3os/v1alpha1 has two: api/backup and api/mysql. So
# they read a copy of the API in which each package has a separate group. The script then restores the right group in the output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=${TOOLS:-$PWD/bin/tools}
header=$PWD/hack/boilerplate.go.txt
out=$PWD/client
module=$(sed -n 's/^module //p' go.mod)
to=$module/client

copy=$(mktemp --directory)
trap 'rm -rf "$copy"' EXIT
cp --archive --parents go.mod go.sum api internal/contract "$copy"
rm -rf "$out"/{applyconfiguration,clientset,informers,listers}
cd "$copy"
find api -name '*_test.go' -delete

packages=() inputs=() groups=()
for folder in $(grep --recursive --files-with-matches '^// +genclient$' api | xargs -n 1 dirname | sort -u); do
	group=$(sed -n 's|^// +groupName=||p' "$folder/groupversion.go")
	own=${folder//\//-}.example
	# The generators read a package's markers only from this file.
	{ echo "// +groupName=$own" && grep '^// +groupGoName=' "$folder/groupversion.go" && echo "package ${folder##*/}"; } >"$folder/doc.go"
	packages+=("$module/$folder") inputs+=(--input "$folder") groups+=(--expression "s|$own|$group|g")
done

"$tools/applyconfiguration-gen" --go-header-file "$header" --output-dir "$out/applyconfiguration" --output-pkg "$to/applyconfiguration" "${packages[@]}"
"$tools/client-gen" --go-header-file "$header" --output-dir "$out/clientset" --output-pkg "$to/clientset" --clientset-name versioned \
	--apply-configuration-package "$to/applyconfiguration" --input-base "$module" "${inputs[@]}"
"$tools/lister-gen" --go-header-file "$header" --output-dir "$out/listers" --output-pkg "$to/listers" "${packages[@]}"
"$tools/informer-gen" --go-header-file "$header" --output-dir "$out/informers" --output-pkg "$to/informers" \
	--versioned-clientset-package "$to/clientset/versioned" --listers-package "$to/listers" "${packages[@]}"
find "$out"/{applyconfiguration,clientset,informers,listers} -name '*.go' -exec sed -i "${groups[@]}" {} +
