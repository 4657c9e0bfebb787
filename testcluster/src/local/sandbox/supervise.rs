//! The supervisor: the only part of the node that stays on the host.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, ChildStdin};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use testcluster::node::{FILE, Node};
use testcluster::process::Record;

use super::cgroups::{self, Groups};
use super::{cgroup_name, forward, init, proxy};
use crate::local::layout::Layout;
use crate::local::network::API_PORT;
use crate::local::{ingress, marker};

/// How often the state folder and the node are checked.
const INTERVAL: Duration = Duration::from_millis(200);

/// Creates the node's namespaces, forwards the host's ports into them, and returns when the node has ended.
pub(crate) fn supervise(layout: &Layout) -> Result<()> {
    let before = Node::read(&layout.state);
    let api = listen(before.as_ref().map_or(API_PORT, |node| node.api_port))?;
    let ingress = listen(before.as_ref().map_or(ingress::PORT, |node| node.ingress_port))?;
    let groups = cgroups::create(&cgroup_name(&layout.state))?;
    let outcome = run(layout, &groups, api, ingress);
    // The processes of the node end a moment after its first one.
    let removed = cgroups::remove(&groups.groups);
    let _ = std::fs::remove_file(layout.at(FILE));
    outcome.and(removed)
}

fn run(layout: &Layout, groups: &Groups, api: TcpListener, ingress: TcpListener) -> Result<()> {
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    let (api_port, ingress_port) = (port(&api)?, port(&ingress)?);
    let mut unshared = init::spawn(layout)?;
    let init = match prepare(&mut unshared, groups) {
        Ok(init) => init,
        Err(error) => {
            let _ = unshared.kill();
            let _ = unshared.wait();
            return Err(error);
        }
    };
    let node = Node {
        supervisor: Record::of(std::process::id()),
        init: Record::of(init),
        api_port,
        ingress_port,
        cgroups: groups.groups.clone(),
        entrances: groups.entrances.clone(),
    };
    let network = node.namespace("net");
    let network = File::open(&network).with_context(|| format!("failed to open {}", network.display()))?;
    let network = Arc::new(network);
    forward::into(api, Arc::clone(&network), API_PORT);
    forward::into(ingress, Arc::clone(&network), ingress::PORT);
    proxy::start(&node)?;
    save(layout, &node)?;
    // The cluster ends when its state folder is deleted (`cargo clean`).
    while marker::has(&layout.state) {
        if unshared.try_wait().context("failed to wait for the node")?.is_some() {
            return Ok(());
        }
        thread::sleep(INTERVAL);
    }
    let _ = unshared.kill();
    unshared.wait().context("failed to wait for the node")?;
    Ok(())
}

/// Moves the process that creates the namespaces into the node's cgroups, and returns the id of the node's first process.
fn prepare(unshared: &mut Child, groups: &Groups) -> Result<u32> {
    let mut words = BufReader::new(unshared.stdout.take().context("no output")?);
    let mut input = unshared.stdin.take().context("no input")?;
    // The namespace's root is the node's group; the processes are in the one below.
    cgroups::join(&groups.groups, unshared.id())
        .or_else(|error| if cgroups::unified() { Ok(()) } else { Err(error) })?;
    proceed(&mut input)?;
    expect(&mut words, "unshared")?;
    cgroups::join(&groups.entrances, unshared.id())?;
    proceed(&mut input)?;
    // Two processes write these lines, in any order.
    let (mut id, mut ready) = (None, false);
    while id.is_none() || !ready {
        let line = expect(&mut words, "")?;
        ready |= line == "ready";
        id = id.or_else(|| line.strip_prefix("init ")?.parse().ok());
    }
    id.context("no process id")
}

fn proceed(input: &mut ChildStdin) -> Result<()> {
    writeln!(input).context("the node has ended")
}

/// Reads the next line, and returns the text after `start`.
fn expect(words: &mut impl BufRead, start: &str) -> Result<String> {
    let mut line = String::new();
    if words.read_line(&mut line).context("failed to read from the node")? == 0 {
        bail!("the node has ended");
    }
    match line.trim_end().strip_prefix(start) {
        Some(rest) => Ok(rest.to_owned()),
        None => bail!("the node could not be prepared"),
    }
}

/// Written under another name and renamed: readers never see an incomplete file.
fn save(layout: &Layout, node: &Node) -> Result<()> {
    let text = serde_json::to_string_pretty(node).context("failed to describe the node")?;
    let new = layout.write("node.new", &text)?;
    std::fs::rename(&new, layout.at(FILE)).context("failed to describe the node")
}

/// Listens on a port of 127.0.0.1, or on another one that is free.
fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .or_else(|_| TcpListener::bind(testcluster::port::free_address()))
        .context("failed to listen on 127.0.0.1")
}
