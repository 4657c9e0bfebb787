# `make help` lists the targets.
#
# Every target acts on the local cluster, whose state is in target/cluster. CLUSTER=kind takes one that kind runs in docker,
# and CLUSTER=current takes the cluster of your own kubeconfig: it names the context and the server,
# and asks first. YES=1 answers yes.
#
# Recipes use paths relative to the checkout and quote all others, so that a checkout may be in a folder with spaces.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules

# Recipes are run by a shell, in which these characters of a path would have a meaning even in quotes.
ifneq ($(strip $(foreach char," ' \ ` $$ : ; %,$(findstring $(char),$(CURDIR)))),)
  $(error the path of this checkout has one of the characters " ' \ ` $$ : ; % in it: move the checkout to another folder)
endif

CLUSTER ?= local
# Further arguments for `make demo`, `make run`, `make faults` or `make bench-apps`, such as ARGS='--log-level debug'.
ARGS ?=
FUZZ_SECONDS ?= 60
# A checkout of an operator in Go, with which `make bench` compares this one instead of bench/peer-go (docs/performance.md).
PEER ?=

# Tests mostly wait for a cluster of their own: more of them than processors at a time end sooner. The operator's, which
# take longest, get two thirds of the threads.
THREADS := $(shell n=$$(getconf _NPROCESSORS_ONLN); test "$$n" -gt 6 && echo "$$n" || echo 6)
# How many parts of the tests run at a time. A machine that others use, too, needs one at a time for tests to be in time.
JOBS ?= 3
# The requests of the operator to each cluster of its tests, for check-rights.
RIGHTS := target/rights
DENY_VERSION := 0.20.2
CACHE := $(or $(APPDEPLOY_CACHE),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME)/appdeploy),$(HOME)/.cache/appdeploy)
DENY := $(CACHE)/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
TYPOS_VERSION := 1.42.3
TYPOS := $(CACHE)/typos-$(TYPOS_VERSION)/bin/typos
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT := $(TARGET)/debug
RELEASED := $(TARGET)/release
TESTCLUSTER := "$(BUILT)/testcluster"
# What a person puts on their PATH: links to what this checkout built, and to kubectl for the local cluster.
BIN := target/bin
# Puts the cluster's kubectl there.
LINK_KUBECTL = $(if $(filter local,$(CLUSTER)),mkdir -p $(BIN) && ln -sf "$$($(TESTCLUSTER) kube-bin | tail -n 1)/kubectl" $(BIN)/kubectl,:)
# What is built for the verbs. The tests want more, and their features for all of it.
PARTS ?= --bins
# Where a test is run next, what it is made of is built with it: else the next one builds half of it again.
test-e2e picture: export PARTS := --all-targets
SOURCES := Cargo.toml Cargo.lock Dockerfile $(foreach crate,crd model operator,$(crate)/Cargo.toml $(crate)/src)
SOURCES_HASH = $(shell find $(SOURCES) -type f | LC_ALL=C sort | xargs cat | cksum | cut -d ' ' -f 1)

# Builds run as you; the one step that needs root asks for it.
ifneq ($(filter-out 0,$(SUDO_UID)),)
  ifeq ($(shell id -u),0)
    $(error run make as yourself, without sudo: it asks for your password where a step needs root)
  endif
endif

ifeq ($(CLUSTER),local)
  export KUBECONFIG := $(CURDIR)/target/cluster/kubeconfig
  export PATH := $(CURDIR)/$(BIN):$(PATH)
  KUBECTL := $(BIN)/kubectl
  # The operator's image. Its tag changes with the sources, so that the cluster never runs yesterday's.
  IMG ?= localhost/appdeploy-operator:$(SOURCES_HASH)
else ifeq ($(CLUSTER),current)
  # The person's own kubectl, not ours; and without IMG= the image of this version's release.
  export PATH := $(if $(filter /%,$(firstword $(BUILT))),,$(CURDIR)/)$(BUILT):$(PATH)
  KUBECTL := kubectl
else ifeq ($(CLUSTER),kind)
  export KUBECONFIG := $(CURDIR)/target/kind/kubeconfig
  export PATH := $(if $(filter /%,$(firstword $(BUILT))),,$(CURDIR)/)$(BUILT):$(PATH)
  KUBECTL := kubectl
  IMG ?= localhost/appdeploy-operator:$(SOURCES_HASH)
  # The name of the cluster and of its container.
  KIND_NAME ?= appdeploy
else
  $(error CLUSTER is "local" (the default), "kind" or "current", not "$(CLUSTER)")
endif

IMAGE = $(if $(IMG),--image $(IMG))

ifeq ($(shell command -v cargo),)
  ifneq ($(filter-out help,$(or $(MAKECMDGOALS),help)),)
    $(error cargo is missing: https://rustup.rs installs it)
  endif
endif

##@ Try it

.PHONY: demo demo-down
# Only what it runs is built, with the features that everything else is built with.
demo: PARTS = --bin testcluster --bin kubectl-appdeploy --bin appdeploy-operator --bin demo
# The local cluster first: it asks, and the rest needs no answer.
demo: $(if $(filter local,$(CLUSTER)),cluster) build $(if $(filter kind,$(CLUSTER)),cluster docker-build docker-push) ## From nothing to a page: a cluster, the operator in it, an nginx, and what to try next
	@"$(BUILT)/demo" --cluster $(CLUSTER) $(IMAGE) $(ARGS)

ifneq ($(CLUSTER),current)
demo-down: cluster-down ## Remove what `make demo` created, and nothing else
else
demo-down: tools
	@"$(BUILT)/demo" --cluster $(CLUSTER) --down $(ARGS)
endif

##@ The local cluster

.PHONY: cluster cluster-down kube-bin queue-server clean-cache
ifeq ($(CLUSTER),kind)
cluster: ## Bring the local cluster up: a real node for root on Linux, fake nodes elsewhere
	@for program in docker kind kubectl; do command -v $$program >/dev/null \
		|| { echo "CLUSTER=kind needs $$program, which is not installed" >&2; exit 1; }; done
	@docker version >/dev/null 2>&1 || { echo 'CLUSTER=kind needs a docker that answers: `docker version` shows why not' >&2; exit 1; }
	@if ! kind get clusters 2>/dev/null | grep -qx '$(KIND_NAME)'; then \
		mkdir -p target/kind && kind create cluster --name '$(KIND_NAME)' --kubeconfig "$(KUBECONFIG)" --wait 3m; \
	elif ! test -f "$(KUBECONFIG)"; then \
		echo 'a kind cluster named $(KIND_NAME) exists, and not from this checkout: KIND_NAME= takes another name' >&2; exit 1; fi

cluster-down:
	@test -f "$(KUBECONFIG)" || { echo 'There is no kind cluster from this checkout.' >&2; exit 1; }
	@kind delete cluster --name '$(KIND_NAME)' --kubeconfig "$(KUBECONFIG)"
	@rm -rf target/kind
else
cluster: testcluster ## Bring the local cluster up: a real node for root on Linux, fake nodes elsewhere
	@$(TESTCLUSTER) up $(if $(filter current,$(CLUSTER)),--current)
	@$(LINK_KUBECTL)

cluster-down: ## End the local cluster and remove all of it but its programs
	@test -x $(TESTCLUSTER) || $(MAKE) testcluster
	@$(TESTCLUSTER) down
endif

queue-server: testcluster ## Run ElasticMQ, a queue service, for the pods of the local cluster, until Ctrl-C
	@$(TESTCLUSTER) queue-server

clean-cache: ## Delete the programs and images that were built or downloaded for local clusters
	@test -x $(TESTCLUSTER) || $(MAKE) testcluster
	@$(TESTCLUSTER) clean-cache

kube-bin: testcluster ## Fetch or build Kubernetes' programs if need be; the last line is their folder
	@$(TESTCLUSTER) kube-bin

##@ Develop

.PHONY: build testcluster tools test test-parts test-stories test-format test-units test-api test-operator test-others test-e2e causes test-oldest test-long faults reliability seeded fuzz recovery bench bench-apps bench-memory bench-podset bench-queues bench-scale bench-start lint run manifests protobuf picture reference performance check-manifests check-rights check-deny check-typos check-go check-macos check-seeded seeded-sources
# Quiet, except for the first time, which takes minutes.
build: ## Build the plugin, the operator and the commands of this checkout into target/bin
	@quiet=--quiet; test -x "$(BUILT)/kubectl-appdeploy" || { quiet=; \
		echo 'Building the plugin and the commands around it, once; about 3 min on two processors' >&2; }; \
		cargo build $$quiet --workspace $(PARTS)
	@mkdir -p $(BIN)
	@built=$$(cd "$(BUILT)" && pwd) && for program in kubectl-appdeploy appdeploy-operator testcluster demo; do \
		ln -sf "$$built/$$program" $(BIN)/ || exit 1; done

# The command that brings clusters up, without the rest.
testcluster:
	@quiet=--quiet; test -x $(TESTCLUSTER) || { quiet=; \
		echo 'Building the command that brings the cluster up, once; about 1 min on two processors' >&2; }; \
		cargo build $$quiet --workspace --bin testcluster

tools: build
	@$(LINK_KUBECTL)

# The parts of `make test`. Each runs whatever became of the one before it. The stories on the local cluster, which mostly
# wait, run concurrently with the others: on a cluster that is brought up before, because that may ask a question, and
# that is ended after them unless it was up.
TEST_PARTS := test-format test-units test-api check-rights
# The parts that failed, one a line, and the outputs of tests that run concurrently with others.
FAILED := target/tests-failed
STORIES := target/test-e2e.log
OPERATOR_TESTS := target/test-operator.log
# What is passed to the test programs: `make test-long` runs what is ignored because it takes minutes, too.
# Seeded bugs run alone, after the others.
TEST_FLAGS := $(if $(APPDEPLOY_TEST_LONG),--include-ignored --skip seeded::)

test: ## Unit tests, tests on private control planes, and stories on the real node
	@start=$$(date +%s); $(MAKE) build PARTS=--all-targets || exit 1; \
	echo "make test: build took $$(($$(date +%s) - start)) s"; \
	mkdir -p target && rm -f $(FAILED) $(STORIES); \
	was=$$(test -f target/cluster/mode && echo up); stories=test-stories; \
	$(if $(IMG),$(TESTCLUSTER) up || { stories=; echo test-e2e >> $(FAILED); test -n "$$was" || $(TESTCLUSTER) down; };) \
	$(MAKE) --keep-going --jobs=$(JOBS) WAS=$$was $$stories test-parts; \
	failed=$$(test ! -f $(FAILED) || tr '\n' ' ' < $(FAILED)); \
	long=$$(cargo test --quiet --workspace --tests -- --ignored --list 2>/dev/null | grep -c ': test$$'); \
	echo "make test: $$long long tests $(if $(APPDEPLOY_TEST_LONG),run,skipped: make test-long runs them)"; \
	echo "make test: all of it took $$(($$(date +%s) - start)) s"; \
	test -z "$$failed" || { echo "make test: failed: $${failed% }" >&2; exit 1; }

test-parts:
	@for part in $(TEST_PARTS); do \
		start=$$(date +%s); \
		$(MAKE) $$part || echo $$part >> $(FAILED); \
		echo "make test: $$part took $$(($$(date +%s) - start)) s"; \
	done

# Runs a command with its output in a file, which is printed when the command ends, so that outputs of concurrent parts are not
# mixed. With JOBS=1 nothing is concurrent, and the output is printed immediately: it shows where a run was when it was ended.
COLLECT_OUTPUT = $(if $(filter 1,$(JOBS)),$(2),{ $(2) } > $(1) 2>&1; result=$$?; cat $(1); (exit $$result))

test-stories:
	@start=$$(date +%s); $(call COLLECT_OUTPUT,$(STORIES),\
		$(MAKE) test-e2e || echo test-e2e >> $(FAILED); \
		$(if $(IMG),$(if $(WAS),,$(TESTCLUSTER) down || echo test-e2e >> $(FAILED);)) \
		echo "make test: test-e2e took $$(($$(date +%s) - start)) s";)

test-format:
	cargo fmt --all --check

# Without MAKEFLAGS: cargo would look for the jobs of make.
test-units:
	MAKEFLAGS= cargo test --quiet --workspace --no-fail-fast --lib --bins -- $(TEST_FLAGS)
	MAKEFLAGS= cargo test --quiet --workspace --doc

# Tests on control planes of their own, and all others that are programs of their own. Those of the operator are one
# program, which takes longer than all others, and run concurrently with them. Nice to the stories on the node, which wait
# for kubelets and have fewer processes.
API_TESTS = RUST_TEST_THREADS=$(or $(RUST_TEST_THREADS),$(1)) MAKEFLAGS= nice -n 10 cargo test --workspace --no-fail-fast

test-api: test-operator test-others

test-operator:
	@rm -rf $(RIGHTS) && mkdir -p target
	@$(call COLLECT_OUTPUT,$(OPERATOR_TESTS),APPDEPLOY_RIGHTS="$(CURDIR)/$(RIGHTS)" \
		$(call API_TESTS,$(shell expr $(THREADS) \* 2 / 3)) --test operator -- $(TEST_FLAGS);)

# All programs of tests but those whose name begins with an o, of which there is one.
test-others:
	$(call API_TESTS,$(shell expr $(THREADS) / 3)) --test '[!o]*' -- $(TEST_FLAGS)

# The last part of `make test` alone; NAME= picks tests by a part of their name.
test-e2e: tools
	E2E_IMAGE=$(IMG) MAKEFLAGS= cargo test --quiet --workspace --test e2e -- $(NAME)

causes: ## Record the objects of a real cluster for the tests of causes (model/tests/causes)
	@E2E_CAUSES=model/tests/causes $(MAKE) test-e2e NAME=causes

# The tests of the operator that say what an API server makes of its objects. Those of policies that change objects need
# Kubernetes 1.36.
OLDEST := schema:: podset:: children:: admission::people webhook:: life::installation rights::confined
NEWER := --skip dropped --skip fight:: --skip volumes:: --skip schema::stored

test-oldest: testcluster ## Run the tests of the operator on the oldest supported Kubernetes, which is built once
	@oldest=$$($(TESTCLUSTER) kube-bin --oldest | tail -n 1) && MAKEFLAGS= APPDEPLOY_KUBE_BIN="$$oldest" \
		cargo test --quiet --workspace --test operator -- $(OLDEST) $(NEWER) \
		&& MAKEFLAGS= cargo test --quiet --workspace --test operator -- --include-ignored oldest::

test-long: ## The same with all that takes longer: larger models, more schedules, the oldest Kubernetes
	@failed=; APPDEPLOY_TEST_LONG=1 $(MAKE) test || failed=1; $(MAKE) seeded || failed=1; \
		$(MAKE) test-oldest || failed=1; test -z "$$failed"

faults: build ## Run every scenario with every fault at every call (NAME= picks some, ARGS=--help says more)
	@"$(BUILT)/faults" $(if $(NAME),'$(NAME)') $(ARGS)
	@$(if $(NAME)$(ARGS),,$(MAKE) fuzz)

reliability: ## Write what `make faults` has found last into docs/reliability.md
	@"$(BUILT)/faults" --page docs/reliability.md $(ARGS)

fuzz: ## Give what reads the texts of others anything to read, each for FUZZ_SECONDS (60), as `make faults` does at its end
	APPDEPLOY_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --quiet --workspace --test operator -- fuzz:: --nocapture
	APPDEPLOY_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --quiet --workspace --bin kubectl-appdeploy fuzz -- --nocapture

recovery: ## Measure how long it takes to recover from twenty injections, into docs/faults.md
	APPDEPLOY_RECOVERY="$(CURDIR)/docs/faults.md" cargo test --quiet --workspace --test operator -- --include-ignored injections::

# The operator with the bugs is built in target/seeded.
seeded: seeded-sources ## See that `make faults` finds bugs: an operator with one on purpose, and the plan that finds it
	cargo test --quiet --workspace --test operator -- --include-ignored seeded::

bench: bench-start bench-podset bench-apps ## Measure the plugin's start, a PodSet compared with a ReplicaSet, and the cost of thousands of apps, compared with an operator in Go (PEER=, ARGS=--help)

# How long a PodSet takes for 100 pods, compared with a ReplicaSet, on fake nodes.
bench-podset:
	cargo bench --package operator --bench podset

# Sets $$operator to the static program of the image, or to that of this machine.
define RELEASED_OPERATOR
static="$$(uname -m)-unknown-linux-musl"; \
if command -v musl-gcc >/dev/null && test -d "$$(rustc --print sysroot)/lib/rustlib/$$static"; then \
cargo build --quiet --release --package operator --bin appdeploy-operator --target "$$static" || exit 1; \
operator="$(TARGET)/$$static/release/appdeploy-operator"; \
else \
echo "measuring the operator as this machine links it: the static program of the image needs musl-gcc (musl-tools) and 'rustup target add $$static'" >&2; \
cargo build --quiet --release --package operator --bin appdeploy-operator || exit 1; \
operator="$(RELEASED)/appdeploy-operator"; \
fi
endef

# The cost of apps: time, requests, memory, compared with the API server alone and an operator in Go. Measured is the static
# program of the image, if this machine can build it.
bench-apps:
	@cargo build --quiet --release --package bench
	@$(RELEASED_OPERATOR); "$(RELEASED)/bench" run --operator "$$operator" $(if $(PEER),--peer '$(PEER)') $(ARGS)

bench-memory: ## Measure the operator's peak memory under its limit, into docs/security.md
	@cargo build --quiet --release --package operator --package bench
	@"$(RELEASED)/bench" memory --page docs/security.md $(ARGS)

bench-queues: ## Measure the cost of 1,000 queues outside of the cluster that nothing changes, into docs/guide/queue.md
	@cargo build --quiet --release --package operator --package bench
	@"$(RELEASED)/bench" queues --page docs/guide/queue.md $(ARGS)

# How far one operator goes: about 15 minutes.
bench-scale: ## Measure 20,000 apps, restarts while images change, and 5,000 pods that fail at the same time, into docs/scale.md
	@cargo build --quiet --release --package bench
	@$(RELEASED_OPERATOR); "$(RELEASED)/bench" scale --operator "$$operator" --page docs/scale.md $(ARGS)

bench-start:
	cargo bench --quiet --package kubectl-appdeploy --bench start

lint: check-manifests check-deny check-typos check-go check-macos check-seeded ## Format, clippy, licenses and advisories, generated files, crate dependencies, documentation, language, macOS
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --all-features -- --deny warnings
	cargo test --quiet --workspace --test crates --test docs --test prose --test workflows

run: tools reachable ## Run the operator outside the cluster, with your own rights (ARGS= for more of its flags)
	@exec "$(BUILT)/appdeploy-operator" --bind 127.0.0.1:8081 $(ARGS)

manifests: ## Generate the CRDs in config/crd from the types in crd/
	cargo run --quiet --package crd --example manifests config/crd crd/revision

# The fields of objects as protobuf, and examples with all of them.
PROTOBUF_FIELDS = (cd operator/protobuf && CGO_ENABLED=0 go run -trimpath .) | rustfmt --edition 2024 --config max_width=120
PROTOBUF_EXAMPLES = (cd operator/protobuf && CGO_ENABLED=0 go run -trimpath . examples)
protobuf: ## Generate how objects of Kubernetes are read as protobuf, from k8s.io/api (needs Go)
	$(PROTOBUF_FIELDS) >operator/src/protobuf/fields.rs
	$(PROTOBUF_EXAMPLES) >operator/src/protobuf/examples.json

picture: tools ## Record the session of the README on the real node, into docs/session.svg
	E2E_IMAGE=$(IMG) APPDEPLOY_PICTURE="$(CURDIR)/docs/session.svg" cargo test --quiet --workspace --test e2e -- picture

reference: ## Generate docs/reference from the plugin's command line
	APPDEPLOY_WRITE_REFERENCE=1 cargo test --quiet --package kubectl-appdeploy --bins reference

performance: ## Write docs/performance.md and its plot from the last `make bench-apps`
	@"$(RELEASED)/bench" page docs

# What is generated is what `make manifests` would write.
check-manifests:
	@mkdir -p target/manifests
	@cargo run --quiet --package crd --example manifests target/manifests
	@for crd in target/manifests/*; do diff -u config/crd/$${crd##*/} $$crd; done \
		|| { echo 'config/crd differs from its source: run `make manifests`' >&2; exit 1; }

# Of what `make test` has seen last: each right of the operator was used, and it was denied nothing.
check-rights:
	@"$(BUILT)/rights" config/rbac $(RIGHTS)

# The sources with the bugs of `make seeded`. Outside of a repository, the paths of a patch are relative to the folder.
SEEDED := target/seeded/sources
seeded-sources:
	@rm -rf $(SEEDED) && mkdir -p $(SEEDED)
	@git ls-files -z | tar --create --null --files-from=- | tar --extract --directory $(SEEDED)
	@cd $(SEEDED) && GIT_CEILING_DIRECTORIES="$(CURDIR)/target/seeded" git apply "$(CURDIR)/operator/tests/seeded.patch"

# They compile. With the flags and the folder of clippy, so that it shares the dependencies.
check-seeded: seeded-sources
	CARGO_INCREMENTAL=0 cargo check --quiet --workspace --all-targets --all-features --manifest-path $(SEEDED)/Cargo.toml --target-dir "$(TARGET)"

# Licences, sources, bans and advisories of all dependencies.
check-deny:
	@test -x "$(DENY)" || { echo 'Building cargo-deny $(DENY_VERSION), once, into the cache' >&2; \
		cargo install --quiet --locked --root "$(CACHE)/cargo-deny-$(DENY_VERSION)" cargo-deny@$(DENY_VERSION); }
	"$(DENY)" --log-level error check bans licenses sources
	@if git ls-remote --quiet --exit-code https://github.com/rustsec/advisory-db HEAD >/dev/null 2>&1; \
		then "$(DENY)" check advisories; \
		else echo 'advisories: not checked, their database on github.com cannot be fetched from here'; fi

# Spelling, with the exceptions in _typos.toml. Phrases are checked by tests/prose.rs.
check-typos:
	@test -x "$(TYPOS)" || { echo 'Building typos $(TYPOS_VERSION), once, into the cache' >&2; \
		cargo install --quiet --locked --root "$(CACHE)/typos-$(TYPOS_VERSION)" typos-cli@$(TYPOS_VERSION); }
	"$(TYPOS)"

# The operator in Go of the benchmark, with the flags of its build, so that Go compiles its dependencies once; and what
# `make protobuf` would write.
check-go:
	@if command -v go >/dev/null; \
		then test -z "$$(gofmt -l bench/peer-go operator/protobuf | tee /dev/stderr)" \
			&& (cd bench/peer-go && CGO_ENABLED=0 go vet -trimpath . && CGO_ENABLED=0 go test -trimpath .) \
			&& (cd operator/protobuf && CGO_ENABLED=0 go vet -trimpath .) \
			&& $(PROTOBUF_FIELDS) | diff - operator/src/protobuf/fields.rs \
			&& $(PROTOBUF_EXAMPLES) | diff - operator/src/protobuf/examples.json; \
		else echo 'bench/peer-go, operator/protobuf: not checked, Go is not installed'; fi

# The commands around the local cluster compile for macOS, where the nodes are fake. C code of dependencies is not compiled for it.
MAC := aarch64-apple-darwin
check-macos:
	@test -z "$$CI" || rustup target add $(MAC)
	@if test -d "$$(rustc --print sysroot)/lib/rustlib/$(MAC)"; \
		then SDKROOT=/ CC_aarch64_apple_darwin=true AR_aarch64_apple_darwin=true \
			cargo check --quiet --target $(MAC) --package testcluster --bins; \
		else echo 'macOS: not checked, Rust has no target for it (`rustup target add $(MAC)`)'; fi

##@ Into a cluster

.PHONY: install uninstall deploy undeploy docker-build docker-push reachable image-named
install: tools reachable ## Install the CRDs
	@# The field manager is the plugin's: the two may take turns.
	@$(KUBECTL) apply --server-side --field-manager=kubectl-appdeploy --kustomize config/crd

uninstall: tools reachable ## Remove the CRDs, and with them every AppDeploy
	@# An admission policy, where there is one, asks for this before it lets them be deleted.
	@$(KUBECTL) get --kustomize config/crd --ignore-not-found -o name | while read -r crd; do \
		$(KUBECTL) annotate --overwrite "$$crd" appdeploy.dev/allow-deletion=true || exit 1; done
	@$(KUBECTL) delete --kustomize config/crd --ignore-not-found

deploy: tools reachable ## Install CRDs, rights and the operator (IMG= is its image)
	@$(KUBECTL) appdeploy install $(IMAGE)

undeploy: tools reachable ## Remove the operator and its rights; CRDs and apps stay
	@$(KUBECTL) appdeploy uninstall

docker-build: build image-named ## Build the operator's image with docker, or without an engine where there is none (IMG=)
	@if docker version >/dev/null 2>&1; then docker build --tag $(IMG) .; else $(TESTCLUSTER) build-image $(IMG); fi

docker-push: build image-named ## Give the operator's image to the cluster, or with CLUSTER=current push it to its own registry (IMG=)
	@$(or $(and $(filter local,$(CLUSTER)),$(TESTCLUSTER) push $(IMG)),\
		$(and $(filter kind,$(CLUSTER)),kind load docker-image --name '$(KIND_NAME)' $(IMG)),docker push $(IMG))

reachable:
ifneq ($(CLUSTER),current)
	@test -f "$(KUBECONFIG)" || { echo 'There is no local cluster: `make cluster` brings one up.' >&2; exit 1; }
else
	@$(TESTCLUSTER) up --current --confirm 'Run `make $(filter run install uninstall deploy undeploy,$(MAKECMDGOALS))` on'
endif

image-named:
	@test -n '$(IMG)' || { echo 'Which image? IMG=registry.example.com/appdeploy-operator:v1 names it.' >&2; exit 1; }

##@ Packages

.PHONY: helm-chart bundle bundle-build pin-image dist dist-plugin dist-rest zig check-packages check-tag
PACKAGES := target/packages
# What is uploaded for a release.
RELEASE := $(PACKAGES)/release
# Everything that is packed has the date of the commit, so that the same commit gives the same bytes.
RENDER = SOURCE_DATE_EPOCH=$(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct)) cargo run --quiet --package packages --
# What the plugin is built for. A Mac builds for Macs: what is linked comes with the system. Linux builds the others, with
# the C compiler and the linker of zig, which comes from PyPI.
ifeq ($(shell uname -s),Darwin)
  DIST_TARGETS ?= aarch64-apple-darwin x86_64-apple-darwin
  DIST_BUILD = cargo build
else
  DIST_TARGETS ?= x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-pc-windows-gnu
  DIST_BUILD = PATH="$(ZIG)/bin:$$PATH" cargo zigbuild
  DIST_TOOLS = zig
endif
# What is installed for it, by its content.
ZIG_PACKAGES := packages/zig.txt
ZIG := $(CACHE)/zig-$(shell cksum < $(ZIG_PACKAGES) | cut -d ' ' -f 1)

helm-chart: ## Render the Helm chart into target/packages/chart
	@$(RENDER) helm $(PACKAGES)/chart

bundle: ## Render the bundle for OLM into target/packages/bundle
	@$(RENDER) olm $(PACKAGES)/bundle

bundle-build: bundle image-named ## Build the bundle's image with docker (IMG= is its name)
	docker build --file $(PACKAGES)/bundle/bundle.Dockerfile --tag $(IMG) $(PACKAGES)/bundle

# All packages then install exactly that image. On a forge the digest becomes the step's output, for the jobs after it.
pin-image: ## Write the digest of the operator's image into the manifests (DIGEST=, or that of IMG= as docker pushed it)
	@digest=$$DIGEST; image=$$IMG; \
	if test -z "$$digest"; then \
		test -n "$$image" || { echo 'Which image? DIGEST=sha256:… or IMG=registry.example.com/appdeploy-operator:v1 names it.' >&2; exit 1; }; \
		digest=$$(docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$$image" \
			| grep -F -- "$${image%:*}@" | head -n 1 | cut -d @ -f 2); \
		test -n "$$digest" || { echo "docker has not pushed $$image: \`docker push $$image\` does" >&2; exit 1; }; \
	fi; \
	$(RENDER) pin "$$digest" && if test -n "$$GITHUB_OUTPUT"; then echo "digest=$$digest" >> "$$GITHUB_OUTPUT"; fi

dist: ## Build all that is released into target/packages/release: archives, chart, bill of materials, krew, checksums
	@rm -rf $(RELEASE)
	@$(MAKE) dist-plugin dist-rest

# The plugin, for each of DIST_TARGETS.
dist-plugin: $(DIST_TOOLS)
	@for target in $(DIST_TARGETS); do \
		rustup target add $$target && \
		$(DIST_BUILD) --profile plugin --locked --package kubectl-appdeploy --target $$target && \
		end= && case $$target in *windows*) end=.exe;; esac && \
		$(RENDER) plugin $$target "$(TARGET)/$$target/plugin/kubectl-appdeploy$$end" $(RELEASE) || exit 1; \
	done

# The other files of a release; last, because this reads the plugin's archives.
dist-rest:
	@$(RENDER) chart $(RELEASE)
	@$(RENDER) policies $(RELEASE)
	@$(RENDER) sbom kubectl-appdeploy $(RELEASE)
	@$(RENDER) sbom operator $(RELEASE)
	@$(RENDER) finish $(RELEASE)

check-packages: build ## Test that all packages install the same, and that the tools which take them do
	APPDEPLOY_TEST_LONG=1 cargo test --package tests --test packages -- --include-ignored

# A release is of the version that its tag says.
check-tag:
	@version=$$(cargo pkgid --package packages | sed 's/.*[@#]//'); test '$(TAG)' = "v$$version" \
		|| { echo "the tag is $(TAG), and Cargo.toml says $$version" >&2; exit 1; }

# Installed once, into the cache.
zig:
	@test -x "$(ZIG)/bin/cargo-zigbuild" || { echo 'Installing zig, once, into the cache' >&2; python3 -m venv "$(ZIG)" \
		&& "$(ZIG)/bin/pip" install --quiet --only-binary=:all: --require-hashes --requirement $(ZIG_PACKAGES); }

.PHONY: help
help: # Lists every target with a text behind `##`, under the headings `##@`.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nCLUSTER=current makes a target act on the cluster of your own kubeconfig; it asks first, and YES=1 answers yes.\n'
	@printf 'CLUSTER=kind takes a cluster that kind runs in docker.\n'
