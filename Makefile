# `make help` explains the targets. Every tool is built from source by hack/tools.mk.
#
# KUBECONFIG: set it, and every target that needs a cluster uses that one. Unset, they use an
# embedded cluster (hack/cluster.sh), which needs neither Docker nor root.

SHELL       := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VERSION        ?= $(shell cat VERSION)
CHANNELS       ?= stable,candidate
DEFAULT_CHANNEL ?= stable

ARGS ?=
# true: make bundle pins images by digest, and asks their registries for it.
USE_IMAGE_DIGESTS ?= false

include hack/project.env
include hack/tools.mk

# Go compiles a package once for each set of these: tools, tests, linters and images all have the same. `make test
# ARGS=-race` asks for CGO_ENABLED=1.
CGO_ENABLED ?= 0
GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath
export CGO_ENABLED GOFLAGS
# Test binaries without what debuggers read: each takes 4 s of processor time to link instead of 7, and there are 65 of them.
LINK := -ldflags='-s -w'
# A failed assertion shows its source, which gotest.tools finds by these where -trimpath has left a path without its root.
SOURCE_LINK := bin/source/d3os.com/d3os-operator
export BAZEL_TEST   := 1
export TEST_SRCDIR  := $(CURDIR)/bin/source

LDFLAGS := -s -w -X d3os.com/d3os-operator/internal/version.Version=$(VERSION)
CLUSTER_NAME ?= d3os
export CLUSTER_NAME TOOLS
include hack/images.mk
include hack/node.mk
include hack/olm.mk
# A cluster of the user's wins over the embedded one.
USER_CLUSTER := $(KUBECONFIG)
KUBECONFIG   ?= $(CURDIR)/.cluster/$(CLUSTER_NAME)/kubeconfig
export KUBECONFIG
# Where suites find a cluster, or what to make one of.
ON_CLUSTER = KUBECONFIG='$(USER_CLUSTER)' TOOLS='$(CLUSTER_BIN)' KUBEBUILDER_ASSETS='$(CLUSTER_BIN)' REDIS='$(REDIS)' \
	PROMETHEUS='$(PROMETHEUS)' ETCD='$(ETCD)'
# With your own cluster, your own kubectl is used.
KUBECTL := $(or $(if $(USER_CLUSTER),$(shell command -v kubectl)),$(TOOLS)/kubectl)

##@ Start here

.PHONY: help
help: ## Show this.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make <target> [VARIABLE=value]\n"} \
		/^[a-z0-9-]+:.*##/ { printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2 } \
		/^##@/ { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) }' $(MAKEFILE_LIST)
	@printf '\n\033[1mVariables\033[0m\n'
	@printf '  %-18s %s\n' \
		KUBECONFIG 'a cluster of yours; unset: the embedded one in .cluster/$(CLUSTER_NAME)' \
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
	@USER_CLUSTER='$(USER_CLUSTER)' KUBECTL='$(KUBECTL)' TOOLS='$(CLUSTER_BIN)' hack/demo.sh up

.PHONY: tour
tour: $(KUBECTL) ## A walk through the demo with the kubectl plugin: a broken image, why, diff, history, rollback.
	@hack/progress.sh .cluster/build.log $(MAKE) --silent plugin
	@USER_CLUSTER='$(USER_CLUSTER)' KUBECTL='$(KUBECTL)' TOOLS='$(CLUSTER_BIN)' hack/demo.sh tour

.PHONY: demo-down
demo-down: $(KUBECTL) ## Remove what demo started.
	@USER_CLUSTER='$(USER_CLUSTER)' KUBECTL='$(KUBECTL)' TOOLS='$(CLUSTER_BIN)' hack/demo.sh down

.PHONY: clean
clean: ## Remove what was built (ALL=yes: the tools, too).
	rm -rf bin/manager bin/agent bin/kubectl-dataservice bin/linux bin/images bin/source coverage.out $(if $(ALL),'$(TOOLS)')

