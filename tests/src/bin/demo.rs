//! `make demo`: from nothing to a page that answers.

use std::io::Write as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use testcluster::process::Process;
use tests::cluster::{operator_image, testcluster};
use tests::{Checkout, Cluster, Shell, page};

/// The demo's application.
const APP: &str = "nginx";
/// Where the local cluster's ingress controller answers.
const INGRESS: &str = "127.0.0.1:8080";

/// Brings a cluster up, installs AppDeploy, runs an nginx and shows its page.
#[derive(Debug, Parser)]
struct Args {
    /// The cluster to use.
    #[arg(long, value_enum, default_value_t = Which::Local)]
    cluster: Which,
    /// The operator's image. For the local cluster it is built from this checkout if need be.
    #[arg(long)]
    image: Option<String>,
    /// The namespace of the demo's application.
    #[arg(long, default_value = "default")]
    namespace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    Local,
    Current,
}

fn main() -> ExitCode {
    match demo(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the exit code still tells.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo(args: &Args) -> Result<()> {
    let checkout = Checkout::find()?;
    let cluster = Cluster::up(&checkout, args.cluster == Which::Current)?;
    let shell = Shell::new(&checkout, cluster)?;
    // On fake nodes a pod of the operator would only say that it runs: the operator runs here, until the demo ends.
    let _operator = match cluster {
        Cluster::Fake => Some(run_outside(&checkout, &shell)?),
        Cluster::Real | Cluster::Current => {
            install(&checkout, &shell, cluster, args.image.as_deref())?;
            None
        }
    };
    create(&shell, &args.namespace)?;
    let shown = show_page(&shell, cluster, &args.namespace);
    shell.show(&format!("kubectl appdeploy status{}", flag(&args.namespace)))?;
    if let Some(reason) = shown? {
        say(&format!("\nThere is no page to show: {reason}."))?;
    }
    say(&hints(&checkout, cluster, &args.namespace))
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("failed to print")
}

/// Returns the flag for a namespace that is not the usual one.
fn flag(namespace: &str) -> String {
    if namespace == "default" {
        String::new()
    } else {
        format!(" --namespace {namespace}")
    }
}

fn install(checkout: &Checkout, shell: &Shell, cluster: Cluster, image: Option<&str>) -> Result<()> {
    if let (Cluster::Real, Some(image)) = (cluster, image)
        && operator_image(shell).as_deref() != Some(image)
    {
        testcluster(checkout, &["build-image", image])?;
    }
    let image = image.map(|image| format!(" --image {image}")).unwrap_or_default();
    shell.show(&format!("kubectl appdeploy install{image}"))
}

fn run_outside(checkout: &Checkout, shell: &Shell) -> Result<Process> {
    shell.show("kubectl apply --server-side --field-manager=kubectl-appdeploy --kustomize config/crd")?;
    say("\n$ appdeploy-operator --bind 127.0.0.1:8081 &")?;
    let mut command = Command::new(checkout.program("appdeploy-operator"));
    command
        .args(["--bind", "127.0.0.1:8081"])
        .env("KUBECONFIG", checkout.kubeconfig());
    Process::spawn(&command, &checkout.state().join("logs/operator.log")).context("failed to run the operator")
}

/// Creates the application, or waits for the one of an earlier demo.
fn create(shell: &Shell, namespace: &str) -> Result<()> {
    let there = shell.run(&format!(
        "kubectl get appdeploy {APP} --namespace {namespace} --ignore-not-found --output name"
    ))?;
    let flag = flag(namespace);
    if there.trim().is_empty() {
        shell.show(&format!(
            "kubectl appdeploy create {APP} --image nginx --port 80 --wait{flag}"
        ))
    } else {
        shell.show(&format!(
            "kubectl wait appdeploy/{APP} --for=condition=Ready --timeout=2m{flag}"
        ))
    }
}

/// Shows the page, or returns why there is none.
fn show_page(shell: &Shell, cluster: Cluster, namespace: &str) -> Result<Option<String>> {
    let address = match cluster {
        Cluster::Fake => {
            return Ok(Some(
                "the nodes are fake, so nothing runs in the pods. As root on Linux, `make cluster-down demo` has a real one"
                    .into(),
            ));
        }
        Cluster::Real => INGRESS.to_owned(),
        Cluster::Current => {
            let address = shell.run(&format!(
                "kubectl get appdeploy {APP} --namespace {namespace} --output jsonpath='{{.status.address}}'"
            ))?;
            if address.is_empty() {
                return Ok(Some(
                    "no ingress controller of this cluster has published an address for it".into(),
                ));
            }
            format!("{address}:80")
        }
    };
    let host = format!("{APP}.{namespace}");
    say(&format!("\n$ curl --header 'Host: {host}' http://{address}/"))?;
    let html = match cluster {
        // The address of somebody's own cluster need not be reachable from here.
        Cluster::Current => match page::get(&address, &host, Duration::from_secs(5)) {
            Ok(html) => html,
            Err(error) => return Ok(Some(format!("{error:#}"))),
        },
        Cluster::Real | Cluster::Fake => page::get(&address, &host, Duration::from_secs(30))?,
    };
    say(&page::text(&html).join("\n"))?;
    Ok(None)
}

fn hints(checkout: &Checkout, cluster: Cluster, namespace: &str) -> String {
    let flag = flag(namespace);
    let outside = if cluster == Cluster::Fake {
        ", with the operator in another terminal (`make run`)"
    } else {
        ""
    };
    // On a fake node every image can be pulled.
    let third = if cluster == Cluster::Fake {
        format!("kubectl appdeploy status {APP}{flag}")
    } else {
        format!("kubectl appdeploy create oops --image nginx:no-such-tag --port 80 --wait{flag}")
    };
    let environment = if cluster == Cluster::Current {
        format!("PATH={}:$PATH", checkout.built().display())
    } else {
        format!(
            "KUBECONFIG={} PATH={}:$PATH",
            checkout.kubeconfig().display(),
            checkout.bin().display()
        )
    };
    let ends = if cluster == Cluster::Current {
        "the app, the operator and its CRDs"
    } else {
        "all of it, the cluster included"
    };
    format!(
        "\nThree commands to try next{outside}:\n
  export {environment}
  kubectl appdeploy scale {APP} --replicas 3{flag}
  kubectl appdeploy describe {APP}{flag}
  {third}

`make demo-down` ends {ends}."
    )
}
