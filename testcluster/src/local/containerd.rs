//! containerd and the pods' network plugin.

use anyhow::{Context, Result};
use serde_json::json;

use super::layout::{self, Layout};
use super::network::POD_CIDR;
use super::{images, preflight, registry, tool};

/// The name of the pods' network.
const NETWORK: &str = "appdeploy";

/// Writes the configuration and returns its path.
pub(crate) fn configure(layout: &Layout) -> Result<std::path::PathBuf> {
    network(layout)?;
    let runc = tool::find("runc").context("runc is missing: `apt-get install runc`")?;
    let text = format!(
        r#"version = 3
root = "{root}"
state = "{state}"
oom_score = 0
# Not needed by the kubelet; each would wait for something or write elsewhere.
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "{mirrors}"

[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE runc dies with "failed to update /proc/self/oom_score_adj".
  restrict_oom_score_adj = {restrict}
  # A profile would be loaded into the kernel of the host.
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    use_internal_loopback = true
    bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
    # For containerd 2.0, which APPDEPLOY_KUBE_BIN may name.
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        Root = "{runc_root}"
        SystemdCgroup = false
"#,
        root = layout.at("containerd/root").display(),
        state = layout::run("containerd").display(),
        socket = socket().display(),
        opt = layout.at("containerd/opt").display(),
        pause = images::PAUSE,
        mirrors = layout.at("containerd/mirrors").display(),
        restrict = !preflight::may_lower_oom_score(),
        cni = layout.at("cni").display(),
        runc = runc.display(),
        runc_root = layout::run("runc").display(),
    );
    layout.write("containerd/config.toml", &text)
}

/// Returns containerd's socket.
pub(crate) fn socket() -> std::path::PathBuf {
    layout::run("containerd.sock")
}

/// Makes the cluster's own registry the mirror of every public one; containerd reads this at each pull. `server` is the
/// fallback if no mirror has the image: without `public` the same registry again, so that a missing image is "not found"
/// immediately instead of a timeout.
pub(crate) fn mirrors(layout: &Layout, public: bool) -> Result<()> {
    let address = registry::ADDRESS;
    let server = if public {
        String::new()
    } else {
        format!("server = \"http://{address}\"\n\n")
    };
    let text = format!("{server}[host.\"http://{address}\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
    for host in ["_default", "docker.io"] {
        layout.write(&format!("containerd/mirrors/{host}/hosts.toml"), &text)?;
    }
    Ok(())
}

/// ptp, not bridge: packets between pods are routed, so that replies to a Service's address find their way back without
/// the kernel's bridge filter. There is no masquerading: pods reach pods, Services and the node.
fn network(layout: &Layout) -> Result<()> {
    let config = json!({
        "cniVersion": "1.0.0",
        "name": NETWORK,
        "plugins": [{
            "type": "ptp",
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "dataDir": layout::run("cni"),
                "ranges": [[{ "subnet": POD_CIDR }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    });
    layout.write("cni/10-pods.conflist", &format!("{config:#}\n")).map(drop)
}