##@ Development

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate the deep-copy code of the API types.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate the CRDs, the operator's role, its list of images, alerts and dashboard.
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:dir=config/crd/bases
	go run ./hack/crd config/crd/bases/*.yaml
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
	go run ./hack/troubleshooting

REF_DOCS := --config=hack/crd-ref-docs.yaml --templates-dir=hack/docs-templates --renderer=markdown --log-level=ERROR

.PHONY: verify-generated
verify-generated: ## Fail when generated files are not what their sources generate.
	@hack/verify-generated.sh

.PHONY: figures
figures: ## Print the size of the source and its bounds.
	@hack/figures.sh

.PHONY: lint
lint: $(GOLANGCI_LINT) $(HELM) $(CRDIFY) ## Run golangci-lint (.golangci.yml), lint the charts, compare the CRDs with those of the latest release.
	@CRDIFY='$(CRDIFY)' hack/crd-safety.sh
	$(GOLANGCI_LINT) run
	cd cmd/kubectl-dataservice && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	cd cmd/agent && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	cd hack/monitoring && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	@hack/helm-lint.sh

.PHONY: security
security: $(GOLANGCI_LINT) $(KUSTOMIZE) $(KUBE_SCORE) $(GOVULNCHECK) $(SOURCE_LINK) ## Judge pods, manifests, code and dependencies (SECURITY.md); needs no cluster.
	go test $(LINK) ./test/security
	@hack/gosec.sh
	@hack/kube-score.sh
	@hack/govulncheck.sh

.PHONY: test
# Long tests (harness.Long) are left to `make verify`, which sets SHORT to nothing.
SHORT := -short
# The tests of the agent wait more than they compute, so they and those of the plugin run in parallel to the others.
test: export beside = MARIADB='$(MARIADB)' MYSQL='$(MYSQL)' REDIS='$(REDIS)' go test -C cmd/agent $(LINK) -parallel 4 -timeout 30m $(SHORT) ./... && go test -C test/images $(LINK) ./... && go test -C test/scorecard $(LINK) ./... \
	&& $(ON_CLUSTER) go test -C cmd/kubectl-dataservice $(LINK) $(SHORT) -timeout 20m ./...
# Garbage is collected a quarter as often. Measured on two cores: test/fields takes 11 s of processor time instead of 14,
# test/security 19 instead of 25, for some hundred megabytes more of memory.
test: export GOGC := 400
test: cluster-tools $(REDIS)/redis-server $(ETCDS) $(MARIADB)/mysqld $(MYSQL)/mysqld $(PROMETHEUS)/promtool $(HELM) $(CRDIFY) $(SOURCE_LINK) ## Run all tests except the long ones (SHORT=: these, too); they start their own clusters unless KUBECONFIG is set (ARGS='-run X ./internal/apply').
	$(ON_CLUSTER) HELM='$(HELM)' CRDIFY='$(CRDIFY)' $(if $(ARGS),,hack/beside.sh "$$beside" --) go test $(LINK) -p 3 -timeout 20m $(or $(ARGS),$(SHORT) ./...)

$(SOURCE_LINK):
	@mkdir -p $(@D) && ln -sfn '$(CURDIR)' $@

.PHONY: bench
bench: cluster-tools $(REDIS)/redis-server ## Measure the operator with many DataServices (LOAD=100,300,1000: what grows with their number, an hour or more).
	$(ON_CLUSTER) go run ./test/bench $(if $(LOAD),-only middleware$(comma)load -sizes '$(LOAD)') $(ARGS)

.PHONY: tools
tools: cluster-tools node-tools olm-tools $(REDIS)/redis-server $(MARIADB)/mysqld $(MYSQL)/mysqld $(ETCDS) $(PROMETHEUS)/promtool $(GOLANGCI_LINT) $(CONTROLLER_GEN) $(KUSTOMIZE) $(CRD_REF_DOCS) $(CRDIFY) $(KUBE_SCORE) $(GOVULNCHECK) ## Build every tool that any target needs.

.PHONY: verify
verify: ## Run everything there is, in full, and print the seconds of each step (root, some hours; STEPS='lint test' runs those).
	@hack/verify.sh full $(STEPS)

# Steps of verify alone.
.PHONY: images-verify mirror-verify plugin-verify
images-verify: $(CYCLONEDX)
	@hack/images-verify.sh
mirror-verify: $(OPM) $(TOOLS)/registry
	@hack/mirror-verify.sh
plugin-verify: $(KREW) $(TOOLS)/kubectl $(SOURCE_LINK)
	go test -tags krew -count 1 -timeout 1h -v ./test/krew

.PHONY: fresh-machine
fresh-machine: ## Show that these targets need nothing but Go, git and make: each on a new Debian (root; GO_CACHES=host is fast; ARGS=targets).
	@hack/fresh.sh $(ARGS)

##@ Reliability

FUZZTIME ?= 30s
MODEL_RUNS ?= 300
export FUZZTIME TRANSITIONS

SUITES := alerts backup bad-input chaos etcd fuzz guard ha model mysql redis transitions
.PHONY: suite $(SUITES) $(SUITES:%=suite-%)
$(SUITES): %: suite-% # the short form, such as make mysql
suite: suite-$(SUITE) ## Run a long suite of docs/testing.md in full: SUITE=alerts, backup, bad-input, chaos, etcd, fuzz, guard, ha, model, mysql, redis or transitions (ARGS='-run X').

# Stops, kills, freezes and cuts off the leader; a standby must take over. HA_RUNS=times.
suite-ha: cluster-tools $(SOURCE_LINK)
	$(ON_CLUSTER) KUBECONFIG= go test -tags ha -count 1 -timeout 10m -v $(ARGS) ./test/ha

# A real Prometheus scrapes the operator: each panel has data, each alert fires for its fault and never else. ALERTS=full: an hour.
suite-alerts: cluster-tools $(REDIS)/redis-server $(MYSQL)/mysqld $(PROMETHEUS)/promtool $(SOURCE_LINK)
	$(ON_CLUSTER) KUBECONFIG= MYSQL='$(MYSQL)' ALERTS='$(ALERTS)' go test -tags alerts -count 1 -timeout 2h -v $(ARGS) ./test/alerts

# Crashes the operator at each write, makes requests fail, and compares how it ends. CHAOS=full: each sample.
suite-chaos: cluster-tools $(SOURCE_LINK)
	$(ON_CLUSTER) CHAOS='$(CHAOS)' go test -C test/chaos -count 1 -tags chaos -timeout 2h $(ARGS)

# Changes each property on running DataServices and back (ARGS='-seed N' replays, TRANSITIONS=full tries all), or sends hostile input.
suite-transitions suite-bad-input: cluster-tools
	$(ON_CLUSTER) go run ./test/transitions -suite $(@:suite-%=%) $(ARGS)

# Breaks real Redis clusters in each known way and crashes the operator at each step.
suite-redis: cluster-tools $(REDIS)/redis-server $(SOURCE_LINK)
	$(ON_CLUSTER) REDIS_TESTS=full go test -parallel 2 -count 1 -timeout 2h -v $(ARGS) ./test/rediscluster

# Breaks backups, archives and restores of real databases in each known way, and measures them: some hours. BACKUP_SEEDS=N.
suite-backup: $(MARIADB)/mysqld $(MYSQL)/mysqld $(REDIS)/redis-server
	MARIADB='$(MARIADB)' MYSQL='$(MYSQL)' REDIS='$(REDIS)' BACKUP_TESTS=full go test -C cmd/agent -count 1 -timeout 6h -v $(ARGS) ./test

# Crashes the operator at each write of a switch from one database to another and back.
suite-guard: cluster-tools $(SOURCE_LINK)
	$(ON_CLUSTER) GUARD_TESTS=full go test -count 1 -timeout 2h -v $(ARGS) ./test/guard

# Breaks real etcd clusters in each known way, upgrades them, and ends the operator at each effect.
suite-etcd: cluster-tools $(ETCDS) $(SOURCE_LINK)
	$(ON_CLUSTER) ETCD_TESTS=full go test -p 1 -parallel 2 -count 1 -timeout 3h -v $(ARGS) ./test/etcdcluster

# Takes nodes and volumes of real replicated MySQL databases, ends the operator at each effect, and measures backups. STORIES=100 tells random stories, MYSQL_STORY=seed one.
suite-mysql: cluster-tools $(MYSQL)/mysqld $(SOURCE_LINK)
	$(ON_CLUSTER) MYSQL='$(MYSQL)' MYSQL_TESTS=full MYSQL_STORIES='$(STORIES)' go test -parallel $(if $(STORIES),2,1) -count 1 -timeout 8h -v $(ARGS) ./test/mysqlcluster
	$(if $(STORIES),,MYSQL='$(MYSQL)' MYSQL_TESTS=full go test -C cmd/agent -parallel 2 -count 1 -timeout 2h -v $(ARGS) ./internal/member/mysql/supervisor)

# Runs each fuzz target for FUZZTIME.
suite-fuzz:
	@hack/fuzz.sh

# Decides for simulated clusters: Redis under MODEL_RUNS random stories (REDIS_MODEL_SEED=N replays one), etcd and MySQL under all; and holds etcd's
# model against etcd.
suite-model: $(ETCDS)
	REDIS_MODEL_RUNS=$(MODEL_RUNS) go test -count 1 -timeout 2h -run TestModel $(ARGS) ./internal/redis/topology
	ETCD='$(ETCD)' ETCD_MODEL=full go test -count 1 -timeout 2h -v -run 'TestExplore|TestTheModelIsAsEtcd' $(ARGS) ./internal/etcd/membership
	MYSQL_MODEL=full go test -count 1 -timeout 2h -v -run 'TestExplore|TestControls' $(ARGS) ./internal/mysql/replication

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

# Where the archives will be; the index of krew names them there.
PLUGIN_URL ?= https://example.com/d3os-operator/v$(VERSION)

.PHONY: plugin-archives
plugin-archives: ## Write dist/plugin: the kubectl plugin for six platforms, and an index for krew (PLUGIN_URL).
	@VERSION='$(VERSION)' PLUGIN_URL='$(PLUGIN_URL)' hack/plugin.sh

##@ Cluster

.PHONY: cluster-tools
cluster-tools: $(CLUSTER_TOOLS) # the control plane, kubectl and kwok: some 7 minutes on two cores, once

.PHONY: cluster-up
cluster-up: $(if $(USER_CLUSTER),$(KUBECTL),cluster-tools $(KUBECTL)) ## Start the embedded cluster (nothing to do when KUBECONFIG is set).
	@$(if $(USER_CLUSTER),echo 'using the cluster of KUBECONFIG=$(USER_CLUSTER)',TOOLS='$(CLUSTER_BIN)' hack/cluster.sh up)

.PHONY: cluster-down
cluster-down: ## Remove the embedded cluster.
	@$(if $(USER_CLUSTER),echo 'the cluster of KUBECONFIG=$(USER_CLUSTER) is left alone',TOOLS='$(CLUSTER_BIN)' hack/cluster.sh down)

.PHONY: install
install: cluster-up ## Install the CRD.
	$(KUBECTL) apply -k config/crd

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
release: ## Keep bundle/ as the release of VERSION, in releases/ (docs/develop/releasing.md).
	@VERSION='$(VERSION)' hack/release.sh

.PHONY: scorecard
scorecard: $(if $(USER_CLUSTER),$(OPERATOR_SDK) $(KUBECTL),e2e-tools) ## Scorecard with the built-in and the operator's own tests; without KUBECONFIG on a real node (ARGS=selector).
	@$(if $(USER_CLUSTER),KUBECTL='$(KUBECTL)' hack/scorecard.sh $(ARGS),USER_CLUSTER= IMG='$(IMG)' SCORECARD_IMG='$(SCORECARD_IMG)' MYSQL='$(MYSQL)' hack/e2e.sh TestScorecard)

.PHONY: e2e-tools
e2e-tools: node-tools olm-tools $(MYSQL)/mysqld $(if $(filter full,$(E2E)),olm-v1-tools $(VERSITYGW)) $(KUSTOMIZE) $(SOURCE_LINK)

.PHONY: e2e
e2e: e2e-tools plugin ## Install, upgrade and remove the operator as users do, on real pods: a node of this machine or KUBECONFIG (ARGS=test; E2E=full: with OLM v1 and a store of S3, too).
	@USER_CLUSTER='$(USER_CLUSTER)' E2E='$(E2E)' IMG='$(IMG)' SCORECARD_IMG='$(SCORECARD_IMG)' MYSQL='$(MYSQL)' hack/e2e.sh $(ARGS)

