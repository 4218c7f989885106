# `make help` explains the targets. Every tool is built from source by hack/tools.mk.
#
# KUBECONFIG: if it is set, every target that needs a cluster uses that cluster. If it is not set, the targets that install the operator
# (make install, run, deploy and their opposites) use the cluster of ~/.kube/config, if that file exists. All other targets use an embedded
# cluster (hack/cluster.sh), which needs neither Docker nor root. If KUBECONFIG is the kubeconfig of the embedded cluster, which make demo
# prints, every target uses the embedded cluster.

SHELL       := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VERSION        ?= $(shell cat VERSION)
CHANNELS       ?= stable,candidate
DEFAULT_CHANNEL ?= stable

ARGS ?=
# true: make bundle pins images by digest, and reads the digests from the images' registries.
USE_IMAGE_DIGESTS ?= false

include hack/project.env
include hack/tools.mk

# Go compiles a package again for each combination of these settings, so tools, tests, linters and images use the same settings. `make
# test ARGS=-race` needs CGO_ENABLED=1.
CGO_ENABLED ?= 0
GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath
export CGO_ENABLED GOFLAGS
# Test binaries without debugging information: each needs 4 s of processor time to link instead of 7 s, and all modules have 88 of them.
LINK := -ldflags='-s -w'
# A failed assertion shows its source. With -trimpath, paths are relative to the module, and gotest.tools finds the source by these
# variables.
SOURCE_LINK := bin/source/d3os.com/d3os-operator
export BAZEL_TEST   := 1
export TEST_SRCDIR  := $(CURDIR)/bin/source

LDFLAGS := -s -w -X d3os.com/d3os-operator/internal/version.Version=$(VERSION)
CLUSTER_NAME ?= d3os
export CLUSTER_NAME TOOLS
include hack/images.mk
include hack/node.mk
include hack/olm.mk
# The user's cluster takes precedence over the embedded cluster. As in every project of the Operator SDK, the targets that install the
# operator use the cluster of kubectl, ~/.kube/config, if KUBECONFIG is not set. A make that another make starts inherits both variables.
INSTALLING   := docker-build docker-push install uninstall run deploy undeploy
EMBEDDED     := $(CURDIR)/.cluster/$(CLUSTER_NAME)/kubeconfig
ifeq ($(MAKELEVEL),0)
USER_CLUSTER := $(if $(filter $(EMBEDDED),$(abspath $(KUBECONFIG))),,$(or $(KUBECONFIG),$(if \
	$(filter-out $(INSTALLING),$(or $(MAKECMDGOALS),help)),,$(wildcard $(HOME)/.kube/config))))
endif
export USER_CLUSTER
KUBECONFIG   := $(or $(USER_CLUSTER),$(EMBEDDED))
export KUBECONFIG
# The suites use the user's cluster, or start a cluster with these programs.
ON_CLUSTER = KUBECONFIG='$(USER_CLUSTER)' TOOLS='$(CLUSTER_BIN)' KUBEBUILDER_ASSETS='$(CLUSTER_BIN)' REDIS='$(REDIS)' \
	PROMETHEUS='$(PROMETHEUS)' ETCD='$(ETCD)' NGINX='$(NGINX)'
TEST_ENVIRONMENT = $(ON_CLUSTER) MARIADB='$(MARIADB)' MYSQL='$(MYSQL)' JAVA='$(JAVA)' HELM='$(HELM)' CRDIFY='$(CRDIFY)' GOTESTSUM='$(GOTESTSUM)' LINK_FLAGS=$(LINK)
# With the user's cluster, the user's kubectl is used.
KUBECTL := $(or $(if $(USER_CLUSTER),$(shell command -v kubectl)),$(TOOLS)/kubectl)

##@ Start here

.PHONY: help
help: ## Show this.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make <target> [VARIABLE=value]\n"} \
		/^[a-z0-9-]+:.*##/ { printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2 } \
		/^##@/ { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) }' $(MAKEFILE_LIST)
	@printf '\n\033[1mVariables\033[0m\n'
	@printf '  %-18s %s\n' \
		KUBECONFIG 'a cluster of yours; unset: the embedded one in .cluster/$(CLUSTER_NAME). For install, run and deploy: ~/.kube/config, if it exists' \
		IMG 'the operator image ($(IMG))' \
		BUNDLE_IMG 'the OLM bundle image ($(BUNDLE_IMG))' \
		SCORECARD_IMG 'the image of the scorecard tests ($(SCORECARD_IMG))' \
		CATALOG_IMG 'the catalog image ($(CATALOG_IMG))' \
		CONTAINER_TOOL 'docker, podman or buildah ($(CONTAINER_TOOL))' \
		KUBERNETES 'oldest: the embedded cluster is of the oldest Kubernetes that is supported ($(OLDEST_VERSION))' \
		MIRROR 'for deploy and build-installer: your own registry, filled by hack/mirror.sh' \
		ARGS 'more arguments for run, test and bench'

