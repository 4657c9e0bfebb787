//! The programs, their Go modules, and their folders.

use std::fmt;

use super::module::{
    self, CONTAINERD, COREDNS, ETCD, HELM, KREW, KUBE_SCORE, KUBERNETES, KWOK, Module, OLDEST, OLM, OPERATOR_VERIFY,
    OPM, PROMETHEUS,
};

/// A set of programs that are used together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Component {
    /// etcd, the API server, the controller manager, the scheduler and kubectl.
    ControlPlane,
    /// The API server, the controller manager and the scheduler of the oldest Kubernetes that AppDeploy supports, for tests.
    Oldest,
    /// The kubelet and kube-proxy.
    Node,
    /// containerd, its runc shim and `ctr`.
    Containerd,
    /// kwok: fake nodes and pods.
    Kwok,
    /// The cluster's DNS.
    CoreDns,
    /// Checks and tests of alert rules. No cluster needs it.
    Prometheus,
    /// The package manager for charts.
    Helm,
    /// The package manager for kubectl plugins.
    Krew,
    /// An auditor of manifests.
    KubeScore,
    /// The validators of OLM's catalogs.
    OperatorVerify,
    /// The Operator Lifecycle Manager, and the server of its catalogs.
    Olm,
}

impl Component {
    /// Returns the programs of this component.
    #[must_use]
    pub const fn programs(self) -> &'static [Program] {
        use Program::{
            Containerd, ContainerdShim, CoreDns, Ctr, Etcd, Helm, Krew, KubeApiserver, KubeControllerManager,
            KubeProxy, KubeScheduler, KubeScore, Kubectl, Kubelet, Kwok, OldestApiserver, OldestControllerManager,
            OldestScheduler, Olm, OlmCatalog, OperatorVerify, Opm, Promtool,
        };
        match self {
            Self::ControlPlane => &[Etcd, KubeApiserver, Kubectl, KubeControllerManager, KubeScheduler],
            Self::Oldest => &[OldestApiserver, OldestControllerManager, OldestScheduler],
            Self::Node => &[Kubelet, KubeProxy],
            Self::Containerd => &[Containerd, ContainerdShim, Ctr],
            Self::Kwok => &[Kwok],
            Self::CoreDns => &[CoreDns],
            Self::Prometheus => &[Promtool],
            Self::Helm => &[Helm],
            Self::Krew => &[Krew],
            Self::KubeScore => &[KubeScore],
            Self::OperatorVerify => &[OperatorVerify],
            Self::Olm => &[Olm, OlmCatalog, Opm],
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
    /// `kube-apiserver` of the oldest supported Kubernetes
    OldestApiserver,
    /// `kube-controller-manager` of the oldest supported Kubernetes
    OldestControllerManager,
    /// `kube-scheduler` of the oldest supported Kubernetes
    OldestScheduler,
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
    /// `promtool`
    Promtool,
    /// `helm`
    Helm,
    /// `krew`
    Krew,
    /// `kube-score`
    KubeScore,
    /// `operator-verify`
    OperatorVerify,
    /// `olm`, which installs operators from a catalog
    Olm,
    /// `catalog`, which resolves them
    OlmCatalog,
    /// `opm`, which serves a catalog
    Opm,
}

impl Program {
    /// Returns the release that it is built from, without a `v`.
    #[must_use]
    pub const fn version(self) -> &'static str {
        self.module().version
    }

