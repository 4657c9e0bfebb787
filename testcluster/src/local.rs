//! The local cluster: `up`, `down` and `status`, as a sequence of idempotent steps.

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, unused_imports, reason = "without Linux there are only fake nodes")
)]

mod build;
mod cache;
mod credentials;
mod current;
mod daemons;
mod fake;
mod layout;
mod marker;
mod mode;
mod network;
mod packages;
mod plane;
mod preflight;
mod registry;
mod tool;
mod ui;

#[cfg(target_os = "linux")]
mod containerd;
#[cfg(target_os = "linux")]
mod dns;
#[cfg(target_os = "linux")]
mod images;
#[cfg(target_os = "linux")]
mod ingress;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod kubelet;
#[cfg(target_os = "linux")]
mod node;
#[cfg(target_os = "linux")]
pub(crate) mod queue_server;
#[cfg(target_os = "linux")]
mod real;
#[cfg(target_os = "linux")]
mod sandbox;

use std::fmt::Write;
use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use testcluster::binaries::{Binaries, Component, Lines, Program, Quiet};
use testcluster::consent::{Unattended, ask};

#[cfg(target_os = "linux")]
pub(crate) use build::pack_image;
pub(crate) use build::{build_image, push};
pub(crate) use cache::clean as clean_cache;
pub(crate) use current::check as check_current;
pub(crate) use layout::Layout;
pub(crate) use ui::Ui;

use daemons::Daemons;
use mode::Mode;

/// The options of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// Use fake nodes even if a real one is possible.
    pub(crate) fake: bool,
    /// Pull images from public registries if the cluster's own does not have them.
    pub(crate) public_registries: bool,
}

/// Builds Kubernetes' programs if needed, and returns their folder.
pub(crate) fn kube_bin(oldest: bool) -> Result<PathBuf> {
    let (component, program) = if oldest {
        (Component::Oldest, Program::OldestApiserver)
    } else {
        (Component::ControlPlane, Program::Kubectl)
    };
    Ok(Binaries::ensure(&[component], &mut Lines::stderr())?.dir(program))
}

/// Starts the cluster. A running one is not changed; of a partly running one, the rest is started.
pub(crate) fn up(layout: &Layout, wish: Wish, ui: &Ui) -> Result<()> {
    marker::claim(&layout.state)?;
    let _lock = lock(layout, ui)?;
    if let Some(mode) = Mode::of(layout).filter(|mode| healthy(layout, *mode)) {
        if wish.fake && mode == Mode::Real {
            bail!("{}", other_nodes(layout, mode, Mode::Fake, "asked for with --fake"));
        }
        #[cfg(target_os = "linux")]
        if mode == Mode::Real {
            real::mirrors(layout, wish)?;
        }
        ui.say(&greeting(layout, mode, None, "is up already"));
        return Ok(());
    }
    // Ports of this cluster are not those of other programs.
    let before = Mode::of(layout);
    let mut facts = preflight::gather(layout, wish.fake);
    if before == Some(Mode::Fake) && Daemons::load(layout).states().any(|(_, _, alive)| alive) {
        facts.busy.clear();
    }
    let plan = facts.plan().map_err(anyhow::Error::msg)?;
    let reason = plan.fake.as_deref();
    let mode = if reason.is_some() { Mode::Fake } else { Mode::Real };
    if let Some(earlier) = before.filter(|earlier| *earlier != mode) {
        bail!(
            "{}",
            other_nodes(layout, earlier, mode, reason.unwrap_or("this user may run a real node"))
        );
    }
    if plan.ask || reason.is_some() {
        ui.say("The local cluster:");
        for line in plan.lines.iter().flat_map(|text| text.lines()) {
            ui.say(&format!("  {line}"));
        }
    }
    if plan.ask && !ask("Continue?", Unattended::Continue)? {
        bail!("nothing was changed");
    }
    match mode {
        #[cfg(target_os = "linux")]
        Mode::Real => real::up(layout, wish, ui)?,
        _ => fake(layout, ui)?,
    }
    ui.say(&greeting(layout, mode, reason, "is up"));
    Ok(())
}

fn other_nodes(layout: &Layout, earlier: Mode, now: Mode, reason: &str) -> String {
    format!(
        "the cluster in {} has {} nodes, and this would give it {} ones ({reason}); end it first: `make cluster-down`",
        layout.state.display(),
        earlier.name(),
        now.name(),
    )
}

