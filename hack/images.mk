# Images (hack/images.sh) of the manager, the bundles, the catalog and the scorecard tests. See docs/develop/images.md.

IMAGE_TAG_BASE ?= registry-edge.cosmoplat.com/dataservice/d3os-operator
IMG            ?= $(IMAGE_TAG_BASE):v$(VERSION)
BUNDLE_IMG     ?= $(IMAGE_TAG_BASE)-bundle:v$(VERSION)
CATALOG_IMG    ?= $(IMAGE_TAG_BASE)-catalog:v$(VERSION)
SCORECARD_IMG  ?= $(IMAGE_TAG_BASE)-scorecard:v$(VERSION)
CONTAINER_TOOL ?= $(firstword $(foreach tool,docker podman buildah,$(if $(shell command -v $(tool)),$(tool))) docker)
# docker-build builds for this machine's platform, images for the platforms of all clusters.
PLATFORM       ?= linux/$(shell go env GOARCH)
PLATFORMS      ?= linux/amd64,linux/arm64
IMAGES         ?= manager bundles catalog scorecard
REGISTRY       ?=
CERT_DIR       ?=

comma := ,
# binaries(platforms)
binaries = $(foreach program,$(PROGRAMS),$(foreach file,cdx.json notices,$(patsubst %,bin/%/$(program).$(file),$(subst $(comma), ,$(1)))))
# The commit from which VERSION was released; empty for an unreleased version, which is built from this tree.
RELEASED := $(shell awk '$$1 == "$(VERSION)" {print $$2}' releases/commits)
# The programs in the image; releases before 0.3.0 have no agent.
PROGRAMS := manager $(if $(filter 0.1.0 0.2.0,$(VERSION)),,agent)
images_sh = VERSION='$(VERSION)' COMMIT='$(RELEASED)' IMAGE_TAG_BASE='$(IMAGE_TAG_BASE)' IMG='$(IMG)' CATALOG_IMG='$(CATALOG_IMG)' \
	SCORECARD_IMG='$(SCORECARD_IMG)' PROGRAMS='$(PROGRAMS)' PLATFORMS='$(PLATFORMS)' REGISTRY='$(REGISTRY)' CERT_DIR='$(CERT_DIR)' hack/images.sh

# Go detects changes of its sources; make does not.
.PHONY: FORCE
.PRECIOUS: bin/linux/%/manager bin/linux/%/agent bin/linux/%/scorecard
bin/linux/%/manager: FORCE
	$(if $(RELEASED),hack/release-build.sh '$(VERSION)' '$*' '$@',CGO_ENABLED=0 GOOS=linux GOARCH=$* go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $@ .)

bin/linux/%/agent: FORCE
	$(if $(RELEASED),hack/release-build.sh '$(VERSION)' '$*' '$@' agent,CGO_ENABLED=0 GOOS=linux GOARCH=$* go build -C cmd/agent -trimpath -buildvcs=false -ldflags '-s -w' -o '$(CURDIR)/$@' .)

bin/linux/%/scorecard: FORCE
	GOWORK=off CGO_ENABLED=0 GOOS=linux GOARCH=$* go build -C test/scorecard -trimpath -buildvcs=false -ldflags '-s -w' -o '$(CURDIR)/$@' .

# The bill of materials lists the modules in the binary. jq removes two kinds of entries: the modules of this repository (version "(devel)"),
# which are the program itself, and the tool that writes the bill.
bin/linux/%.cdx.json: bin/linux/% $(CYCLONEDX)
	@command -v jq >/dev/null || $(images_sh) packages
	@$(CYCLONEDX) bin -json -std -noserial -notimestamp -version 'v$(VERSION)' -output $@.new $< 2>$@.log || { cat $@.log >&2; exit 1; }
	@jq '[.components[] | select(.version == "(devel)")."bom-ref"] as $$own | del(.metadata.tools) | walk(if type == "array" then map(select(."bom-ref"? // .ref? // . | IN($$own[]) | not)) else . end)' $@.new >$@ && rm $@.new $@.log

# The licences of the modules in the binary.
bin/linux/%.notices: bin/linux/%
	@go run ./hack/notices $< >$@.new && mv $@.new $@

##@ Images

.PHONY: images
images: $(if $(filter manager,$(IMAGES)),$(call binaries,$(PLATFORMS))) $(if $(filter scorecard,$(IMAGES)),$(patsubst %,bin/%/scorecard,$(subst $(comma), ,$(PLATFORMS)))) ## Build all images with buildah: bin/images/{oci,digests} (IMAGES, PLATFORMS, VERSION).
	@$(images_sh) build $(IMAGES)

.PHONY: images-push
images-push: ## Push the images that make images has built (IMAGES, REGISTRY=host[:port], CERT_DIR=folder of its ca.crt).
	@$(images_sh) push $(IMAGES)

.PHONY: images-list
images-list: ## Print every image that a cluster without internet needs.
	@$(images_sh) list

.PHONY: docker-build
docker-build: $(call binaries,$(PLATFORM)) ## Build the operator's image (CONTAINER_TOOL=docker|podman|buildah, PLATFORM); also bundle-build, catalog-build.
	$(CONTAINER_TOOL) build --platform '$(PLATFORM)' --build-arg VERSION='$(VERSION)' \
		--build-arg REVISION="$$(git rev-parse HEAD)" --build-arg CREATED="$$(date --utc +%FT%TZ)" --build-arg SOURCE='$(PROJECT_URL)' -t '$(IMG)' .

.PHONY: docker-push
docker-push: ## Push the operator's image; also bundle-push, catalog-push.
	$(CONTAINER_TOOL) push '$(IMG)'

.PHONY: bundle-build
bundle-build:
	$(CONTAINER_TOOL) build -f bundle.Dockerfile -t '$(BUNDLE_IMG)' .

.PHONY: bundle-push
bundle-push:
	$(CONTAINER_TOOL) push '$(BUNDLE_IMG)'

.PHONY: catalog-build
catalog-build:
	$(CONTAINER_TOOL) build -f catalog.Dockerfile -t '$(CATALOG_IMG)' .

.PHONY: catalog-push
catalog-push:
	$(CONTAINER_TOOL) push '$(CATALOG_IMG)'

##@ Catalog

.PHONY: catalog
catalog: $(OPM) ## Generate the file-based catalog from releases/, bundle/ and hack/catalog, and validate it.
	@OPM='$(OPM)' IMAGE_TAG_BASE='$(IMAGE_TAG_BASE)' hack/catalog.sh
