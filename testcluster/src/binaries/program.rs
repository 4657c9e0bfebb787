//! What can be built: the programs, the Go modules they come from, and the folders they are kept in.

use std::fmt;

use xxhash_rust::xxh3::Xxh3Default;

/// A set of programs that are of use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Component {
    /// etcd, the API server, the controller manager, the scheduler and kubectl.
    ControlPlane,
    /// The kubelet and kube-proxy.
    Node,
    /// containerd, its runc shim and `ctr`.
    Containerd,
    /// kwok: nodes and pods that only pretend to run.
    Kwok,
    /// The cluster's DNS.
    CoreDns,
    /// A registry for container images.
    Registry,
    /// What checks and tests alert rules. No cluster needs it.
    Prometheus,
}

impl Component {
    /// Returns the programs of this component.
    #[must_use]
    pub const fn programs(self) -> &'static [Program] {
        use Program::{
            Containerd, ContainerdShim, CoreDns, Ctr, Etcd, KubeApiserver, KubeControllerManager, KubeProxy,
            KubeScheduler, Kubectl, Kubelet, Kwok, Promtool, Registry,
        };
        match self {
            Self::ControlPlane => &[Etcd, KubeApiserver, Kubectl, KubeControllerManager, KubeScheduler],
            Self::Node => &[Kubelet, KubeProxy],
            Self::Containerd => &[Containerd, ContainerdShim, Ctr],
            Self::Kwok => &[Kwok],
            Self::CoreDns => &[CoreDns],
            Self::Registry => &[Registry],
            Self::Prometheus => &[Promtool],
        }
    }
}

/// One executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// `etcd`
    Etcd,
    /// `kube-apiserver`
    KubeApiserver,
    /// `kube-controller-manager`
    KubeControllerManager,
    /// `kube-scheduler`
    KubeScheduler,
    /// `kubectl`
    Kubectl,
    /// `kubelet`
    Kubelet,
    /// `kube-proxy`
    KubeProxy,
    /// `containerd`
    Containerd,
    /// `containerd-shim-runc-v2`
    ContainerdShim,
    /// `ctr`
    Ctr,
    /// `kwok`
    Kwok,
    /// `coredns`
    CoreDns,
    /// `registry`
    Registry,
    /// `promtool`
    Promtool,
}

impl Program {
    /// Returns the name of the executable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Containerd => "containerd",
            Self::ContainerdShim => "containerd-shim-runc-v2",
            Self::Ctr => "ctr",
            Self::Kwok => "kwok",
            Self::CoreDns => "coredns",
            Self::Registry => "registry",
            Self::Promtool => "promtool",
        }
    }

    /// Returns the Go package that is this program.
    pub(super) const fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::KubeProxy => "k8s.io/kubernetes/cmd/kube-proxy",
            Self::Containerd => "github.com/containerd/containerd/v2/cmd/containerd",
            Self::ContainerdShim => "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            Self::Ctr => "github.com/containerd/containerd/v2/cmd/ctr",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::CoreDns => "github.com/coredns/coredns",
            Self::Registry => "github.com/distribution/distribution/v3/cmd/registry",
            Self::Promtool => "github.com/prometheus/prometheus/cmd/promtool",
        }
    }

    /// Returns the module whose `go.mod` pins this program.
    pub(super) const fn module(self) -> &'static Module {
        match self {
            Self::Etcd => &ETCD,
            Self::KubeApiserver
            | Self::KubeControllerManager
            | Self::KubeScheduler
            | Self::Kubectl
            | Self::Kubelet
            | Self::KubeProxy => &KUBERNETES,
            Self::Containerd | Self::ContainerdShim | Self::Ctr => &CONTAINERD,
            Self::Kwok => &KWOK,
            Self::CoreDns => &COREDNS,
            Self::Registry => &REGISTRY,
            Self::Promtool => &PROMETHEUS,
        }
    }

    /// Returns the name of the folder that this program is kept in.
    pub(super) fn folder(self) -> String {
        match self.module().name {
            // Tools that are told one folder of Kubernetes programs look for etcd in it.
            "etcd" | "kubernetes" => key(&[&KUBERNETES, &ETCD]),
            _ => key(&[self.module()]),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A `go.mod` of this crate, which pins one upstream release and all that it is built from.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
    /// Where upstream keeps the version that its release scripts fill in; without it the
    /// programs call themselves v0.0.0, and clients that compare versions go wrong.
    version_variables: &'static [&'static str],
    /// Build tags that leave out what is of no use here.
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
            version_variables: $variables,
            tags: $tags,
        }
    };
}

static KUBERNETES: Module = module!(
    "kubernetes",
    "1.36.3",
    &[
        "k8s.io/component-base/version.gitVersion",
        "k8s.io/client-go/pkg/version.gitVersion"
    ]
);
static ETCD: Module = module!("etcd", "3.7.3", &[]);
static CONTAINERD: Module = module!(
    "containerd",
    "2.4.2",
    &["github.com/containerd/containerd/v2/version.Version"]
);
static KWOK: Module = module!("kwok", "0.8.0", &["sigs.k8s.io/kwok/pkg/consts.Version"]);
static COREDNS: Module = module!("coredns", "1.15.0", &[]);
static REGISTRY: Module = module!(
    "registry",
    "3.1.2",
    &["github.com/distribution/distribution/v3/version.version"]
);
static PROMETHEUS: Module = module!(
    "prometheus",
    "0.315.0",
    &[],
    // The clients of all clouds, where Prometheus would look for what to scrape: most of the build.
    "remove_all_sd"
);

/// Returns a name that differs whenever anything that goes into the build differs.
fn key(modules: &[&Module]) -> String {
    let mut hash = Xxh3Default::new();
    hash.update(std::env::consts::ARCH.as_bytes());
    for module in modules {
        hash.update(module.go_mod.as_bytes());
        hash.update(module.go_sum.as_bytes());
        hash.update(module.ldflags().as_bytes());
        hash.update(module.tags().as_bytes());
    }
    let first = modules
        .first()
        .map_or(("none", ""), |module| (module.name, module.version));
    format!("{}-{}-{:016x}", first.0, first.1, hash.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Component; 7] = [
        Component::ControlPlane,
        Component::Node,
        Component::Containerd,
        Component::Kwok,
        Component::CoreDns,
        Component::Registry,
        Component::Prometheus,
    ];

    #[test]
    fn every_program_is_a_tool_of_its_module_at_the_stated_version() {
        for program in ALL.iter().flat_map(|component| component.programs()) {
            let module = program.module();
            let mut lines = module
                .go_mod
                .lines()
                .map(|line| line.trim().trim_start_matches("tool "));
            assert!(
                lines.any(|line| line == program.package()),
                "{program} is no tool of {}",
                module.name
            );
            assert!(
                module.go_mod.lines().any(|line| {
                    let mut words = line.split_whitespace().filter(|word| *word != "require");
                    words.next().is_some_and(|path| program.package().starts_with(path))
                        && words.next() == Some(&format!("v{}", module.version))
                }),
                "{} does not pin v{}",
                module.name,
                module.version
            );
        }
    }

    #[test]
    fn etcd_lies_beside_the_api_server_and_nothing_else_does() {
        assert_eq!(Program::Etcd.folder(), Program::Kubelet.folder());
        assert_ne!(Program::Etcd.folder(), Program::Kwok.folder());
        assert_ne!(Program::CoreDns.folder(), Program::Kwok.folder());
    }
}