.PHONY: demo
demo: export DEMO_START := $(shell date +%s)
demo: ## From nothing to a running platform in one command: cluster, operator, sample.
	@hack/progress.sh .cluster/build.log $(MAKE) --silent -j2 $(if $(USER_CLUSTER),$(KUBECTL),cluster-tools) build
	@KUBECTL='$(KUBECTL)' TOOLS='$(CLUSTER_BIN)' IMG='$(IMG)' hack/demo.sh up

.PHONY: tour
tour: $(KUBECTL) ## A walk through the demo with the kubectl plugin: a broken image, why, diff, history, rollback.
	@hack/progress.sh .cluster/build.log $(MAKE) --silent plugin
	@KUBECTL='$(KUBECTL)' TOOLS='$(CLUSTER_BIN)' hack/demo.sh tour

.PHONY: demo-down
demo-down: $(KUBECTL) ## Remove what demo started.
	@KUBECTL='$(KUBECTL)' TOOLS='$(CLUSTER_BIN)' hack/demo.sh down

.PHONY: clean
clean: ## Remove what was built (ALL=yes: the tools, too).
	rm -rf bin/manager bin/agent bin/kubectl-dataservice bin/linux bin/images bin/source coverage.out $(if $(ALL),'$(TOOLS)')

##@ Development

.PHONY: generate
generate: $(CONTROLLER_GEN) $(CLIENT_GEN) ## Generate the deep-copy code of the API types, and the Go clients in client/.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	@TOOLS='$(TOOLS)' hack/client.sh

