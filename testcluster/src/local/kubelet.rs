//! The kubelet's and kube-proxy's configuration.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use super::layout::Layout;
use super::network::{NODE, NODE_IP, POD_CIDR};
use super::{containerd, preflight};

/// The address of the kubelet's health check.
pub(crate) const HEALTH: &str = "10.213.0.1:10248";

/// Writes the kubelet's configuration and returns its path. JSON is YAML.
pub(crate) fn configure(layout: &Layout) -> Result<PathBuf> {
    write(layout, "kubelet/config.yaml", &kubelet(layout))
}

/// Writes kube-proxy's configuration and returns its path.
pub(crate) fn configure_proxy(layout: &Layout) -> Result<PathBuf> {
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": NODE,
        "bindAddress": NODE_IP,
        "healthzBindAddress": format!("{NODE_IP}:10256"),
        "metricsBindAddress": format!("{NODE_IP}:10249"),
        // These limits are the machine's, and can't be changed from here.
        "conntrack": { "maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
        "oomScoreAdj": 0,
        "clientConnection": { "kubeconfig": layout.at("kube-proxy.kubeconfig") },
    });
    write(layout, "kube-proxy.yaml", &config)
}

fn kubelet(layout: &Layout) -> Value {
    let pki = |name: &str| layout.at("pki").join(name);
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_IP,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": pki("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": pki("kubelet-serving.crt"),
        "tlsPrivateKeyFile": pki("kubelet-serving.key"),
        "healthzBindAddress": NODE_IP,
        "containerRuntimeEndpoint": format!("unix://{}", containerd::socket().display()),
        "clusterDomain": "cluster.local",
        "clusterDNS": [NODE_IP],
        "podLogsDir": layout.at("kubelet/logs"),
        "volumePluginDir": layout.at("kubelet/volume-plugins"),
        "cgroupDriver": "cgroupfs",
        // The root of the node's own cgroup namespace.
        "cgroupRoot": "/",
        // cgroup v1 is still used on many machines, and is sufficient here.
        "failCgroupV1": false,
        "failSwapOn": false,
        // A full disk of the user's machine must not evict the demo.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "100Mi", "imagefs.available": "100Mi",
            "nodefs.inodesFree": "1%", "imagefs.inodesFree": "1%" },
        "imageGCHighThresholdPercent": 100,
        // No iptables: kube-proxy uses nft.
        "makeIPTablesUtilChains": false,
        // Lowering it needs CAP_SYS_RESOURCE.
        "oomScoreAdj": if preflight::may_lower_oom_score() { -999 } else { 0 },
        // So that a node reports within a second that it is ready.
        "syncFrequency": "10s",
        "fileCheckFrequency": "0s",
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "1m",
        "shutdownGracePeriod": "0s",
    })
}

/// Returns kubelet's arguments.
pub(crate) fn arguments(layout: &Layout) -> Vec<String> {
    vec![
        format!("--config={}", layout.at("kubelet/config.yaml").display()),
        format!("--root-dir={}", layout.at("kubelet/root").display()),
        format!("--kubeconfig={}", layout.at("kubelet.kubeconfig").display()),
        format!("--node-ip={NODE_IP}"),
        format!("--hostname-override={NODE}"),
        "--v=1".into(),
    ]
}

fn write(layout: &Layout, name: &str, config: &Value) -> Result<PathBuf> {
    layout.write(name, &format!("{config:#}\n"))
}
