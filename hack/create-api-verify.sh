#!/usr/bin/env bash
# Runs `operator-sdk create api` on a copy of the project and builds the result.
#
# The layout go.kubebuilder.io/v4 requires cmd/main.go, and this path cannot be configured. Therefore cmd/main.go is a link to main.go. The
# command adds types and a controller. internal/manager registers controllers by hand.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sdk=${OPERATOR_SDK:-$PWD/bin/tools/operator-sdk}
tools=$(cd "$(dirname "$sdk")" && pwd)
copy=$(mktemp --directory)
trap 'rm -rf "$copy"' EXIT

git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory="$copy"
mkdir -p "$copy/bin"
ln -s "$tools" "$copy/bin/tools"
cd "$copy"
"$sdk" create api --group x --version v1 --kind Y --resource --controller >create.log 2>&1 || {
	cat create.log >&2
	exit 1
}
test -f api/x/v1/y_types.go -a -f internal/controller/x/y_controller.go
go vet ./api/x/... ./internal/controller/x/...
go build ./...
echo "operator-sdk create api: the result builds"