    /// Returns the name of the executable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver | Self::OldestApiserver => "kube-apiserver",
            Self::KubeControllerManager | Self::OldestControllerManager => "kube-controller-manager",
            Self::KubeScheduler | Self::OldestScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Containerd => "containerd",
            Self::ContainerdShim => "containerd-shim-runc-v2",
            Self::Ctr => "ctr",
            Self::Kwok => "kwok",
            Self::CoreDns => "coredns",
            Self::Promtool => "promtool",
            Self::Helm => "helm",
            Self::Krew => "krew",
            Self::KubeScore => "kube-score",
            Self::OperatorVerify => "operator-verify",
            Self::Olm => "olm",
            Self::OlmCatalog => "catalog",
            Self::Opm => "opm",
        }
    }

    /// Returns whether it is etcd or a program of Kubernetes, which are kept in one folder.
    pub(super) fn is_kubernetes(self) -> bool {
        matches!(self.module().name, "etcd" | "kubernetes")
    }

    /// Returns whether a cluster runs it, rather than a test.
    pub(super) fn is_of_a_cluster(self) -> bool {
        [
            Component::ControlPlane,
            Component::Node,
            Component::Containerd,
            Component::Kwok,
            Component::CoreDns,
        ]
        .iter()
        .any(|component| component.programs().contains(&self))
    }

    /// Returns how many seconds it adds to a build from source on two processors, with what its module shares in the first one.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Etcd => 45,
            Self::KubeApiserver | Self::OldestApiserver => 200,
            Self::Kubelet => 80,
            Self::Containerd | Self::CoreDns | Self::Kwok => 60,
            Self::ContainerdShim | Self::Ctr => 5,
            _ => 25,
        }
    }

    /// Returns how many megabytes it has.
    #[must_use]
    pub const fn megabytes(self) -> u64 {
        match self {
            Self::KubeApiserver | Self::OldestApiserver => 105,
            Self::KubeControllerManager | Self::OldestControllerManager => 95,
            Self::Kubelet => 85,
            Self::KubeProxy | Self::KubeScheduler | Self::OldestScheduler => 73,
            Self::Containerd => 40,
            Self::Etcd | Self::Ctr | Self::ContainerdShim => 25,
            _ => 60,
        }
    }

    /// Returns the Go package that is this program.
    pub(super) const fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver | Self::OldestApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager | Self::OldestControllerManager => {
                "k8s.io/kubernetes/cmd/kube-controller-manager"
            }
            Self::KubeScheduler | Self::OldestScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::KubeProxy => "k8s.io/kubernetes/cmd/kube-proxy",
            Self::Containerd => "github.com/containerd/containerd/v2/cmd/containerd",
            Self::ContainerdShim => "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            Self::Ctr => "github.com/containerd/containerd/v2/cmd/ctr",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            // The main package of this crate.
            Self::CoreDns => ".",
            Self::Promtool => "github.com/prometheus/prometheus/cmd/promtool",
            Self::Helm => "helm.sh/helm/v3/cmd/helm",
            Self::Krew => "sigs.k8s.io/krew/cmd/krew",
            Self::KubeScore => "github.com/zegl/kube-score/cmd/kube-score",
            Self::OperatorVerify => "github.com/operator-framework/api/cmd/operator-verify",
            Self::Olm => "github.com/operator-framework/operator-lifecycle-manager/cmd/olm",
            Self::OlmCatalog => "github.com/operator-framework/operator-lifecycle-manager/cmd/catalog",
            Self::Opm => "github.com/operator-framework/operator-registry/cmd/opm",
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
            Self::OldestApiserver | Self::OldestControllerManager | Self::OldestScheduler => &OLDEST,
            Self::Containerd | Self::ContainerdShim | Self::Ctr => &CONTAINERD,
            Self::Kwok => &KWOK,
            Self::CoreDns => &COREDNS,
            Self::Promtool => &PROMETHEUS,
            Self::Helm => &HELM,
            Self::Krew => &KREW,
            Self::KubeScore => &KUBE_SCORE,
            Self::OperatorVerify => &OPERATOR_VERIFY,
            Self::Olm | Self::OlmCatalog => &OLM,
            Self::Opm => &OPM,
        }
    }

    /// Returns the name of the folder that this program is kept in.
    pub(super) fn folder(self) -> String {
        if self.is_kubernetes() {
            // Tools with one folder for Kubernetes programs look for etcd in it.
            module::key(&[&KUBERNETES, &ETCD])
        } else {
            module::key(&[self.module()])
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Component; 12] = [
        Component::ControlPlane,
        Component::Oldest,
        Component::Node,
        Component::Containerd,
        Component::Kwok,
        Component::CoreDns,
        Component::Prometheus,
        Component::Helm,
        Component::Krew,
        Component::KubeScore,
        Component::OperatorVerify,
        Component::Olm,
    ];

    #[test]
    fn every_program_is_a_tool_of_its_module_at_the_stated_version() {
        for program in ALL.iter().flat_map(|component| component.programs()) {
            let module = program.module();
            if module.main.is_some() {
                let pin = format!("github.com/coredns/coredns v{}", module.version);
                assert!(module.go_mod.contains(&pin), "{} does not have {pin}", module.name);
                assert_eq!(program.package(), ".");
                continue;
            }
            let mut lines = module
                .go_mod
                .lines()
                .map(|line| line.trim().trim_start_matches("tool "));
            assert!(
                lines.any(|line| line == program.package()),
                "{program} is not a tool of {}",
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
    fn only_etcd_is_in_the_folder_of_the_api_server() {
        assert_eq!(Program::Etcd.folder(), Program::Kubelet.folder());
        assert_ne!(Program::Etcd.folder(), Program::Kwok.folder());
        assert_ne!(Program::KubeApiserver.folder(), Program::OldestApiserver.folder());
        assert_ne!(Program::CoreDns.folder(), Program::Kwok.folder());
    }
}
