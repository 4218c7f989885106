# Contains only the file-based catalog. OLM extracts it from the image (grpcPodConfig.extractContent) and serves it.
FROM scratch
LABEL operators.operatorframework.io.index.configs.v1=/configs
COPY catalog /configs/
