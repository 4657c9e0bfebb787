//! The cluster's programs in the node: this part of `up` and `status` runs in the node's namespaces.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use testcluster::binaries::{Binaries, Program, Quiet};

use super::daemons::{self, Daemons};
use super::layout::Layout;
use super::mode::Mode;
use super::ui::Ui;
use super::{dns, ingress, kubelet, node, plane, registry};

/// Starts missing programs, and returns when the node is ready.
pub(crate) fn up(layout: &Layout, ui: &Ui) -> Result<()> {
    let programs = &programs()?;
    let traefik = ingress::path(&layout.cache);
    let daemons = &mut Daemons::load(layout);
    ui.step("control plane", || plane::up(layout, Mode::Real, programs, daemons))?;
    let this = std::env::current_exe().context("failed to find this program")?;
    let state = layout.state.display().to_string();
    let store = layout.at("registry").display().to_string();
    let port = registry::PORT.to_string();
    let words = [
        "--state-dir",
        &state,
        "node",
        "registry",
        "--store",
        &store,
        "--port",
        &port,
    ]
    .map(String::from);
    daemons.ensure("registry", &this, &words, &[])?;
    daemons.wait("registry", 20, || daemons::answers(registry::ADDRESS))?;
    ui.step("node", || node::up(layout, programs, daemons))?;
    let kubectl = || plane::kubectl(layout, programs);
    ui.step("cluster DNS and ingress", || {
        kubectl()
            .args([
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager=local-cluster",
                "-f",
                "-",
            ])
            .stdin(include_str!("manifests.yaml"))
            .run()?;
        let corefile = dns::configure(layout)?;
        let corefile = ["-conf".into(), corefile.display().to_string()];
        daemons.ensure("coredns", &programs.path(Program::CoreDns), &corefile, &[])?;
        let config = layout.at("traefik.kubeconfig");
        let settings = [format!("--configfile={}", ingress::configure(layout)?.display())];
        daemons.ensure("traefik", &traefik, &settings, &[("KUBECONFIG", config.as_os_str())])?;
        daemons.wait("coredns", 20, || daemons::answers(dns::ADDRESS))?;
        daemons.wait("traefik", 30, || {
            daemons::answers(ingress::PING) && daemons::answers(ingress::ADDRESS)
        })
    })?;
    ui.step("node is ready", || {
        // The kubelet itself first: after a kill the API server still has its last report, "ready".
        daemons.wait("kubelet", 90, || {
            daemons::answers(kubelet::HEALTH) && node::ready(kubectl()).unwrap_or(false)
        })?;
        // Pods of a namespace wait for it; a user's first command should not.
        daemons.wait("kube-controller-manager", 30, || {
            kubectl()
                .args(["get", "serviceaccount", "default", "--namespace=default"])
                .succeeds()
        })
    })
}

/// Returns the state of each program, one line each.
pub(crate) fn status(layout: &Layout) -> Result<String> {
    let mut text = String::new();
    for (name, pid, alive) in Daemons::load(layout).states() {
        let state = if alive { format!("runs ({pid})") } else { "ended".into() };
        writeln!(text, "  {name:<24} {state}").context("failed to write the status")?;
    }
    Ok(text.trim_end().to_owned())
}

/// Fails unless all programs run, the API server answers, and the node is ready.
pub(crate) fn check(layout: &Layout) -> Result<()> {
    let daemons = Daemons::load(layout);
    if let Some(name) = Mode::Real.daemons().iter().find(|name| !daemons.alive(name)) {
        bail!("{name} does not run");
    }
    let programs = programs()?;
    if !plane::ready(layout, &programs) || !node::ready(plane::kubectl(layout, &programs)).unwrap_or(false) {
        bail!("the node is not ready");
    }
    Ok(())
}

/// Finds the programs, which were built on the host.
fn programs() -> Result<Binaries> {
    Ok(Binaries::ensure(Mode::Real.components(), &mut Quiet)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn containerd_finds_the_shim_of_its_own_folder_before_that_of_the_system() {
        let own = tempfile::tempdir().unwrap();
        // Every system has an `env`, and one with Docker has a shim.
        for name in ["containerd", "env"] {
            let file = own.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let find = |name: &str| {
            let output = Command::new("/bin/sh")
                .args(["-c", "command -v \"$0\"", name])
                .env("PATH", node::path_with(&own.path().join("containerd")))
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        assert_eq!(find("env"), own.path().join("env").display().to_string());
        // Other programs, such as runc and mount, are the system's.
        assert!(find("ls").ends_with("/bin/ls"), "{}", find("ls"));
    }
}
