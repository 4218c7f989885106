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

CR   ?= config/samples/d3os-product.com_v1_dataservice.yaml
ARGS ?=
LOAD_SIZES ?= 100,300,1000
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
# With a cluster of one's own, one's own kubectl will do.
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
		CR 'the DataService to render ($(CR))' \
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
clean: ## Remove what was built, but not the tools (make clean-tools).
	rm -rf bin/manager bin/agent bin/kubectl-dataservice bin/linux bin/images bin/source coverage.out

.PHONY: clean-tools
clean-tools: ## Remove the built tools.
	rm -rf '$(TOOLS)'

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
	go run ./hack/troubleshooting

REF_DOCS := --config=hack/crd-ref-docs.yaml --templates-dir=hack/docs-templates --renderer=markdown --log-level=ERROR

.PHONY: verify-generated
verify-generated: ## Fail when generated files are not what their sources generate.
	@hack/verify-generated.sh

.PHONY: fmt
fmt: ## Format the code.
	go fmt ./...

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) $(HELM) crd-safety ## Run golangci-lint (.golangci.yml), lint the charts, compare the CRD with the latest release's.
	$(GOLANGCI_LINT) run
	cd cmd/kubectl-dataservice && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	cd cmd/agent && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	cd hack/monitoring && $(GOLANGCI_LINT) run --config ../../.golangci.yml
	@hack/helm-lint.sh

.PHONY: helm-lint
helm-lint: $(HELM) ## Lint and render every chart with each of its ci/ values.
	@hack/helm-lint.sh

.PHONY: security
security: $(GOLANGCI_LINT) $(KUSTOMIZE) $(KUBE_SCORE) $(GOVULNCHECK) $(SOURCE_LINK) ## Judge pods, manifests, code and dependencies (SECURITY.md); needs no cluster.
	go test $(LINK) ./test/security
	@hack/gosec.sh
	@hack/kube-score.sh
	@hack/govulncheck.sh

.PHONY: test
# Long tests (test/harness/long.go) are left to `make verify`, which sets SHORT to nothing.
SHORT := -short
# The tests of the agent wait more than they compute, so they and those of the plugin run beside the others.
test: export beside = MARIADB='$(MARIADB)' MYSQL='$(MYSQL)' REDIS='$(REDIS)' go test -C cmd/agent $(LINK) -timeout 20m $(SHORT) ./... && go test -C test/images $(LINK) ./... && go test -C test/scorecard $(LINK) ./... \
	&& $(ON_CLUSTER) go test -C cmd/kubectl-dataservice $(LINK) $(SHORT) -timeout 20m ./...
# Garbage is collected a quarter as often. Measured on two cores: test/fields takes 11 s of processor time instead of 14,
# test/security 19 instead of 25, for some hundred megabytes more of memory.
test: export GOGC := 400
test: cluster-tools $(REDIS)/redis-server $(ETCDS) $(MARIADB)/mysqld $(MYSQL)/mysqld $(PROMETHEUS)/promtool $(HELM) $(CRDIFY) $(SOURCE_LINK) ## Run all tests but the long ones (SHORT=: these, too); they start clusters of their own unless KUBECONFIG is set (ARGS='-run X ./internal/apply').
	$(ON_CLUSTER) HELM='$(HELM)' CRDIFY='$(CRDIFY)' $(if $(ARGS),,hack/beside.sh "$$beside" --) go test $(LINK) -p 3 -timeout 20m $(or $(ARGS),$(SHORT) ./...)

$(SOURCE_LINK):
	@mkdir -p $(@D) && ln -sfn '$(CURDIR)' $@

.PHONY: bench
bench: cluster-tools ## Measure the operator with many DataServices (test/bench).
	$(ON_CLUSTER) go run ./test/bench $(ARGS)

.PHONY: tools
tools: cluster-tools node-tools olm-tools $(REDIS)/redis-server $(MARIADB)/mysqld $(MYSQL)/mysqld $(ETCDS) $(PROMETHEUS)/promtool $(GOLANGCI_LINT) $(CONTROLLER_GEN) $(KUSTOMIZE) $(CRD_REF_DOCS) $(CRDIFY) $(KUBE_SCORE) $(GOVULNCHECK) ## Build every tool that any target needs.

