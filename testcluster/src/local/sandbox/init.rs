//! The process that creates the namespaces, and the first process in them.

use std::io::{BufRead, Write};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::sethostname;

use super::{command, root};
use crate::local::layout::Layout;
use crate::local::network;

/// Starts `testcluster node unshare`.
pub(super) fn spawn(layout: &Layout) -> Result<Child> {
    command(layout, &["unshare"])?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start testcluster")
}

/// Creates the namespaces, starts the first process in them, and waits for its end.
pub(crate) fn unshare(layout: &Layout) -> Result<()> {
    die_with_parent()?;
    wait_for_line()?;
    let flags = CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    nix::sched::unshare(flags).context("failed to create namespaces")?;
    say("unshared")?;
    wait_for_line()?;
    let mut init = command(layout, &["init"])?
        .stdin(Stdio::null())
        .spawn()
        .context("failed to start testcluster in the namespaces")?;
    say(&format!("init {}", init.id()))?;
    let status = init.wait().context("failed to wait for the node")?;
    if !status.success() {
        bail!("the node has ended with {status}");
    }
    Ok(())
}

/// Prepares the node's file system and network, then reaps the processes that nothing else waits for.
pub(crate) fn init(layout: &Layout) -> Result<()> {
    die_with_parent()?;
    if std::process::id() != 1 {
        bail!("this runs only as the first process of a namespace");
    }
    root::build(layout)?;
    sethostname(network::NODE).context("failed to set the host name")?;
    network::up()?;
    say("ready")?;
    reap()
}

/// Makes the kernel kill this process when its parent ends.
fn die_with_parent() -> Result<()> {
    set_pdeathsig(Signal::SIGKILL).context("failed to be tied to the parent process")
}

fn wait_for_line() -> Result<()> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    if read.context("failed to read")? == 0 {
        bail!("the supervisor has ended");
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("the supervisor has ended")
}

fn reap() -> Result<()> {
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().context("failed to wait for signals")?;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => {
                children.wait().context("failed to wait for signals")?;
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("failed to wait for processes"),
        }
    }
}
