# The file-based catalog alone: OLM takes it out of the image (grpcPodConfig.extractContent) and serves it.
FROM scratch
LABEL operators.operatorframework.io.index.configs.v1=/configs
COPY catalog /configs/