.PHONY: verify
verify: ## Run everything there is, in full, and print the seconds of each step (root, some hours; STEPS='lint test' runs those).
	@hack/verify.sh full $(STEPS)

.PHONY: fresh-machine
fresh-machine: ## Show that these targets need nothing but Go, git and make: each on a Debian of its own (root; GO_CACHES=host is fast; ARGS=targets).
	@hack/fresh.sh $(ARGS)

##@ Reliability

.PHONY: ha
ha: cluster-tools $(SOURCE_LINK) ## Stop, kill, freeze and cut off the leader; a standby must take over (test/ha, two minutes; HA_RUNS=times).
	$(ON_CLUSTER) KUBECONFIG= go test -tags ha -count 1 -timeout 10m -v $(ARGS) ./test/ha

.PHONY: alerts
alerts: cluster-tools $(REDIS)/redis-server $(PROMETHEUS)/promtool $(SOURCE_LINK) ## A real Prometheus scrapes the operator: every panel has data, every alert fires for its fault and never else (ALERTS=full: an hour).
	$(ON_CLUSTER) KUBECONFIG= ALERTS='$(ALERTS)' go test -tags alerts -count 1 -timeout 2h -v $(ARGS) ./test/alerts

.PHONY: load
load: cluster-tools $(REDIS)/redis-server ## Load the operator with LOAD_SIZES DataServices, and 100 beside 20 RedisClusters, and check what grows (an hour or more).
	$(ON_CLUSTER) go run ./test/bench -only middleware,load -sizes '$(LOAD_SIZES)' $(ARGS)

.PHONY: chaos
chaos: cluster-tools $(SOURCE_LINK) ## Crash the operator at every write, make requests fail, and compare how it ends (CHAOS=full: every sample; ARGS='-run X').
	$(ON_CLUSTER) CHAOS='$(CHAOS)' go test -C test/chaos -count 1 -tags chaos -timeout 2h $(ARGS)

FUZZTIME ?= 30s
export FUZZTIME TRANSITIONS

.PHONY: transitions
transitions: cluster-tools ## Change every property on running DataServices and back (ARGS='-seed N' replays, TRANSITIONS=full tries all).
	$(ON_CLUSTER) go run ./test/transitions $(ARGS)

.PHONY: redis
redis: cluster-tools $(REDIS)/redis-server $(SOURCE_LINK) ## Break real Redis clusters in every known way and crash the operator between all commands (ARGS='-run X').
	$(ON_CLUSTER) REDIS_TESTS=full go test -p 1 -parallel 2 -count 1 -timeout 2h -v $(ARGS) ./test/redis ./test/rediscluster

.PHONY: backup
backup: $(MARIADB)/mysqld $(MYSQL)/mysqld $(REDIS)/redis-server ## Break backups, archives and restores of real databases in every way, and measure them (some hours; ARGS='-run X', BACKUP_SEEDS=N).
	MARIADB='$(MARIADB)' MYSQL='$(MYSQL)' REDIS='$(REDIS)' BACKUP_TESTS=full go test -C cmd/agent -count 1 -timeout 6h -v $(ARGS) ./test

.PHONY: guard
guard: cluster-tools $(SOURCE_LINK) ## Crash the operator at every write of a switch from one database to another and back (ARGS='-run X').
	$(ON_CLUSTER) GUARD_TESTS=full go test -count 1 -timeout 2h -v $(ARGS) ./test/guard

.PHONY: etcd
etcd: cluster-tools $(ETCDS) $(SOURCE_LINK) ## Break real etcd clusters in every known way, upgrade them, and end the operator at each effect (ARGS='-run X').
	$(ON_CLUSTER) ETCD_TESTS=full go test -p 1 -parallel 2 -count 1 -timeout 3h -v $(ARGS) ./test/etcd ./test/etcdcluster

