# The build runs on the builder's own platform and cross-compiles: no emulation for other architectures.
FROM --platform=${BUILDPLATFORM:-linux/amd64} docker.io/library/golang:1.26 AS build
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=0.0.0-dev
WORKDIR /src
# The modules change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY main.go ./
COPY api/ api/
COPY helm-charts/ helm-charts/
COPY internal/ internal/
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath \
    -ldflags "-s -w -X d3os.com/d3os-operator/internal/version.Version=${VERSION}" -o /manager .

FROM gcr.io/distroless/static:nonroot
ARG VERSION=0.0.0-dev
LABEL org.opencontainers.image.title="d3os-operator" \
      org.opencontainers.image.description="Runs the D3OS data service platform on Kubernetes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /manager /manager
COPY LICENSE /licenses/LICENSE
USER 65532:65532
ENTRYPOINT ["/manager"]
