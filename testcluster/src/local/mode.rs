//! Real and fake nodes.

use testcluster::binaries::Component;

use super::layout::Layout;

/// The kind of the cluster's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A kubelet with containers: pages answer.
    Real,
    /// kwok's: pods report that they run.
    Fake,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Fake => "fake",
        }
    }

    pub(crate) const fn components(self) -> &'static [Component] {
        match self {
            Self::Real => &[
                Component::ControlPlane,
                Component::Node,
                Component::Containerd,
                Component::CoreDns,
            ],
            Self::Fake => &[Component::ControlPlane, Component::Kwok],
        }
    }

    /// The programs, in the order in which they are stopped.
    pub(crate) const fn daemons(self) -> &'static [&'static str] {
        match self {
            Self::Real => &[
                "traefik",
                "coredns",
                "kubelet",
                "kube-proxy",
                "containerd",
                "registry",
                "kube-scheduler",
                "kube-controller-manager",
                "kube-apiserver",
                "etcd",
            ],
            Self::Fake => &[
                "kwok",
                "kube-scheduler",
                "kube-controller-manager",
                "kube-apiserver",
                "etcd",
            ],
        }
    }

    /// Reads the recorded kind.
    pub(crate) fn of(layout: &Layout) -> Option<Self> {
        let text = std::fs::read_to_string(layout.at("mode")).ok()?;
        [Self::Real, Self::Fake]
            .into_iter()
            .find(|mode| text.trim() == mode.name())
    }
}
