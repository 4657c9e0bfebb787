# The operator: one static program, nothing else. Builds with docker and with buildah.
#
#   docker build -t IMAGE .        buildah build -t IMAGE .
#
# Alpine's Rust brings a C compiler and links statically by itself. The digest is what counts; to move it:
#   docker buildx imagetools inspect docker.io/library/rust:1-alpine
FROM docker.io/library/rust:1-alpine@sha256:a10e64dd139b7387337c7fbe8aca31b959b57b2fd4c8ae20a02cf1d6ea424dce AS build
WORKDIR /src
COPY . .
# The target folder outlives the build, so that a change costs only what it touches. The named target makes the
# program static on every base, and `uname` says it for the machine that builds.
RUN --mount=type=cache,id=appdeploy-target,target=/src/target \
    target="$(uname -m)-unknown-linux-musl" \
    && cargo build --release --locked --package operator --bin appdeploy-operator --target "$target" \
    && cp "target/$target/release/appdeploy-operator" /appdeploy-operator

FROM scratch
LABEL org.opencontainers.image.title="appdeploy-operator" \
      org.opencontainers.image.description="Keeps a Deployment, a Service and an Ingress for each AppDeploy" \
      org.opencontainers.image.source="https://github.com/appdeploy/appdeploy" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /appdeploy-operator /appdeploy-operator
# A number: a kubelet can't look up a name to check runAsNonRoot.
USER 65532:65532
ENTRYPOINT ["/appdeploy-operator"]
