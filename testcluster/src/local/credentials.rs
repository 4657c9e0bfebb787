//! Credentials of the cluster: its CAs, a certificate and a kubeconfig for each program.

use std::path::Path;

use anyhow::{Context, Result};
use testcluster::kubeconfig::{Credential, Kubeconfig};
use testcluster::pki::{Authority, Identity, write_key_pair};

use super::layout::Layout;
use super::network::{API_PORT, KUBERNETES_IP, NODE, NODE_IP};

/// The name of the cluster and context in the user's kubeconfig.
pub(crate) const CLUSTER: &str = "appdeploy-local";

/// The administrator's kubeconfig, with the API server's port in the node. The user's is a copy with the port on the
/// host.
pub(crate) const ADMIN: &str = "admin.kubeconfig";

/// Each program's kubeconfig, its user and its group.
const USERS: [(&str, &str, &str); 7] = [
    (ADMIN, "local-admin", "system:masters"),
    (
        "kube-controller-manager.kubeconfig",
        "system:kube-controller-manager",
        "",
    ),
    ("kube-scheduler.kubeconfig", "system:kube-scheduler", ""),
    ("kube-proxy.kubeconfig", "system:kube-proxy", ""),
    ("coredns.kubeconfig", "local-cluster:coredns", ""),
    ("traefik.kubeconfig", "local-cluster:traefik", ""),
    ("kwok.kubeconfig", "local-cluster:kwok", "system:masters"),
];

/// Writes all keys, certificates and kubeconfigs, once in the life of a cluster.
pub(crate) fn ensure(layout: &Layout) -> Result<()> {
    let done = layout.at("pki/complete");
    if done.exists() {
        return Ok(());
    }
    let pki = layout.dir("pki")?;
    let ca = Authority::new("local-cluster-ca")?;
    ca.identity().write(&pki, "ca")?;
    let server = ca.server(
        "kube-apiserver",
        &[
            "127.0.0.1",
            "localhost",
            NODE_IP,
            KUBERNETES_IP,
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ],
    )?;
    server.write(&pki, "apiserver")?;
    ca.client("kube-apiserver-kubelet-client", &["system:masters"])?
        .write(&pki, "apiserver-kubelet-client")?;
    ca.server(NODE, &[NODE, NODE_IP])?.write(&pki, "kubelet-serving")?;
    write_key_pair(&pki, "sa")?;

    // Separate CAs: certificates of the cluster's CA must neither give access to etcd nor impersonate users.
    let etcd = Authority::new("local-cluster-etcd-ca")?;
    etcd.identity().write(&pki, "etcd-ca")?;
    etcd.server("etcd", &["127.0.0.1"])?.write(&pki, "etcd")?;
    etcd.client("kube-apiserver", &[])?
        .write(&pki, "apiserver-etcd-client")?;
    let front = Authority::new("local-cluster-front-proxy-ca")?;
    front.identity().write(&pki, "front-proxy-ca")?;
    front
        .client("front-proxy-client", &[])?
        .write(&pki, "front-proxy-client")?;

    for (file, user, group) in USERS {
        let groups: &[&str] = if group.is_empty() { &[] } else { &[group] };
        kubeconfig(&ca, &layout.at(file), user, &ca.client(user, groups)?)?;
    }
    let node = format!("system:node:{NODE}");
    kubeconfig(
        &ca,
        &layout.at("kubelet.kubeconfig"),
        &node,
        &ca.client(&node, &["system:nodes"])?,
    )?;
    std::fs::write(&done, "").with_context(|| format!("failed to write {}", done.display()))
}

/// Writes the user's kubeconfig, for an API server on `port` of 127.0.0.1.
pub(crate) fn write_kubeconfig(layout: &Layout, port: u16) -> Result<()> {
    let admin = layout.at(ADMIN);
    let text = std::fs::read_to_string(&admin).with_context(|| format!("failed to read {}", admin.display()))?;
    let text = text.replace(&format!(":{API_PORT}"), &format!(":{port}"));
    let file = layout.kubeconfig();
    if std::fs::read_to_string(&file).is_ok_and(|before| before == text) {
        return Ok(());
    }
    let new = layout.at("kubeconfig.new");
    // With the permissions of the other one: it has the administrator's key.
    std::fs::copy(&admin, &new)
        .and_then(|_| std::fs::write(&new, &text))
        .with_context(|| format!("failed to write {}", new.display()))?;
    hand_over(&new)?;
    std::fs::rename(&new, &file).with_context(|| format!("failed to write {}", file.display()))
}

/// Changes the owner of the user's kubeconfig to the user who called `sudo`.
fn hand_over(file: &Path) -> Result<()> {
    let id = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if let (Some(user), Some(group)) = (id("SUDO_UID"), id("SUDO_GID")) {
        std::os::unix::fs::chown(file, Some(user), Some(group))
            .with_context(|| format!("failed to hand {} over to the user {user}", file.display()))?;
    }
    Ok(())
}

fn kubeconfig(ca: &Authority, file: &Path, user: &str, identity: &Identity) -> Result<()> {
    let config = Kubeconfig {
        cluster: CLUSTER,
        // Loopback, not the node's address: it never goes through a proxy of the environment.
        server: &format!("https://127.0.0.1:{API_PORT}"),
        authority: ca.certificate(),
        user,
        credential: Credential::Certificate(identity),
    };
    config
        .write(file)
        .with_context(|| format!("failed to write {}", file.display()))
}