.PHONY: bad-input
bad-input: cluster-tools ## Send invalid and hostile input; it must be refused or reported.
	$(ON_CLUSTER) go run ./test/transitions -suite bad-input $(ARGS)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s).
	@hack/fuzz.sh

MODEL_RUNS ?= 300
.PHONY: model
model: $(ETCDS) ## Decide for simulated clusters: Redis under MODEL_RUNS random stories (REDIS_MODEL_SEED=N replays one), etcd and MySQL under all; and hold etcd's model against etcd.
	REDIS_MODEL_RUNS=$(MODEL_RUNS) go test -count 1 -timeout 2h -run TestModel $(ARGS) ./internal/kinds/rediscluster/topology
	ETCD='$(ETCD)' ETCD_MODEL=full go test -count 1 -timeout 2h -v -run 'TestExplore|TestTheModelIsAsEtcd' $(ARGS) ./internal/kinds/etcdcluster/membership
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

.PHONY: plugin-verify
plugin-verify: $(KREW) $(TOOLS)/kubectl $(SOURCE_LINK) ## Make these archives, and have krew install the plugin from a local index of them (PLUGIN_PLATFORMS='linux/amd64': fewer).
	KREW='$(KREW)' KUBECTL='$(TOOLS)/kubectl' go test -tags krew -count 1 -timeout 1h -v $(ARGS) ./test/krew

.PHONY: render
render: ## Print the manifests of a DataService without a cluster (CR=file).
	@go run . render -f '$(CR)' $(ARGS)

##@ Cluster

.PHONY: cluster-tools
cluster-tools: $(CLUSTER_TOOLS) ## Build the control plane, kubectl and kwok (some 7 minutes on two cores, once).

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
build-installer: $(KUSTOMIZE) ## Write dist/install.yaml: the CRD and the operator (IMG), for kubectl apply.
	@mkdir -p dist
	@$(KUSTOMIZE) build config/default | sed 's|image: controller:latest|image: $(IMG)|' >dist/install.yaml
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
bundle-validate: $(OPERATOR_SDK) catalog-validate ## Validate bundle, releases and catalog as catalogs do, and `operator-sdk create api`; a warning fails (MULTIARCH_TOOL=docker|podman asks registries).
	@OPERATOR_SDK='$(OPERATOR_SDK)' hack/bundle-validate.sh
	@OPERATOR_SDK='$(OPERATOR_SDK)' hack/create-api-verify.sh

.PHONY: crd-safety
crd-safety: $(CRDIFY) ## Fail when the CRD could break resources of the latest release.
	@CRDIFY='$(CRDIFY)' hack/crd-safety.sh

.PHONY: release
release: ## Keep bundle/ as the release of VERSION, in releases/ (docs/develop/releasing.md).
	@VERSION='$(VERSION)' hack/release.sh

.PHONY: scorecard
scorecard: $(if $(USER_CLUSTER),$(OPERATOR_SDK) $(KUBECTL),e2e-tools) ## Scorecard with the built-in and the operator's own tests; without KUBECONFIG on a real node (ARGS=selector).
	@$(if $(USER_CLUSTER),KUBECTL='$(KUBECTL)' hack/scorecard.sh $(ARGS),USER_CLUSTER= IMG='$(IMG)' SCORECARD_IMG='$(SCORECARD_IMG)' hack/e2e.sh TestScorecard)

.PHONY: e2e-tools
e2e-tools: node-tools olm-tools $(if $(filter full,$(E2E)),olm-v1-tools $(VERSITYGW)) $(KUSTOMIZE) $(SOURCE_LINK)

.PHONY: e2e
e2e: e2e-tools plugin ## Install, upgrade and remove the operator as users do, on real pods: a node of this machine or KUBECONFIG (ARGS=test; E2E=full: with OLM v1 and a store of S3, too).
	@USER_CLUSTER='$(USER_CLUSTER)' E2E='$(E2E)' IMG='$(IMG)' SCORECARD_IMG='$(SCORECARD_IMG)' hack/e2e.sh $(ARGS)

