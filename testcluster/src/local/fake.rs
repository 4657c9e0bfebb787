//! kwok's nodes: for users other than root, and other systems than Linux.

use anyhow::Result;
use testcluster::binaries::{Binaries, Program};
use testcluster::{Kubectl, fake_nodes};

use super::daemons::{self, Daemons};
use super::layout::Layout;

const NODES: usize = 2;
const ADDRESS: &str = "127.0.0.1:17247";

/// Starts kwok and creates its nodes.
pub(crate) fn up(layout: &Layout, programs: &Binaries, daemons: &mut Daemons) -> Result<()> {
    let kubectl = Kubectl::new(programs.path(Program::Kubectl), layout.kubeconfig());
    fake_nodes::create(&kubectl, NODES)?;
    // No ingress class: no controller would set an Ingress's address, and an app would wait for it indefinitely.
    let config = layout.write("kwok.yaml", fake_nodes::CONFIG)?;
    let args = [
        format!("--config={}", config.display()),
        format!("--kubeconfig={}", layout.at("kwok.kubeconfig").display()),
        format!("--server-address={ADDRESS}"),
    ];
    daemons.ensure("kwok", &programs.path(Program::Kwok), &args, &[])?;
    daemons.wait("kwok", 30, || daemons::answers(ADDRESS))?;
    daemons.wait("kwok", 60, || {
        fake_nodes::ready(&kubectl).is_ok_and(|ready| ready == NODES)
    })?;
    daemons.wait("kube-controller-manager", 30, || {
        kubectl
            .run(&["get", "serviceaccount", "default", "--namespace=default"])
            .is_ok()
    })
}
