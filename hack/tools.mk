# A go.mod under hack/tools pins each tool, which is built from source. hack/tool.sh stores each version of a tool in
# the user's cache and links it into bin/tools, so a second clone builds nothing. The only downloaded binaries are
# Debian's Redis, MariaDB, MySQL, Prometheus, nginx, curl, Java and oldest etcd, which only tests run.

TOOLS ?= $(CURDIR)/bin/tools

# module_version(folder under hack/tools, module)
module_version = $(shell sed -n 's,^.*\s$(2) \(v[0-9][^ ]*\).*,\1,p' hack/tools/$(1)/go.mod)

KUBERNETES_VERSION := $(call module_version,kubernetes,k8s.io/kubernetes)
OLDEST_VERSION     := $(call module_version,kubernetes-oldest,k8s.io/kubernetes)
# kube_minor(version), kube_ldflags(version)
kube_minor          = $(word 2,$(subst ., ,$(1)))
kube_ldflags        = $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(package).gitVersion=$(1) -X $(package).gitMajor=1 -X $(package).gitMinor=$(call kube_minor,$(1)))
KWOK_VERSION       := $(call module_version,kwok,sigs.k8s.io/kwok)
KWOK_LDFLAGS        = -X sigs.k8s.io/kwok/pkg/consts.Version=$(KWOK_VERSION) -X sigs.k8s.io/kwok/pkg/consts.KubeVersion=$(KUBERNETES_VERSION)
SDK_VERSION        := $(call module_version,operator-sdk,github.com/operator-framework/operator-sdk)
SDK_LDFLAGS         = $(foreach var,Version GitVersion,-X github.com/operator-framework/operator-sdk/internal/version.$(var)=$(SDK_VERSION))
SDK_TAGS           := containers_image_openpgp exclude_graphdriver_btrfs
HELM_VERSION       := $(call module_version,helm,helm.sh/helm/v3)
HELM_LDFLAGS        = -X helm.sh/helm/v3/internal/version.version=$(HELM_VERSION) \
	$(foreach package,chartutil lint/rules,-X helm.sh/helm/v3/pkg/$(package).k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$(package).k8sVersionMinor=$(call kube_minor,$(KUBERNETES_VERSION)))
OPM_VERSION        := $(call module_version,olm,github.com/operator-framework/operator-registry)
OPM_LDFLAGS         = -X github.com/operator-framework/operator-registry/cmd/opm/version.opmVersion=$(OPM_VERSION)
LINT_VERSION       := $(call module_version,golangci-lint,github.com/golangci/golangci-lint/v2)
LINT_LDFLAGS        = -X main.version=$(LINT_VERSION)

# MongoDB's operator serves no metrics, because several of its processes may run on one machine.
MONGODB_LDFLAGS     = -X sigs.k8s.io/controller-runtime/pkg/metrics.DefaultBindAddress=0

# build_tools(folder under hack/tools, packages, what to print, ldflags, tags)
# One `go build` for all packages of a module uses all cores until the last link.
# Some packages end in /v2 or /v3. Therefore a single package is built to the target's name.
build_tools = @hack/tool.sh build '$(3)' '$(@D)' '$(if $(word 2,$(2)),,$(@F))' '$(1)' '$(5)' '$(4)' $(2)
# unpack_tools(script and arguments): a folder of programs that a script unpacks from Debian's packages.
unpack_tools = @hack/tool.sh unpack '$(@D)' $(1)

KUBE_TOOLS    := $(addprefix $(TOOLS)/,kube-apiserver kube-controller-manager kube-scheduler kubectl)
KWOK_TOOLS    := $(addprefix $(TOOLS)/,kwok kwokctl)
OLDEST_TOOLS  := $(addprefix $(TOOLS)/oldest/,$(notdir $(KUBE_TOOLS)))
# KUBERNETES=oldest: clusters have the oldest Kubernetes that docs/install.md supports.
CLUSTER_BIN   := $(TOOLS)$(if $(filter oldest,$(KUBERNETES)),/oldest)
CLUSTER_TOOLS := $(addprefix $(CLUSTER_BIN)/,$(notdir $(KUBE_TOOLS) $(KWOK_TOOLS)) etcd)

