# The Operator Lifecycle Manager, from source, for clusters that have none (hack/olm/olm.sh).

OLM_VERSION := $(call module_version,olm,github.com/operator-framework/operator-lifecycle-manager)
OLM_PACKAGE := github.com/operator-framework/operator-lifecycle-manager
OLM_LDFLAGS  = -X $(OLM_PACKAGE)/pkg/version.OLMVersion=$(OLM_VERSION)
OLM_TOOLS   := $(addprefix $(TOOLS)/olm/,olm catalog package-server copy-content cpb)
OLM_TAGS    := json1 containers_image_openpgp

$(OLM_TOOLS) &: hack/tools/olm/go.mod
	$(call build_tools,olm,$(addprefix $(OLM_PACKAGE)/,cmd/olm cmd/catalog cmd/package-server cmd/copy-content util/cpb),OLM $(OLM_VERSION),$(OLM_LDFLAGS),$(OLM_TAGS))
$(TOOLS)/grpc_health_probe: hack/tools/grpc-health-probe/go.mod
	$(call build_tools,grpc-health-probe,github.com/grpc-ecosystem/grpc-health-probe,grpc_health_probe)

##@ Real OLM

.PHONY: olm-tools
olm-tools: $(OLM_TOOLS) $(TOOLS)/grpc_health_probe $(OPM) $(CYCLONEDX) $(HELM) $(OPERATOR_SDK) $(SCORECARD_TEST) ## Build OLM and what it runs (some 6 minutes on two cores, once).