fn fake(layout: &Layout, ui: &Ui) -> Result<()> {
    let first = layout.cache.join(preflight::FAKE);
    fs::write(&first, layout.state.display().to_string())
        .with_context(|| format!("failed to write {}", first.display()))?;
    let programs = Binaries::ensure(Mode::Fake.components(), &mut Lines::stderr())?;
    layout.write("mode", Mode::Fake.name())?;
    credentials::ensure(layout)?;
    credentials::write_kubeconfig(layout, network::API_PORT)?;
    let mut daemons = Daemons::load(layout);
    ui.step("control plane", || {
        plane::up(layout, Mode::Fake, &programs, &mut daemons)
    })?;
    ui.step("fake nodes", || fake::up(layout, &programs, &mut daemons))
}

/// Stops the cluster and removes its state.
pub(crate) fn down(layout: &Layout, ui: &Ui) -> Result<()> {
    if !layout.state.exists() {
        ui.say("There is no cluster.");
        return Ok(());
    }
    marker::claim(&layout.state)?;
    let _lock = lock(layout, ui)?;
    ui.step("ending the cluster", || {
        #[cfg(target_os = "linux")]
        if Mode::of(layout) == Some(Mode::Real) {
            return if nix::unistd::Uid::effective().is_root() {
                real::end(layout)
            } else {
                real::as_root(layout, &["node", "end"])
            };
        }
        let mut daemons = Daemons::load(layout);
        for name in Mode::Fake.daemons() {
            daemons.end(name)?;
        }
        marker::remove(&layout.state)
    })
}

/// Returns what runs.
pub(crate) fn status(layout: &Layout) -> Result<String> {
    let Some(mode) = Mode::of(layout) else {
        return Ok("There is no cluster; `make cluster` brings one up.".into());
    };
    let state = if healthy(layout, mode) {
        "is up"
    } else {
        "is not whole: `make cluster` repairs it"
    };
    let mut text = greeting(layout, mode, None, state);
    if mode == Mode::Fake {
        for (name, pid, alive) in Daemons::load(layout).states() {
            let state = if alive { format!("runs ({pid})") } else { "ended".into() };
            write!(text, "\n  {name:<24} {state}").context("failed to write the status")?;
        }
    }
    Ok(text)
}

/// Prints the state of the programs in the node, if there is one.
#[cfg(target_os = "linux")]
pub(crate) fn node_status(layout: &Layout) -> Result<()> {
    let root = nix::unistd::Uid::effective().is_root();
    if let Some(node) = testcluster::node::Node::running(&layout.state).filter(|_| root) {
        sandbox::run(layout, &node, &["status"])?;
    }
    Ok(())
}

/// Returns whether all of the cluster runs and the API server answers.
fn healthy(layout: &Layout, mode: Mode) -> bool {
    match mode {
        #[cfg(target_os = "linux")]
        Mode::Real => real::healthy(layout),
        _ => {
            let daemons = Daemons::load(layout);
            mode.daemons().iter().all(|name| daemons.alive(name))
                && Binaries::ensure(&[Component::ControlPlane], &mut Quiet)
                    .is_ok_and(|programs| plane::ready(layout, &programs))
        }
    }
}

/// Runs a part of the node: called by `up`, not by people.
#[cfg(target_os = "linux")]
pub(crate) mod parts {
    pub(crate) use super::inside::{check, status, up};
    pub(crate) use super::real::{end, start};
    pub(crate) use super::registry::run as registry;
    pub(crate) use super::sandbox::{enter, init, supervise, unshare};
}

fn greeting(layout: &Layout, mode: Mode, reason: Option<&str>, state: &str) -> String {
    let nodes = match (mode, reason) {
        (Mode::Real, _) => {
            let address = fs::read_to_string(layout.at("ingress")).unwrap_or_default();
            format!("with a real node; Ingresses answer on http://{address}")
        }
        (Mode::Fake, Some(reason)) => format!("with fake nodes: pods say that they run, no page answers ({reason})"),
        (Mode::Fake, None) => "with fake nodes: pods say that they run, no page answers".into(),
    };
    format!(
        "The cluster {state}, {nodes}.\n  export KUBECONFIG={}",
        layout.kubeconfig().display()
    )
}

/// Only one command at a time changes a cluster; the kernel releases the lock even after a kill.
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
