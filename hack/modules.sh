#!/usr/bin/env bash
# Prints the folder of each Go module of this repository, except those that only name tools (hack/tools).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
git ls-files --cached --others --exclude-standard 'go.mod' '*/go.mod' | grep -v '^hack/tools/' | xargs -n 1 dirname
