//! The Go modules that programs are built from, each pinned by a `go.mod` and a `go.sum` of this crate.

use xxhash_rust::xxh3::Xxh3Default;

/// A `go.mod` of this crate, which pins one upstream release and all of its dependencies.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
    /// A main package of this crate, if upstream's has more dependencies than needed.
    pub(super) main: Option<&'static str>,
    /// The variables for the version that upstream's release scripts set; without them the programs report v0.0.0, and
    /// clients that compare versions fail.
    version_variables: &'static [&'static str],
    /// Build tags that exclude unused parts.
    tags: &'static str,
}

impl Module {
    /// Returns the `-ldflags` of a build of this module.
    pub(super) fn ldflags(&self) -> String {
        let mut flags = "-s -w".to_owned();
        for variable in self.version_variables {
            flags.push_str(" -X ");
            flags.push_str(variable);
            flags.push_str("=v");
            flags.push_str(self.version);
        }
        flags
    }

    /// Returns the `-tags` of a build of this module.
    pub(super) const fn tags(&self) -> &str {
        self.tags
    }
}

macro_rules! module {
    ($name:literal, $version:literal, $variables:expr) => {
        module!($name, $version, $variables, "")
    };
    ($name:literal, $version:literal, $variables:expr, $tags:literal) => {
        Module {
            name: $name,
            version: $version,
            go_mod: include_str!(concat!("../../build/", $name, "/go.mod")),
            go_sum: include_str!(concat!("../../build/", $name, "/go.sum")),
            main: None,
            version_variables: $variables,
            tags: $tags,
        }
    };
}

pub(super) static KUBERNETES: Module = module!(
    "kubernetes",
    "1.36.3",
    &[
        "k8s.io/component-base/version.gitVersion",
        "k8s.io/client-go/pkg/version.gitVersion"
    ]
);
/// The oldest Kubernetes that AppDeploy supports, in its last patch release.
pub(super) static OLDEST: Module = Module {
    version_variables: KUBERNETES.version_variables,
    ..module!("kubernetes-oldest", "1.30.14", &[])
};
pub(super) static ETCD: Module = module!("etcd", "3.7.3", &[]);
pub(super) static CONTAINERD: Module = module!(
    "containerd",
    "2.4.2",
    &["github.com/containerd/containerd/v2/version.Version"]
);
pub(super) static KWOK: Module = module!("kwok", "0.8.0", &["sigs.k8s.io/kwok/pkg/consts.Version"]);
pub(super) static COREDNS: Module = Module {
    main: Some(include_str!("../../build/coredns/main.go")),
    ..module!("coredns", "1.15.0", &[])
};
pub(super) static PROMETHEUS: Module = module!(
    "prometheus",
    "0.315.0",
    &[],
    // The clients of all clouds, for Prometheus' service discovery: most of the build.
    "remove_all_sd"
);
pub(super) static HELM: Module = module!("helm", "3.22.0", &["helm.sh/helm/v3/internal/version.version"]);
pub(super) static KREW: Module = module!("krew", "0.4.4", &["sigs.k8s.io/krew/internal/version.gitTag"]);
pub(super) static KUBE_SCORE: Module = module!("kube-score", "1.20.0", &["main.version"]);
pub(super) static OLM: Module = module!("olm", "0.29.0", &[]);
pub(super) static OPM: Module = module!("opm", "1.50.0", &[]);
pub(super) static OPERATOR_VERIFY: Module = module!("operator-verify", "0.31.0", &[]);

/// Returns a name that differs whenever an input of the build differs.
pub(super) fn key(modules: &[&Module]) -> String {
    let mut hash = Xxh3Default::new();
    hash.update(std::env::consts::ARCH.as_bytes());
    for module in modules {
        hash.update(module.go_mod.as_bytes());
        hash.update(module.go_sum.as_bytes());
        hash.update(module.ldflags().as_bytes());
        hash.update(module.tags().as_bytes());
        hash.update(module.main.unwrap_or_default().as_bytes());
    }
    let first = modules
        .first()
        .map_or(("none", ""), |module| (module.name, module.version));
    format!("{}-{}-{:016x}", first.0, first.1, hash.digest())
}