# The CRDs of the kinds that config/compat installs.
COMPAT_CRDS := app.example.com_appservices.yaml model.github.com_modelboxes.yaml stable.example.com_crontabs.yaml

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate the CRDs, the operator's role, its list of images, alerts and dashboard.
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:dir=config/crd/bases
	mv $(addprefix config/crd/bases/,$(COMPAT_CRDS)) config/compat/bases
	go run ./hack/crd config/crd/bases/*.yaml config/compat/bases/*.yaml
	$(CONTROLLER_GEN) rbac:roleName=manager-role,headerFile=hack/boilerplate.yaml.txt paths=./internal/... output:rbac:dir=config/rbac
	go run ./hack/relatedimages config/manager/related_images.yaml
	go run -C hack/monitoring . rules -project '$(PROJECT_URL)' >config/prometheus/rules.yaml
	go run -C hack/monitoring . dashboard >config/prometheus/dashboard.json
	sed -i 's|<[^<>@ ]*@[^<>@ ]*>|<$(PROJECT_EMAIL)>|' SECURITY.md

.PHONY: docs
docs: $(CRD_REF_DOCS) ## Generate the API references in docs/reference, a file for each group, and the tables of docs/operate/troubleshooting.md.
	@mkdir -p docs/reference
	$(CRD_REF_DOCS) --source-path=api/v1 --output-path=docs/reference/api.md $(REF_DOCS)
	$(CRD_REF_DOCS) --source-path=api/backup --output-path=docs/reference/backup.md $(REF_DOCS)
	$(CRD_REF_DOCS) --source-path=api/redis --output-path=docs/reference/redis.md $(REF_DOCS)
	$(CRD_REF_DOCS) --source-path=api/etcd --output-path=docs/reference/etcd.md $(REF_DOCS)
	$(CRD_REF_DOCS) --source-path=api/mysql --output-path=docs/reference/mysql.md $(REF_DOCS)
	$(CRD_REF_DOCS) --source-path=api/app --output-path=docs/reference/appservice.md $(REF_DOCS)
	$(CRD_REF_DOCS) --source-path=api/model --output-path=docs/reference/modelbox.md $(REF_DOCS)
	$(CRD_REF_DOCS) --source-path=api/stable --output-path=docs/reference/crontab.md $(REF_DOCS)
	go run ./hack/troubleshooting

REF_DOCS := --config=hack/crd-ref-docs.yaml --templates-dir=hack/docs-templates --renderer=markdown --log-level=ERROR

.PHONY: verify-generated
verify-generated: ## Fail if a generated file differs from the output of its generator.
	@hack/verify-generated.sh

.PHONY: figures
figures: ## Print the size of the source and its bounds.
	@hack/figures.sh

.PHONY: lint
lint: $(GOLANGCI_LINT) $(HELM) $(CRDIFY) ## Run golangci-lint (.golangci.yml) on every module, lint the charts, compare the CRDs with those of the latest release.
	@CRDIFY='$(CRDIFY)' hack/crd-safety.sh
	@hack/lint.sh
	@hack/helm-lint.sh

.PHONY: test test-tools gate-tools
test-tools: cluster-tools $(REDIS)/redis-server $(NGINX)/nginx $(ETCD_36) $(MARIADB)/mysqld $(HELM) $(CRDIFY) $(GOTESTSUM) $(SOURCE_LINK)
# Collect garbage a quarter as often. Measured on two cores: test/fields takes 11 s of processor time instead of 14 s, test/security 19 s
# instead of 25 s, with some hundred megabytes more memory.
test: export GOGC := 400
test: test-tools ## Run the tests of all modules that every change must pass. They start their own clusters, unless KUBECONFIG is set (MODULE=cmd/agent ARGS='-run X ./internal/store': a part).
	@$(TEST_ENVIRONMENT) MODULE='$(MODULE)' hack/test.sh $(ARGS)
# The tools for .ci/run.
gate-tools: test-tools $(GOLANGCI_LINT) $(CONTROLLER_GEN) $(CLIENT_GEN) $(KUSTOMIZE) $(CRD_REF_DOCS) $(OPERATOR_SDK)

$(SOURCE_LINK):
	@mkdir -p $(@D) && ln -sfn '$(CURDIR)' $@

.PHONY: tools
tools: cluster-tools node-tools olm-tools $(REDIS)/redis-server $(NGINX)/nginx $(MARIADB)/mysqld $(MYSQL)/mysqld $(JAVA)/java $(ETCDS) $(MONGODB_OPERATOR) $(FERRETDB) $(PROMETHEUS)/promtool $(GOLANGCI_LINT) $(CONTROLLER_GEN) $(CLIENT_GEN) $(KUSTOMIZE) $(CRD_REF_DOCS) $(CRDIFY) $(KUBE_SCORE) $(GOVULNCHECK) $(GOTESTSUM) ## Build every tool that any target needs.

.PHONY: fresh-machine
fresh-machine: ## Run each target on a new Debian that has only Go, git and make (root; GO_CACHES=host is faster; ARGS=targets).
	@hack/fresh.sh $(ARGS)

include hack/verify.mk

##@ Build

.PHONY: build
build: ## Build the operator and its agent, bin/manager and bin/agent.
	@printf '  [%s] building the operator (some minutes the first time)\n' "$$(date +%T)"
	go build -ldflags '$(LDFLAGS)' -o bin/manager .
	go build -C cmd/agent -ldflags '-s -w' -o '$(CURDIR)/bin/agent' .

.PHONY: plugin
plugin: ## Build the kubectl plugin, bin/kubectl-dataservice; in the PATH it is `kubectl dataservice`.
	@printf '  [%s] building the kubectl plugin\n' "$$(date +%T)"
	go build -C cmd/kubectl-dataservice -ldflags '$(LDFLAGS)' -o '$(CURDIR)/bin/kubectl-dataservice' .

# The address of the published archives. The index of krew contains this address.
PLUGIN_URL ?= https://example.com/d3os-operator/v$(VERSION)

.PHONY: plugin-archives
plugin-archives: ## Write dist/plugin: the kubectl plugin for six platforms, and an index for krew (PLUGIN_URL).
	@VERSION='$(VERSION)' PLUGIN_URL='$(PLUGIN_URL)' hack/plugin.sh

##@ Cluster

.PHONY: cluster-tools
cluster-tools: $(CLUSTER_TOOLS) # the control plane, kubectl and kwok: some 7 minutes on two cores, once

.PHONY: cluster-up
cluster-up: $(if $(USER_CLUSTER),$(KUBECTL),cluster-tools $(KUBECTL)) ## Start the embedded cluster (does nothing if KUBECONFIG is set).
	@$(if $(USER_CLUSTER),echo 'using the cluster of KUBECONFIG=$(USER_CLUSTER)',TOOLS='$(CLUSTER_BIN)' hack/cluster.sh up)

.PHONY: cluster-down
cluster-down: ## Remove the embedded cluster.
	@$(if $(USER_CLUSTER),echo 'the cluster of KUBECONFIG=$(USER_CLUSTER) is left alone',TOOLS='$(CLUSTER_BIN)' hack/cluster.sh down)

.PHONY: install
install: cluster-up ## Install the CRD.
	$(KUBECTL) apply --server-side --force-conflicts -k config/crd

.PHONY: uninstall
uninstall: $(KUBECTL) ## Remove the CRD, and with it every DataService.
	$(KUBECTL) delete --ignore-not-found -k config/crd

.PHONY: run
run: install ## Run the operator on this machine against the cluster.
	go run -ldflags '$(LDFLAGS)' . $(ARGS)

.PHONY: deploy
deploy: cluster-up build-installer ## Install the CRD and run the operator (IMG) in the cluster.
	@$(if $(USER_CLUSTER),,echo 'note: the embedded cluster only simulates pods; use make run or make demo there')
	$(KUBECTL) apply --server-side --force-conflicts -f dist/install.yaml

.PHONY: build-installer
build-installer: $(KUSTOMIZE) ## Write dist/install.yaml: the CRD and the operator (IMG), for kubectl apply (MIRROR=registry/path: all images come from there).
	@mkdir -p dist
	@$(KUSTOMIZE) build config/default | sed 's|image: controller:latest|image: $(IMG)|' $(if $(MIRROR),| hack/mirror.sh '$(MIRROR)' rename) >dist/install.yaml
	@echo 'dist/install.yaml'

.PHONY: chart
chart: $(KUSTOMIZE) ## Write dist/chart, the Helm chart of the operator (IMG), from config/.
	@KUSTOMIZE='$(KUSTOMIZE)' IMG='$(IMG)' VERSION='$(VERSION)' hack/chart.sh

.PHONY: undeploy
undeploy: $(KUBECTL) $(KUSTOMIZE) ## Remove the operator and the CRD, and with it every DataService.
	$(KUSTOMIZE) build config/default | $(KUBECTL) delete --ignore-not-found -f -

##@ Operator Lifecycle Manager

.PHONY: bundle
bundle: manifests $(KUSTOMIZE) $(OPERATOR_SDK) ## Generate and validate the bundle.
	@KUSTOMIZE='$(KUSTOMIZE)' OPERATOR_SDK='$(OPERATOR_SDK)' IMG='$(IMG)' SCORECARD_IMG='$(SCORECARD_IMG)' VERSION='$(VERSION)' \
		CHANNELS='$(CHANNELS)' DEFAULT_CHANNEL='$(DEFAULT_CHANNEL)' \
		USE_IMAGE_DIGESTS='$(filter-out false,$(USE_IMAGE_DIGESTS))' hack/bundle.sh

.PHONY: bundle-validate
bundle-validate: $(OPERATOR_SDK) ## Validate bundle, releases and catalog as catalogs do, and `operator-sdk create api`; a warning fails (MULTIARCH_TOOL=docker|podman asks registries).
	@OPERATOR_SDK='$(OPERATOR_SDK)' hack/bundle-validate.sh
	@OPERATOR_SDK='$(OPERATOR_SDK)' hack/create-api-verify.sh

.PHONY: release
release: ## Store bundle/ in releases/ as the release of VERSION (docs/develop/releasing.md).
	@VERSION='$(VERSION)' hack/release.sh

.PHONY: scorecard
scorecard: $(if $(USER_CLUSTER),$(OPERATOR_SDK) $(KUBECTL),e2e-tools) ## Run scorecard with its built-in tests and the operator's own; without KUBECONFIG, on a real node (ARGS=selector).
	@$(if $(USER_CLUSTER),KUBECTL='$(KUBECTL)' hack/scorecard.sh $(ARGS),IMG='$(IMG)' SCORECARD_IMG='$(SCORECARD_IMG)' MYSQL='$(MYSQL)' hack/e2e.sh TestScorecard)

.PHONY: e2e-tools
e2e-tools: node-tools olm-tools $(MYSQL)/mysqld $(if $(filter full,$(E2E)),olm-v1-tools $(VERSITYGW)) $(KUSTOMIZE) $(SOURCE_LINK)

.PHONY: e2e
e2e: e2e-tools plugin ## Install, upgrade and remove the operator as users do, on real pods: a node of this machine or KUBECONFIG (ARGS=test; E2E=full: with OLM v1 and a store of S3, too).
	@E2E='$(E2E)' IMG='$(IMG)' SCORECARD_IMG='$(SCORECARD_IMG)' MYSQL='$(MYSQL)' hack/e2e.sh $(ARGS)

