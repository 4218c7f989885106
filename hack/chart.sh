#!/usr/bin/env bash
# Writes dist/chart, the Helm chart of the operator, from config/: the objects of config/default, and, if values enable them, the monitoring
# of config/prometheus and the policy of config/admission.
#
#   IMG, VERSION   of the operator
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/project.env
kustomize=${KUSTOMIZE:-$PWD/bin/tools/kustomize}

copy=$(mktemp --directory)
trap 'rm -rf "$copy"' EXIT
cp --recursive config "$copy"
sed -i 's|^# - ../prometheus$|- ../prometheus|' "$copy/config/default/kustomization.yaml"
{
	"$kustomize" build "$copy/config/default"
	echo ---
	"$kustomize" build config/admission
} >"$copy/objects.yaml"
go run ./hack/chart -image "${IMG:?}" -version "${VERSION:?}" -url "$PROJECT_URL" <"$copy/objects.yaml"
