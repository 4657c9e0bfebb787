//! `make demo`: from a cluster to a page.

mod page;
mod removal;

use std::io::Write as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use testcluster::checkout::cluster::{ingress, operator_image, pack_operator, testcluster};
use testcluster::checkout::{Checkout, Cluster, Shell};
use testcluster::http;
use testcluster::port::free_address;
use testcluster::process::Process;

use removal::{ANNOTATION, DEMO, Existing, Presence};

/// The demo's application.
const APP: &str = "nginx";

/// Install AppDeploy in a cluster, run nginx and print its page.
#[derive(Debug, Parser)]
struct Args {
    /// The cluster to use.
    #[arg(long, value_enum, default_value_t = Which::Local)]
    cluster: Which,
    /// The operator's image. For the local cluster it is built from this checkout if needed.
    #[arg(long)]
    image: Option<String>,
    /// The namespace of the demo's application.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Remove what an earlier demo created in the cluster of your kubeconfig, and nothing else.
    #[arg(long)]
    down: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The cluster of `make cluster`.
    Local,
    /// The cluster of `make cluster CLUSTER=kind`, with the kubeconfig of the environment.
    Kind,
    Current,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match if args.down { remove(&args) } else { demo(&args) } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the exit code is still right.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo(args: &Args) -> Result<()> {
    let checkout = Checkout::find()?;
    let cluster = match args.cluster {
        Which::Local => Cluster::local(&checkout)?,
        Which::Kind => Cluster::Current,
        Which::Current => Cluster::current(&checkout, "Install AppDeploy and an app in")?,
    };
    let shell = Shell::new(&checkout, cluster)?;
    // On fake nodes a pod of the operator would only report that it runs: the operator runs here, until the demo ends.
    let _operator = match cluster {
        Cluster::Fake => Some(run_outside(&checkout, &shell)?),
        Cluster::Real => {
            install(&checkout, &shell, cluster, args.image.as_deref())?;
            None
        }
        Cluster::Current => {
            install_current(&checkout, &shell, args)?;
            None
        }
    };
    let created = create(&shell, &args.namespace);
    if cluster == Cluster::Current {
        annotate(&shell, &format!("appdeploy {APP} --namespace {}", args.namespace))?;
    }
    created?;
    let shown = if args.cluster == Which::Kind {
        show_forwarded(&shell, &args.namespace)
    } else {
        show_page(&checkout, &shell, cluster, &args.namespace)
    };
    shell.show(&format!("kubectl appdeploy status{}", flag(&args.namespace)))?;
    if let Some(reason) = shown? {
        say(&format!("\nThere is no page to show: {reason}."))?;
    }
    say(&hints(&checkout, args.cluster, cluster, &args.namespace))
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("failed to print")
}

/// Returns the flag for a namespace that is not the default.
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
        pack_operator(checkout, image)?;
    }
    let image = image.map(|image| format!(" --image {image}")).unwrap_or_default();
    shell.show(&format!("kubectl appdeploy install{image}"))
}

/// Installs the operator in the user's own cluster, unless it has one.
fn install_current(checkout: &Checkout, shell: &Shell, args: &Args) -> Result<()> {
    let existing = existing(shell, &args.namespace)?;
    let setup = existing.setup().map_err(|reason| {
        anyhow::anyhow!(
            "{reason}: {APP} in the namespace {}; ARGS='--namespace NAME' takes another one",
            args.namespace
        )
    })?;
    if !setup.operator {
        return say("\nThe operator is installed already; the demo uses it as it is.");
    }
    let installed = install(checkout, shell, Cluster::Current, args.image.as_deref());
    annotate(shell, OPERATOR)?;
    if setup.definitions {
        annotate(shell, DEFINITIONS)?;
    }
    installed
}

/// The operator's Deployment, as arguments of kubectl.
const OPERATOR: &str = "deployment appdeploy-operator --namespace appdeploy-system";
/// The CRDs, as arguments of kubectl.
const DEFINITIONS: &str = "crd appdeploys.appdeploy.dev podsets.appdeploy.dev appqueues.appdeploy.dev";

/// Reads which objects of the demo exist in the cluster.
fn existing(shell: &Shell, namespace: &str) -> Result<Existing> {
    let column = ANNOTATION.replace('.', r"\.");
    let presence = |object: &str, list: bool| {
        let item = format!("{{.metadata.name}} {{.metadata.annotations.{column}}}{{\"\\n\"}}");
        let template = if list {
            format!("{{range .items[*]}}{item}{{end}}")
        } else {
            item
        };
        shell.run(&format!(
            "kubectl get {object} --ignore-not-found --output jsonpath='{template}'"
        ))
    };
    let definitions = presence(DEFINITIONS, true)?;
    let definitions = definitions
        .lines()
        .map(Presence::read)
        .reduce(|one, other| if one == other { one } else { Presence::Other })
        .unwrap_or(Presence::Absent);
    let operator = Presence::read(&presence(OPERATOR, false)?);
    if definitions == Presence::Absent {
        return Ok(Existing {
            app: Presence::Absent,
            operator,
            definitions,
            others: 0,
        });
    }
    let app = Presence::read(&presence(&format!("appdeploy {APP} --namespace {namespace}"), false)?);
    let all = shell.run("kubectl get appdeploy,podset --all-namespaces --output name")?;
    let all = all.lines().filter(|line| !line.trim().is_empty()).count();
    Ok(Existing {
        app,
        operator,
        definitions,
        others: all.saturating_sub(usize::from(app != Presence::Absent)),
    })
}

