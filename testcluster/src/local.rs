//! The local cluster: what `up`, `down` and `status` do, as a sequence of steps that can each be repeated.

mod build;
mod containerd;
mod credentials;
mod current;
mod daemons;
mod dns;
mod fake;
mod images;
mod ingress;
mod kubelet;
mod layout;
mod leftovers;
mod machine;
mod marker;
mod mode;
mod network;
mod node;
mod packages;
mod plane;
mod registry;
mod tool;
mod ui;

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use testcluster::binaries::{Binaries, Component, Lines, Program, Quiet};

pub(crate) use build::{build_image, push};
pub(crate) use current::check as check_current;
pub(crate) use layout::Layout;
pub(crate) use ui::Ui;

use daemons::Daemons;
use mode::Mode;

/// What a person asks of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// Fake nodes even where a real one is possible.
    pub(crate) fake: bool,
    /// Images that the cluster's registry does not have come from the public ones.
    pub(crate) public_registries: bool,
}

/// Builds Kubernetes' programs if need be, and returns their folder.
pub(crate) fn kube_bin() -> Result<PathBuf> {
    Ok(Binaries::ensure(&[Component::ControlPlane], &mut Lines::stderr())?.dir())
}

/// Brings the cluster up. One that is up stays as it is; of one that is half up, the other half follows.
pub(crate) fn up(layout: &Layout, wish: Wish, ui: &Ui) -> Result<()> {
    marker::claim(&layout.state)?;
    let _lock = lock(layout, ui)?;
    let reason = if wish.fake {
        Some("asked for with --fake")
    } else {
        machine::why_no_node()
    };
    let mode = if reason.is_some() { Mode::Fake } else { Mode::Real };
    if let Some(earlier) = Mode::of(layout).filter(|earlier| *earlier != mode) {
        bail!(
            "the cluster in {} has {} nodes, and this would give it {} ones ({}); end it first: `make cluster-down`",
            layout.state.display(),
            earlier.name(),
            mode.name(),
            reason.unwrap_or("this user may run a real node")
        );
    }
    let mut daemons = Daemons::load(layout);
    daemons.end_strays(layout, mode.daemons());
    if healthy(layout, mode, &daemons) {
        if mode == Mode::Real {
            containerd::mirrors(layout, wish.public_registries)?;
        }
        ui.say(&greeting(layout, mode, reason, "is up already"));
        return Ok(());
    }
    if mode == Mode::Real {
        node::claim(layout)?;
        packages::ensure_node(ui)?;
    }
    let programs = Binaries::ensure(mode.components(), &mut Lines::stderr())?;
    layout.write("mode", mode.name())?;
    credentials::ensure(layout)?;
    match mode {
        Mode::Real => real(layout, wish, &programs, &mut daemons, ui)?,
        Mode::Fake => {
            ui.step("control plane", || plane::up(layout, mode, &programs, &mut daemons))?;
            ui.step("fake nodes", || fake::up(layout, &programs, &mut daemons))?;
        }
    }
    ui.say(&greeting(layout, mode, reason, "is up"));
    Ok(())
}

fn real(layout: &Layout, wish: Wish, programs: &Binaries, daemons: &mut Daemons, ui: &Ui) -> Result<()> {
    let traefik = ingress::ensure(&layout.cache, ui)?;
    // Before the control plane: it advertises the address that this puts on a link of its own.
    ui.step("network, and cleaning up after an earlier node", || {
        node::prepare(layout, daemons)
    })?;
    ui.step("control plane", || plane::up(layout, Mode::Real, programs, daemons))?;
    let filled = images::seed(layout)?;
    let config = registry::configure(layout)?;
    let registry = ["serve".into(), config.display().to_string()];
    ui.step("registry", || {
        // By default it looks for a collector of traces, and complains every few seconds.
        let quiet = [("OTEL_TRACES_EXPORTER", OsStr::new("none"))];
        daemons.ensure("registry", &programs.path(Program::Registry), &registry, &quiet)?;
        daemons.wait("registry", 20, || daemons::answers(registry::ADDRESS))
    })?;
    if !filled {
        images::build(layout, ui)?;
    }
    containerd::mirrors(layout, wish.public_registries)?;
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
            .stdin(include_str!("local/manifests.yaml"))
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
        // The kubelet itself first: after a kill the API server still has its last word, "ready".
        daemons.wait("kubelet", 90, || {
            daemons::answers(kubelet::HEALTH) && node::ready(kubectl()).unwrap_or(false)
        })?;
        // Pods of a namespace wait for it; a person's first command should not.
        daemons.wait("kube-controller-manager", 30, || {
            kubectl()
                .args(["get", "serviceaccount", "default", "--namespace=default"])
                .succeeds()
        })
    })
}

