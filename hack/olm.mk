# The Operator Lifecycle Manager, built from source, for clusters without OLM (hack/olm/olm.sh).

OLM_VERSION := $(call module_version,olm,github.com/operator-framework/operator-lifecycle-manager)
OLM_PACKAGE := github.com/operator-framework/operator-lifecycle-manager
OLM_LDFLAGS  = -X $(OLM_PACKAGE)/pkg/version.OLMVersion=$(OLM_VERSION)
OLM_TOOLS   := $(addprefix $(TOOLS)/olm/,olm catalog package-server copy-content cpb)
OLM_TAGS    := json1 containers_image_openpgp

# OLM v1: operator-controller and catalogd.
OLM_V1_PACKAGE := github.com/operator-framework/operator-controller
OLM_V1_VERSION := $(call module_version,olm-v1,$(OLM_V1_PACKAGE))
OLM_V1_TOOLS   := $(addprefix $(TOOLS)/olm-v1/,operator-controller catalogd)

$(OLM_TOOLS) &: hack/tools/olm/go.mod
	$(call build_tools,olm,$(addprefix $(OLM_PACKAGE)/,cmd/olm cmd/catalog cmd/package-server cmd/copy-content util/cpb),OLM $(OLM_VERSION),$(OLM_LDFLAGS),$(OLM_TAGS))
# The last version whose module compiles outside of its repository.
$(OLM_V1_TOOLS) &: hack/tools/olm-v1/go.mod
	$(call build_tools,olm-v1,$(addprefix $(OLM_V1_PACKAGE)/cmd/,$(notdir $(OLM_V1_TOOLS))),OLM $(OLM_V1_VERSION),-X $(OLM_V1_PACKAGE)/internal/shared/version.gitVersion=$(OLM_V1_VERSION),$(OLM_TAGS))
$(TOOLS)/grpc_health_probe: hack/tools/grpc-health-probe/go.mod
	$(call build_tools,grpc-health-probe,github.com/grpc-ecosystem/grpc-health-probe,grpc_health_probe)

.PHONY: olm-tools
olm-tools: $(OLM_TOOLS) $(TOOLS)/grpc_health_probe $(OPM) $(CYCLONEDX) $(HELM) $(OPERATOR_SDK) $(SCORECARD_TEST)

.PHONY: olm-v1-tools
olm-v1-tools: $(OLM_V1_TOOLS)
