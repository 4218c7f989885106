# A real node on this machine (hack/node.sh) and the images that its pods run. Root, Debian 12 or newer.

NODE_KUBE_TOOLS := $(addprefix $(TOOLS)/,kubelet kube-proxy)
NODE_TOOLS      := $(KUBE_TOOLS) $(TOOLS)/etcd $(NODE_KUBE_TOOLS) $(TOOLS)/coredns $(TOOLS)/registry $(TOOLS)/node-init $(TOOLS)/pause

$(NODE_KUBE_TOOLS) &: hack/tools/kubernetes/go.mod
	$(call build_tools,kubernetes,$(addprefix k8s.io/kubernetes/cmd/,$(notdir $(NODE_KUBE_TOOLS))),kubelet and kube-proxy $(KUBERNETES_VERSION),$(KUBE_LDFLAGS))
$(TOOLS)/coredns: hack/tools/coredns/go.mod hack/tools/coredns/main.go
	$(call build_tools,coredns,.,CoreDNS)
$(TOOLS)/registry: hack/tools/registry/go.mod hack/tools/registry/main.go
	$(call build_tools,registry,.,the registry)
