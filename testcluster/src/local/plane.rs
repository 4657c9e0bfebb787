//! The control plane: etcd, the API server, the controller manager and the scheduler.

use std::path::Path;

use anyhow::Result;
use testcluster::binaries::{Binaries, Program};

use super::credentials;
use super::daemons::{self, Daemons};
use super::layout::Layout;
use super::mode::Mode;
use super::network::{API_PORT, NODE_IP, SERVICE_CIDR};
use super::tool::Tool;

const ETCD: &str = "127.0.0.1:17379";
const ETCD_PEER: &str = "127.0.0.1:17380";

/// Starts missing programs, and returns when the API server is ready.
pub(crate) fn up(layout: &Layout, mode: Mode, programs: &Binaries, daemons: &mut Daemons) -> Result<()> {
    daemons.ensure("etcd", &programs.path(Program::Etcd), &etcd(layout), &[])?;
    daemons.wait("etcd", 30, || daemons::answers(ETCD))?;
    daemons.ensure(
        "kube-apiserver",
        &programs.path(Program::KubeApiserver),
        &api_server(layout, mode),
        &[],
    )?;
    daemons.wait("kube-apiserver", 90, || ready(layout, programs))?;
    daemons.ensure(
        "kube-controller-manager",
        &programs.path(Program::KubeControllerManager),
        &controller_manager(layout),
        &[],
    )?;
    daemons.ensure(
        "kube-scheduler",
        &programs.path(Program::KubeScheduler),
        &scheduler(layout),
        &[],
    )
}

/// Returns whether the API server is ready.
pub(crate) fn ready(layout: &Layout, programs: &Binaries) -> bool {
    kubectl(layout, programs)
        .args(["get", "--raw", "/readyz", "--request-timeout=3s"])
        .succeeds()
}

/// Returns a call of the cluster's own kubectl: the machine may have another version.
pub(crate) fn kubectl(layout: &Layout, programs: &Binaries) -> Tool {
    Tool::new(programs.path(Program::Kubectl))
        .arg("--kubeconfig")
        .arg(layout.at(credentials::ADMIN))
        .arg("--cache-dir")
        .arg(layout.at("kubectl-cache"))
}

fn etcd(layout: &Layout) -> Vec<String> {
    let pki = |name: &str| layout.at("pki").join(name).display().to_string();
    let mut args = vec![
        format!("--data-dir={}", layout.at("etcd").display()),
        // Only a power failure loses unsynced data, and a new cluster takes seconds.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
        "--enable-grpc-gateway=false".into(),
        format!("--listen-client-urls=https://{ETCD}"),
        format!("--advertise-client-urls=https://{ETCD}"),
        format!("--listen-peer-urls=https://{ETCD_PEER}"),
        format!("--initial-advertise-peer-urls=https://{ETCD_PEER}"),
        format!("--initial-cluster=default=https://{ETCD_PEER}"),
    ];
    // With fake nodes, loopback is that of the host and open to every user; write access to etcd is administrator access
    // to the cluster.
    for prefix in ["--", "--peer-"] {
        args.push(format!("{prefix}cert-file={}", pki("etcd.crt")));
        args.push(format!("{prefix}key-file={}", pki("etcd.key")));
        args.push(format!("{prefix}trusted-ca-file={}", pki("etcd-ca.crt")));
        args.push(format!("{prefix}client-cert-auth"));
    }
    args
}

fn api_server(layout: &Layout, mode: Mode) -> Vec<String> {
    let pki = |name: &str| layout.at("pki").join(name).display().to_string();
    let mut args = vec![
        format!("--secure-port={API_PORT}"),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--etcd-servers=https://{ETCD}"),
        format!("--etcd-cafile={}", pki("etcd-ca.crt")),
        format!("--etcd-certfile={}", pki("apiserver-etcd-client.crt")),
        format!("--etcd-keyfile={}", pki("apiserver-etcd-client.key")),
        format!("--service-account-key-file={}", pki("sa.pub")),
        format!("--service-account-signing-key-file={}", pki("sa.key")),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
        format!("--service-cluster-ip-range={SERVICE_CIDR}"),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--allow-privileged=true".into(),
        "--profiling=false".into(),
        // For extension API servers (metrics-server), which users may install.
        format!("--requestheader-client-ca-file={}", pki("front-proxy-ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        format!("--proxy-client-cert-file={}", pki("front-proxy-client.crt")),
        format!("--proxy-client-key-file={}", pki("front-proxy-client.key")),
    ];
    match mode {
        Mode::Real => args.extend([
            // In the node's own network: for its loopback, and for pods.
            "--bind-address=0.0.0.0".into(),
            format!("--advertise-address={NODE_IP}"),
            "--kubelet-preferred-address-types=InternalIP".into(),
            format!("--kubelet-certificate-authority={}", pki("ca.crt")),
            format!("--kubelet-client-certificate={}", pki("apiserver-kubelet-client.crt")),
            format!("--kubelet-client-key={}", pki("apiserver-kubelet-client.key")),
        ]),
        Mode::Fake => args.extend([
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            // Endpoints may not be on loopback, and there are no pods to use them.
            "--endpoint-reconciler-type=none".into(),
        ]),
    }
    args
}

fn controller_manager(layout: &Layout) -> Vec<String> {
    let pki = |name: &str| layout.at("pki").join(name).display().to_string();
    let mut args = vec![
        format!("--root-ca-file={}", pki("ca.crt")),
        format!("--service-account-private-key-file={}", pki("sa.key")),
        format!("--cluster-signing-cert-file={}", pki("ca.crt")),
        format!("--cluster-signing-key-file={}", pki("ca.key")),
        "--use-service-account-credentials=true".into(),
        // It requests a token for each controller at its start; at the default rate this takes four seconds.
        "--kube-api-qps=500".into(),
        "--kube-api-burst=500".into(),
    ];
    args.extend(component(&layout.at("kube-controller-manager.kubeconfig"), 17257));
    args
}

fn scheduler(layout: &Layout) -> Vec<String> {
    component(&layout.at("kube-scheduler.kubeconfig"), 17259)
}

/// Arguments that the controller manager and the scheduler share.
fn component(kubeconfig: &Path, port: u16) -> Vec<String> {
    let config = kubeconfig.display();
    vec![
        format!("--kubeconfig={config}"),
        format!("--authentication-kubeconfig={config}"),
        format!("--authorization-kubeconfig={config}"),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        // There is only one.
        "--leader-elect=false".into(),
        "--profiling=false".into(),
    ]
}