/// Ends the cluster and removes its state.
pub(crate) fn down(layout: &Layout, ui: &Ui) -> Result<()> {
    if !layout.state.exists() && !Path::new(layout::RUN).exists() {
        ui.say("There is no cluster.");
        return Ok(());
    }
    marker::claim(&layout.state)?;
    let _lock = lock(layout, ui)?;
    let mode = Mode::of(layout);
    let mut daemons = Daemons::load(layout);
    ui.step("ending the cluster", || {
        for name in mode
            .unwrap_or(Mode::Fake)
            .daemons()
            .iter()
            .take_while(|name| **name != "kubelet")
        {
            daemons.end(name)?;
        }
        if mode == Some(Mode::Real) || node::owns(layout) {
            node::clear(layout, &mut daemons)?;
        }
        for name in Mode::Real.daemons() {
            daemons.end(name)?;
            daemons.end_strays(layout, &[name]);
        }
        marker::remove(&layout.state)
    })
}

/// Says what runs.
pub(crate) fn status(layout: &Layout) -> Result<String> {
    let Some(mode) = Mode::of(layout) else {
        return Ok("There is no cluster; `make cluster` brings one up.".into());
    };
    let daemons = Daemons::load(layout);
    let state = if healthy(layout, mode, &daemons) {
        "is up"
    } else {
        "is not whole: `make cluster` mends it"
    };
    let mut text = greeting(layout, mode, None, state);
    for (name, pid, alive) in daemons.states() {
        write!(
            text,
            "\n  {name:<24} {}",
            if alive { format!("runs ({pid})") } else { "ended".into() }
        )
        .context("failed to write the status")?;
    }
    Ok(text)
}

/// Tells whether all of the cluster runs and the API server answers.
fn healthy(layout: &Layout, mode: Mode, daemons: &Daemons) -> bool {
    mode.daemons().iter().all(|name| daemons.alive(name))
        && layout.at("pki/complete").exists()
        && Binaries::ensure(&[Component::ControlPlane], &mut Quiet).is_ok_and(|programs| {
            plane::ready(layout, &programs)
                && (mode == Mode::Fake || node::ready(plane::kubectl(layout, &programs)).unwrap_or(false))
        })
}

fn greeting(layout: &Layout, mode: Mode, reason: Option<&str>, state: &str) -> String {
    let nodes = match (mode, reason) {
        (Mode::Real, _) => format!("with a real node; Ingresses answer on http://{}", ingress::ADDRESS),
        (Mode::Fake, Some(reason)) => format!("with fake nodes: pods say that they run, no page answers ({reason})"),
        (Mode::Fake, None) => "with fake nodes: pods say that they run, no page answers".into(),
    };
    format!(
        "The cluster {state}, {nodes}.\n  export KUBECONFIG={}",
        layout.kubeconfig().display()
    )
}

/// Only one command at a time changes a cluster; the kernel gives the lock back even after a kill.
fn lock(layout: &Layout, ui: &Ui) -> Result<File> {
    let path = layout.at(".lock");
    let file = File::create(&path).with_context(|| format!("failed to create {}", path.display()))?;
    if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
        ui.say("Another command is at work on this cluster; waiting for it.");
        file.lock()
            .with_context(|| format!("failed to lock {}", path.display()))?;
    }
    Ok(file)
}
