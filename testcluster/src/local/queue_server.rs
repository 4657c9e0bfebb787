//! A queue service for the pods of the real node.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use testcluster::node::Node;
use testcluster::queue_servers::ElasticMq;

use super::layout::Layout;
use super::network::NODE_IP;
use super::ui::Ui;

/// The usual port of ElasticMQ.
const PORT: u16 = 9324;

/// How often the state of the server is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Becomes a process in the network of the node that runs [`run`].
pub(crate) fn enter(layout: &Layout) -> Result<()> {
    let node = Node::running(&layout.state).context("the node does not run: `make cluster` starts it")?;
    // The network of the node has no way out.
    ElasticMq::install()?;
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let mut nsenter = Command::new("nsenter");
    nsenter
        .arg(format!("--net={}", node.namespace("net").display()))
        .arg("--")
        .arg(program)
        .arg("--state-dir")
        .arg(&layout.state)
        .args(["node", "queue-server"]);
    Err(nsenter.exec()).context("failed to enter the network of the node with nsenter")
}

/// Runs ElasticMQ until it ends. It is stopped with this process.
pub(crate) fn run(ui: &Ui) -> Result<()> {
    let ip: IpAddr = NODE_IP.parse().context("the node's address is invalid")?;
    let mut server = ElasticMq::start_at(SocketAddr::new(ip, PORT))?;
    ui.say(&format!(
        "ElasticMQ listens on {} for the pods of the cluster; Ctrl-C stops it.",
        server.url()
    ));
    loop {
        let exited = server.process().exited();
        if let Some(status) = exited.context("failed to read the state of ElasticMQ")? {
            bail!("ElasticMQ has ended with {status}:\n{}", server.process().log_tail(20));
        }
        thread::sleep(POLL_INTERVAL);
    }
}