/// Marks objects as created by the demo, if they exist.
fn annotate(shell: &Shell, objects: &str) -> Result<()> {
    shell
        .run(&format!(
            "if [ \"$(kubectl get {objects} --ignore-not-found --output name)\" ]; then \
             kubectl annotate --overwrite {objects} {ANNOTATION}={DEMO}; fi"
        ))
        .map(drop)
}

/// Removes the demo's objects from the user's own cluster.
fn remove(args: &Args) -> Result<()> {
    let checkout = Checkout::find()?;
    if args.cluster != Which::Current {
        return testcluster(&checkout, &["down"]);
    }
    let cluster = Cluster::current(&checkout, "Remove what the demo created from")?;
    let shell = Shell::new(&checkout, cluster)?;
    let removal = existing(&shell, &args.namespace)?.removal();
    if removal.is_empty() {
        say("There is nothing of the demo to remove.")?;
    }
    if removal.app {
        shell.show(&format!("kubectl appdeploy delete {APP}{}", flag(&args.namespace)))?;
    }
    if removal.operator {
        let definitions = if removal.definitions {
            " --delete-crds --yes"
        } else {
            ""
        };
        shell.show(&format!("kubectl appdeploy uninstall{definitions}"))?;
    }
    for kept in &removal.kept {
        say(&format!("Kept {kept}."))?;
    }
    Ok(())
}

fn run_outside(checkout: &Checkout, shell: &Shell) -> Result<Process> {
    const NAME: &str = "appdeploy-operator";
    say("\nBuilding the operator")?;
    let build = format!("cargo build --quiet --workspace --bin {NAME}");
    let status = shell.command(&build).status().context("failed to start cargo")?;
    anyhow::ensure!(status.success(), "cargo ended with {status}");
    shell.show("kubectl apply --server-side --field-manager=kubectl-appdeploy --kustomize config/crd")?;
    // Free ports: another program may use the default ones.
    let [bind, probes] = [free_address(), free_address()].map(|address| address.to_string());
    say(&format!("\n$ appdeploy-operator --bind {bind} &"))?;
    let mut command = Command::new(checkout.program(NAME));
    command
        .args(["--bind", &bind, "--debug-bind", &probes])
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

/// Prints the page through a forwarded port: kind has no ingress controller.
fn show_forwarded(shell: &Shell, namespace: &str) -> Result<Option<String>> {
    let line = format!("kubectl appdeploy port-forward {APP} :80{}", flag(namespace));
    say(&format!("\n$ {line} &"))?;
    let html = shell.run(&format!(
        r"log=$(mktemp); {line} > $log & forward=$!
          trap 'kill $forward; rm -f $log' EXIT
          for i in $(seq 100); do grep -q Forwarding $log && break; sleep 0.1; done
          curl --silent --show-error --fail http://127.0.0.1:$(sed -n 's/.*127.0.0.1:\([0-9]*\) .*/\1/p' $log)/"
    ))?;
    say(&page::text(&html).join("\n"))?;
    Ok(None)
}

/// Prints the page, or returns why there is none.
fn show_page(checkout: &Checkout, shell: &Shell, cluster: Cluster, namespace: &str) -> Result<Option<String>> {
    let address = match cluster {
        Cluster::Fake => {
            return Ok(Some(
                "the nodes are fake, so nothing runs in the pods. As root on Linux, `make cluster-down demo` has a real one"
                    .into(),
            ));
        }
        Cluster::Real => ingress(checkout),
        Cluster::Current => {
            let address = shell.run(&format!(
                "kubectl get appdeploy {APP} --namespace {namespace} --output jsonpath='{{.status.addresses[0].value}}'"
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
        // The ingress address of the user's own cluster may not be reachable from here.
        Cluster::Current => match http::page(&address, &host, Duration::from_secs(5)) {
            Ok(html) => html,
            Err(error) => return Ok(Some(format!("{error:#}"))),
        },
        Cluster::Real | Cluster::Fake => http::page(&address, &host, Duration::from_secs(30))?,
    };
    say(&page::text(&html).join("\n"))?;
    Ok(None)
}

fn hints(checkout: &Checkout, which: Which, cluster: Cluster, namespace: &str) -> String {
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
    let environment = if which == Which::Kind {
        format!(
            "KUBECONFIG={} PATH={}:$PATH",
            checkout.root().join("target/kind/kubeconfig").display(),
            checkout.built().display()
        )
    } else if cluster == Cluster::Current {
        format!("PATH={}:$PATH", checkout.built().display())
    } else {
        format!(
            "KUBECONFIG={} PATH={}:$PATH",
            checkout.kubeconfig().display(),
            checkout.bin().display()
        )
    };
    let ends = if which == Which::Current {
        "what it created here, and nothing else"
    } else {
        "all of it, the cluster included"
    };
    let with = match which {
        Which::Local => "",
        Which::Kind => " CLUSTER=kind",
        Which::Current => " CLUSTER=current",
    };
    format!(
        "\nThree commands to try next{outside}:\n
  export {environment}
  kubectl appdeploy scale {APP} --replicas 3{flag}
  kubectl appdeploy describe {APP}{flag}
  {third}

`make demo-down{with}` removes {ends}."
    )
}