HELM           := $(TOOLS)/helm
CONTROLLER_GEN := $(TOOLS)/controller-gen
CLIENT_GEN     := $(addprefix $(TOOLS)/,applyconfiguration-gen client-gen informer-gen lister-gen)
KUSTOMIZE      := $(TOOLS)/kustomize
GOLANGCI_LINT  := $(TOOLS)/golangci-lint
CRD_REF_DOCS   := $(TOOLS)/crd-ref-docs
OPERATOR_SDK   := $(TOOLS)/operator-sdk
CRDIFY         := $(TOOLS)/crdify
GOTESTSUM      := $(TOOLS)/gotestsum
SCORECARD_TEST := $(TOOLS)/scorecard-test
OPM            := $(TOOLS)/opm
CYCLONEDX      := $(TOOLS)/cyclonedx-gomod
KUBE_SCORE     := $(TOOLS)/kube-score
GOVULNCHECK    := $(TOOLS)/govulncheck
KREW           := $(TOOLS)/krew
# A folder with redis-server and redis-cli; tests read its path from the environment.
REDIS          := $(TOOLS)/redis
# Folders with mysqld, mysql and mysqldump, of MariaDB 10.11 and of a current MySQL.
MARIADB        := $(TOOLS)/mariadb
MYSQL          := $(TOOLS)/mysql
# A folder with java and a JDBC driver; tests read its path from the environment.
JAVA           := $(TOOLS)/java
# A folder with prometheus and promtool; tests read its path from the environment.
PROMETHEUS     := $(TOOLS)/prometheus
# A folder with nginx and curl; tests read its path from the environment.
NGINX          := $(TOOLS)/nginx
# A gateway from the S3 protocol to a folder, for the tests of backups on real pods.
VERSITYGW      := $(TOOLS)/versitygw
# MongoDB's own operator. Tests run it unchanged.
MONGODB_OPERATOR := $(TOOLS)/mongodb-operator
# A server of the MongoDB protocol, for MongoDB of kind ThirdParty.
FERRETDB       := $(TOOLS)/ferretdb
# A folder with etcd 3.4 to 3.7 and each version's program for restores, for the tests of EtcdCluster. `make test` has only 3.6.
ETCD           := $(TOOLS)/etcds
ETCD_36        := $(addprefix $(ETCD)/,etcd-3.6 etcdutl-3.6)
ETCDS          := $(ETCD_36) $(addprefix $(ETCD)/,etcd-3.4 etcdctl-3.4 etcd-3.5 etcdutl-3.5 etcd-3.7 etcdutl-3.7)

$(KUBE_TOOLS) &: hack/tools/kubernetes/go.mod
	$(call build_tools,kubernetes,$(addprefix k8s.io/kubernetes/cmd/,$(notdir $(KUBE_TOOLS))),the Kubernetes $(KUBERNETES_VERSION) control plane and kubectl,$(call kube_ldflags,$(KUBERNETES_VERSION)))
$(OLDEST_TOOLS) &: hack/tools/kubernetes-oldest/go.mod
	$(call build_tools,kubernetes-oldest,$(addprefix k8s.io/kubernetes/cmd/,$(notdir $(OLDEST_TOOLS))),the Kubernetes $(OLDEST_VERSION) control plane and kubectl,$(call kube_ldflags,$(OLDEST_VERSION)))
$(addprefix $(TOOLS)/oldest/,etcd $(notdir $(KWOK_TOOLS))): $(TOOLS)/oldest/%: $(TOOLS)/%
	@mkdir -p $(@D) && ln -sfn ../$* $@
# These are built after Kubernetes, which uses all cores: two builds at the same time would compile common packages
# twice.
$(TOOLS)/etcd $(KWOK_TOOLS): | $(KUBE_TOOLS)
$(TOOLS)/etcd: hack/tools/etcd/go.mod
	$(call build_tools,etcd,go.etcd.io/etcd/server/v3,etcd)
$(KWOK_TOOLS) &: hack/tools/kwok/go.mod
	$(call build_tools,kwok,$(addprefix sigs.k8s.io/kwok/cmd/,$(notdir $(KWOK_TOOLS))),kwok $(KWOK_VERSION) (simulated nodes and pods),$(KWOK_LDFLAGS))
$(HELM): hack/tools/helm/go.mod
	$(call build_tools,helm,helm.sh/helm/v3/cmd/helm,helm $(HELM_VERSION),$(HELM_LDFLAGS))
$(CONTROLLER_GEN): hack/tools/controller-gen/go.mod
	$(call build_tools,controller-gen,sigs.k8s.io/controller-tools/cmd/controller-gen,controller-gen)
$(CLIENT_GEN) &: hack/tools/code-generator/go.mod
	$(call build_tools,code-generator,$(addprefix k8s.io/code-generator/cmd/,$(notdir $(CLIENT_GEN))),the generators of Go clients)
$(KUSTOMIZE): hack/tools/kustomize/go.mod
	$(call build_tools,kustomize,sigs.k8s.io/kustomize/kustomize/v5,kustomize)
$(GOLANGCI_LINT): hack/tools/golangci-lint/go.mod
	$(call build_tools,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,golangci-lint $(LINT_VERSION),$(LINT_LDFLAGS))
$(CRD_REF_DOCS): hack/tools/crd-ref-docs/go.mod
	$(call build_tools,crd-ref-docs,github.com/elastic/crd-ref-docs,crd-ref-docs)
