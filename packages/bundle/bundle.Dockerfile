# The bundle as an image, whose content is these files: `make bundle` writes them, `make bundle-build` builds it.
FROM scratch
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1 \
      operators.operatorframework.io.bundle.manifests.v1=manifests/ \
      operators.operatorframework.io.bundle.metadata.v1=metadata/ \
      operators.operatorframework.io.bundle.package.v1=@package@ \
      operators.operatorframework.io.bundle.channels.v1=@channel@ \
      operators.operatorframework.io.bundle.channel.default.v1=@channel@
COPY manifests /manifests/
COPY metadata /metadata/
