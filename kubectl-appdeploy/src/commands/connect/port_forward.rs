//! `kubectl appdeploy port-forward`: forwards a local port to a ready pod.

mod ports;

use std::net::{IpAddr, SocketAddr};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use model::command;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::known::ObjectCache;
use crate::cluster::watch::{self, Connection, Watched};
use crate::commands::connect::target;
use crate::error::{Error, Result, system_error};
use crate::resource::children::is_pod_of;
use crate::resource::workload::Workload;
use crate::resource::{pod, selection};
use crate::terminal::ui::Ui;

use ports::Ports;

const EXAMPLES: &str = "\
Examples:
  # Forward to the port of {an}; if it is 80, listen on 8080
  {command} port-forward {name}

  # Listen on the same port, or on another one
  {command} port-forward {name} 9090
  {command} port-forward {name} 9000:9090

  # Listen on a free port, on all addresses
  {command} port-forward {name} :80 --address=0.0.0.0

A ready pod is chosen for each new connection, so forwarding continues through
a rollout. Ctrl-C ends it.";

/// The flags of `port-forward`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of {an}
    #[arg(value_name = "NAME")]
    name: String,
    /// PORT, LOCAL:REMOTE, or :REMOTE for a free local port; default: the port of the {one}
    #[arg(value_name = "PORTS", value_parser = ports::parse)]
    ports: Option<Ports>,
    /// Local address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
    /// Pod to forward to; default: a ready pod, chosen for each connection
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
}

/// Runs the command.
pub async fn run(args: Args, kind: crd::Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(kind);
    let name = selection::name(kind, &args.name)?;
    let object = cluster.get(name).await?;
    let workload = Workload::read(kind, &object);
    let ports = match (args.ports, workload.pod().container.port) {
        (Some(ports), _) => ports,
        (None, Some(port)) => Ports::unnamed(u16::try_from(port).unwrap_or_default()),
        (None, None) => {
            let words = cluster.kind_info();
            return Err(Error::usage(format!("{name} has no port"))
                .why("give the port of its pods")
                .next(words.verb("port-forward", name).and("8080").and(cluster.flag())));
        }
    };
    // Errors are reported before anything listens.
    let pods = target::pods(&cluster, &workload).await?;
    if target::choose(&pods, args.pod.as_deref()).is_none() {
        return Err(target::no_pod(&cluster, &workload, &pods, args.pod.as_deref()));
    }
    let listener = listen(&args, ports, &cluster).await?;
    let here = listener
        .local_addr()
        .map_err(|source| Error::failed(source.to_string()))?;
    ui.print(&format!("Forwarding from {here} -> {}", ports.remote))?;
    forward(&args, &cluster, &workload, &listener, ports.remote, ui).await
}

async fn listen(args: &Args, ports: Ports, cluster: &Cluster) -> Result<TcpListener> {
    let address = SocketAddr::new(args.address, ports.local);
    TcpListener::bind(address).await.map_err(|source| {
        let next = cluster
            .kind_info()
            .verb("port-forward", &args.name)
            .and(command!(":{}", ports.remote))
            .and(cluster.flag())
            .remark("listens on a free port");
        Error::failed(format!("cannot listen on {address}"))
            .why(source.to_string())
            .next(next)
    })
}

/// Forwards each connection to a pod, until Ctrl-C.
async fn forward(
    args: &Args,
    cluster: &Cluster,
    workload: &Workload,
    listener: &TcpListener,
    port: u16,
    ui: &mut Ui,
) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let config = watcher::Config::default().labels(&workload.kind().pod_selector(workload.name()));
    let mut news = Watched::new(
        watch::follow_all(cluster, api.clone(), config),
        Connection::first(false),
    );
    let mut known = ObjectCache::<Pod>::default();
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            event = news.next(ui) => match event? {
                Some(event) => drop(known.take(event)),
                None => return Ok(()),
            },
            // Connections wait in the backlog until the pods are known.
            accepted = listener.accept(), if known.is_complete() => {
                let (stream, _) = accepted.map_err(|source| {
                    Error::failed(format!("cannot accept a connection: {}", system_error(&source)))
                })?;
                let pods: Vec<Pod> = known.all().filter(|pod| is_pod_of(pod, workload)).cloned().collect();
                match target::choose(&pods, args.pod.as_deref()).filter(|one| args.pod.is_some() || pod::is_ready(one)) {
                    Some(pod) => open.push(Box::pin(lead(api.clone(), pod.name_any(), port, stream))),
                    None => ui.warn(&format!("a connection was closed: no pod of {} is ready", workload.name())),
                }
            }
            Some(failure) = open.next(), if !open.is_empty() => if let Some(why) = failure {
                ui.warn(&why);
            },
        }
    }
}

/// Carries one connection to its end. Returns why it failed.
async fn lead(api: Api<Pod>, pod: String, port: u16, mut here: TcpStream) -> Option<String> {
    let failed = |why: String| Some(format!("a connection to {pod} failed: {why}"));
    let mut forwarder = match api.portforward(&pod, &[port]).await {
        Ok(forwarder) => forwarder,
        Err(source) => return failed(source.to_string()),
    };
    let error = forwarder.take_error(port);
    let mut there = forwarder.take_stream(port)?;
    // Either side may end a connection as it likes.
    let _ = copy_bidirectional(&mut here, &mut there).await;
    drop(there);
    // The API server reports an error before it closes the connection, or not at all.
    forwarder.abort();
    let why = match error {
        Some(error) => error.await,
        None => None,
    };
    why.and_then(|why| failed(why.trim().to_owned()))
}
