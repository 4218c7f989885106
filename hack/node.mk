# A real node on this machine (hack/node/node.sh), and the images of its pods. Root, Debian 12 or newer.

NODE_KUBE_TOOLS := $(addprefix $(TOOLS)/,kubelet kube-proxy)
NODE_TOOLS      := $(KUBE_TOOLS) $(TOOLS)/etcd $(ETCD)/etcdutl-3.6 $(NODE_KUBE_TOOLS) $(TOOLS)/coredns $(TOOLS)/registry $(TOOLS)/node-init $(TOOLS)/node-outside $(TOOLS)/pause

$(NODE_KUBE_TOOLS) &: hack/tools/kubernetes/go.mod
	$(call build_tools,kubernetes,$(addprefix k8s.io/kubernetes/cmd/,$(notdir $(NODE_KUBE_TOOLS))),kubelet and kube-proxy $(KUBERNETES_VERSION),$(call kube_ldflags,$(KUBERNETES_VERSION)))
$(TOOLS)/coredns: hack/tools/coredns/go.mod hack/tools/coredns/main.go
	$(call build_tools,coredns,.,CoreDNS)
$(TOOLS)/registry: hack/tools/registry/go.mod hack/tools/registry/main.go
	$(call build_tools,registry,.,the registry)
$(TOOLS)/node-init: $(wildcard hack/node/programs/init/*.go)
	$(call build_module,hack/node/programs,./init)
$(TOOLS)/node-outside: $(wildcard hack/node/programs/outside/*.go)
	$(call build_module,hack/node/programs,./outside)
$(TOOLS)/pause: $(wildcard hack/node/programs/pause/*.go)
	$(call build_module,hack/node/programs,./pause)

# build_module(folder of a module of ours, package)
define build_module
	@mkdir -p $(@D)
	@GOWORK=off CGO_ENABLED=0 go build -C $(1) -ldflags '-s -w' -o $@ $(2)
endef

.PHONY: node-tools
node-tools: $(NODE_TOOLS)
