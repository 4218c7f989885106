# Copies what make has cross-compiled (make docker-build, make images). The build runs and downloads nothing, so any
# architecture can build for any other. The image has no CAs and no time zones: the operator connects only to the API
# server, whose CA is mounted.
FROM scratch
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=0.0.0-dev
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="d3os-operator" \
      org.opencontainers.image.description="Runs the D3OS data service platform on Kubernetes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY LICENSE /licenses/LICENSE
COPY bin/${TARGETOS}/${TARGETARCH}/manager.notices /licenses/manager.notices
COPY bin/${TARGETOS}/${TARGETARCH}/agent.notices /licenses/agent.notices
COPY bin/${TARGETOS}/${TARGETARCH}/manager.cdx.json /sbom/manager.cdx.json
COPY bin/${TARGETOS}/${TARGETARCH}/agent.cdx.json /sbom/agent.cdx.json
COPY bin/${TARGETOS}/${TARGETARCH}/agent /agent
COPY bin/${TARGETOS}/${TARGETARCH}/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
