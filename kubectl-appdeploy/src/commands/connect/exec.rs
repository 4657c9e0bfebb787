//! `kubectl appdeploy exec`: runs a command in a ready pod.

mod input;

use clap::ValueHint;
use futures::channel::mpsc::Sender;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use kube::{Api, ResourceExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::Receiver;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::commands::connect::target;
use crate::error::{Error, Kind, Result};
use crate::resource::selection;
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # List the files in the working directory
  {command} exec {name} -- ls

  # Open a shell in a ready pod
  {command} exec {name} -it -- sh

  # Run a command in a specific pod and container
  {command} exec {name} -c app \\
    --pod={name}-5d4f8c7b6d-x2x9k -- env

The exit code is that of the command.";

/// The flags of `exec`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of {an}
    #[arg(value_name = "NAME")]
    name: String,
    /// Pass stdin to the container
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Allocate a terminal
    #[arg(short, long)]
    tty: bool,
    /// Container to run the command in; default: the application container
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Pod to run the command in; default: the newest ready pod
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Command to run, after --
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<String>,
}

/// Runs the command.
pub async fn run(args: Args, kind: crd::Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(kind);
    let name = selection::name(kind, &args.name)?;
    let object = cluster.get(name).await?;
    let workload = Workload::read(kind, &object);
    let pods = target::pods(&cluster, &workload).await?;
    let Some(pod) = target::choose(&pods, args.pod.as_deref()) else {
        return Err(target::no_pod(&cluster, &workload, &pods, args.pod.as_deref()));
    };
    let container = target::container(pod, args.container.as_deref())?;
    if let Some(state) = target::not_running(pod, &container) {
        return Err(target::not_running_error(&cluster, &workload, pod, &container, &state));
    }
    // As kubectl: without -i nothing would read a raw terminal, and Ctrl-C would do nothing.
    let tty = args.tty && args.stdin && input::is_terminal();
    if args.tty && !tty {
        let why = if args.stdin {
            "stdin is not a terminal"
        } else {
            "-t needs -i"
        };
        ui.warn(&format!("{why}, so the command gets no terminal"));
    }
    let params = AttachParams {
        container: Some(container),
        stdin: args.stdin,
        stdout: true,
        // A terminal has one stream for both.
        stderr: !tty,
        tty,
        ..AttachParams::default()
    };
    let of_pod: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let process = cluster
        .call(of_pod.exec(&pod.name_any(), &args.command, &params))
        .await?;
    let raw = if tty { Some(input::Raw::enter()?) } else { None };
    let status = forward(process, args.stdin, tty, ui).await;
    drop(raw);
    conclude(status?.as_ref(), &cluster, &workload)
}

/// Forwards input and output until the command ends.
async fn forward(mut process: AttachedProcess, stdin: bool, tty: bool, ui: &mut Ui) -> Result<Option<Status>> {
    let status = process.take_status();
    // Concurrently with the output: a command that waits for its reader does not read either.
    let mut typed = Box::pin(forward_stdin(stdin.then(input::typed), process.stdin()));
    let (mut out, mut err) = (process.stdout(), process.stderr());
    let mut sizes = input::Sizes::new();
    let mut sender = process.terminal_size().filter(|_| tty);
    tell_size(sender.as_mut());
    let (mut out_buffer, mut err_buffer) = (vec![0; 8192], vec![0; 8192]);
    while out.is_some() || err.is_some() {
        tokio::select! {
            () = &mut typed => {}
            read = read(out.as_mut(), &mut out_buffer), if out.is_some() => match read {
                0 => out = None,
                count => ui.write_stdout(&out_buffer[..count])?,
            },
            read = read(err.as_mut(), &mut err_buffer), if err.is_some() => match read {
                0 => err = None,
                count => ui.write_stderr(&err_buffer[..count]),
            },
            () = sizes.changed(), if tty => tell_size(sender.as_mut()),
        }
    }
    Ok(match status {
        Some(status) => status.await,
        None => None,
    })
}

/// Forwards the input and its end. Never returns, because the command ends the session.
async fn forward_stdin(typed: Option<Receiver<Vec<u8>>>, to: Option<impl AsyncWrite + Unpin>) {
    if let (Some(mut typed), Some(mut to)) = (typed, to) {
        while let Some(bytes) = typed.recv().await {
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    }
    std::future::pending::<()>().await;
}

/// Reads available bytes; 0 at the end, also after an error.
async fn read(from: Option<&mut (impl AsyncRead + Unpin)>, buffer: &mut [u8]) -> usize {
    match from {
        Some(from) => from.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}

fn tell_size(sender: Option<&mut Sender<TerminalSize>>) {
    if let Some(sender) = sender {
        let (height, width) = Ui::size();
        // A resize that was not sent yet is replaced by the next one.
        let _ = sender.try_send(TerminalSize { width, height });
    }
}

/// Ends as the command did.
fn conclude(status: Option<&Status>, cluster: &Cluster, workload: &Workload) -> Result<()> {
    let Some(status) = status else {
        let next = cluster.kind_info().verb("status", workload.name()).and(cluster.flag());
        return Err(Error::failed("the connection to the pod ended before the command did").next(next));
    };
    match outcome(status) {
        0 => Ok(()),
        code @ 1..=255 => Err(Error::new(Kind::Passed(u8::try_from(code).unwrap_or(1)), "")),
        _ => {
            let message = status.message.as_deref().unwrap_or("no reason is given");
            Err(Error::failed("the command could not be run").why(core(message)))
        }
    }
}

/// Returns the exit code of a command; -1 if it was not run.
fn outcome(status: &Status) -> i32 {
    if status.status.as_deref() == Some("Success") {
        return 0;
    }
    let causes = status
        .details
        .iter()
        .flat_map(|details| details.causes.iter().flatten());
    let code = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let mut code = code.filter_map(|cause| cause.message.as_ref()?.parse().ok());
    code.next().unwrap_or(-1)
}

/// Returns the message of the container runtime, without the prefixes of the kubelet.
fn core(message: &str) -> &str {
    message.rsplit_once(": exec: ").map_or(message, |(_, said)| said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn missing_command_is_reported_without_the_runtime() {
        let message = "Internal error occurred: OCI runtime exec failed: exec failed: unable to start container process: exec: \"nope\": executable file not found in $PATH";
        assert_eq!(core(message), "\"nope\": executable file not found in $PATH");
        assert_eq!(core("container not found"), "container not found");
    }

    #[test]
    fn exit_code_is_that_of_the_command() {
        let read = |status: Value| outcome(&serde_json::from_value(status).unwrap());
        assert_eq!(read(json!({"metadata": {}, "status": "Success"})), 0);
        assert_eq!(
            read(json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "42"}]}})),
            42
        );
        assert_eq!(
            read(json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": "no such file"})),
            -1
        );
    }
}