$(OPERATOR_SDK): hack/tools/operator-sdk/go.mod
	$(call build_tools,operator-sdk,github.com/operator-framework/operator-sdk/cmd/operator-sdk,operator-sdk $(SDK_VERSION),$(SDK_LDFLAGS),$(SDK_TAGS))
$(GOTESTSUM): hack/tools/gotestsum/go.mod
	$(call build_tools,gotestsum,gotest.tools/gotestsum,gotestsum)
$(CRDIFY): hack/tools/crdify/go.mod
	$(call build_tools,crdify,sigs.k8s.io/crdify,crdify)
$(SCORECARD_TEST): hack/tools/operator-sdk/go.mod
	$(call build_tools,operator-sdk,github.com/operator-framework/operator-sdk/images/scorecard-test,scorecard-test $(SDK_VERSION),$(SDK_LDFLAGS),$(SDK_TAGS))
# opm is built in OLM's module. With OLM's versions of all other modules, it adds little build time.
$(OPM): hack/tools/olm/go.mod
	$(call build_tools,olm,github.com/operator-framework/operator-registry/cmd/opm,opm $(OPM_VERSION),$(OPM_LDFLAGS),json1 containers_image_openpgp)
$(CYCLONEDX): hack/tools/cyclonedx-gomod/go.mod
	$(call build_tools,cyclonedx-gomod,github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod,cyclonedx-gomod)
$(KUBE_SCORE): hack/tools/kube-score/go.mod
	$(call build_tools,kube-score,github.com/zegl/kube-score/cmd/kube-score,kube-score)
$(GOVULNCHECK): hack/tools/govulncheck/go.mod
	$(call build_tools,govulncheck,golang.org/x/vuln/cmd/govulncheck,govulncheck)
$(KREW): hack/tools/krew/go.mod
	$(call build_tools,krew,sigs.k8s.io/krew/cmd/krew,krew)
$(VERSITYGW): hack/tools/versitygw/go.mod
	$(call build_tools,versitygw,github.com/versity/versitygw/cmd/versitygw,versitygw)
$(MONGODB_OPERATOR): hack/tools/mongodb-operator/go.mod
	$(call build_tools,mongodb-operator,github.com/mongodb/mongodb-kubernetes-operator/cmd/manager,the MongoDB operator,$(MONGODB_LDFLAGS))
$(FERRETDB): hack/tools/ferretdb/go.mod hack/tools/ferretdb/main.go
	$(call build_tools,ferretdb,.,FerretDB)
$(REDIS)/redis-server: hack/redis.sh hack/debian.sh
	$(call unpack_tools,redis)
$(NGINX)/nginx: hack/nginx.sh hack/debian.sh
	$(call unpack_tools,nginx)
$(PROMETHEUS)/promtool: hack/prometheus.sh hack/debian.sh
	$(call unpack_tools,prometheus)
$(MARIADB)/mysqld: hack/mariadb.sh hack/debian.sh
	$(call unpack_tools,mariadb)
$(MYSQL)/mysqld: hack/mariadb.sh hack/debian.sh
	$(call unpack_tools,mariadb mysql)
$(JAVA)/java: hack/java.sh hack/debian.sh
	$(call unpack_tools,java)
$(ETCD)/etcd-3.4 $(ETCD)/etcdctl-3.4 &: hack/etcd.sh hack/debian.sh
	$(call unpack_tools,etcd)
$(ETCD)/etcd-3.5: hack/tools/etcd-3.5/go.mod
	$(call build_tools,etcd-3.5,go.etcd.io/etcd/server/v3,etcd 3.5)
$(ETCD)/etcd-3.7: hack/tools/etcd-3.7/go.mod
	$(call build_tools,etcd-3.7,go.etcd.io/etcd/server/v3,etcd 3.7)
$(ETCD)/etcd-3.6: $(TOOLS)/etcd
	@mkdir -p $(@D) && ln -sfn ../etcd $@
# These programs are built after the servers, because they share nearly all packages with them.
$(ETCD)/etcdutl-3.5: hack/tools/etcd-3.5/go.mod | $(ETCD)/etcd-3.5
	$(call build_tools,etcd-3.5,go.etcd.io/etcd/etcdutl/v3,etcdutl 3.5)
$(ETCD)/etcdutl-3.7: hack/tools/etcd-3.7/go.mod | $(ETCD)/etcd-3.7
	$(call build_tools,etcd-3.7,go.etcd.io/etcd/etcdutl/v3,etcdutl 3.7)
$(ETCD)/etcdutl-3.6: hack/tools/etcd/go.mod | $(TOOLS)/etcd
	$(call build_tools,etcd,go.etcd.io/etcd/etcdutl/v3,etcdutl 3.6)
