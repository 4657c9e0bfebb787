//! The command line.

mod options;
#[cfg(test)]
mod reference;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::cluster::connection::KubeArgs;
use crate::cluster::interrupt::{self, Effect};
use crate::cluster::kind_info::{self, KindInfo};
use crate::commands::app::create::{self, AppArgs, PodSetArgs, Spec};
use crate::commands::app::{apply, delete, edit, replace, scale, set};
use crate::commands::cluster::{check, install, report, uninstall, version};
use crate::commands::completion;
use crate::commands::connect::{exec, logs, open, port_forward};
use crate::commands::gitops::{adopt, diff, eject, export};
use crate::commands::observe::{describe, events, status, top};
use crate::commands::queue;
use crate::commands::rollout::{history, pause, restart, undo};
use crate::error::{Error, Result};
use crate::terminal::panic;
use crate::terminal::ui::{Color, Flags, Ui};
use crate::terminal::warnings::Warnings;

/// Run applications on Kubernetes from one object each. The operator manages the Deployment, Service and Ingress of an
/// app, and its status reports why the app is not ready.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-appdeploy",
    bin_name = "kubectl appdeploy",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = START
)]
struct Cli {
    #[command(flatten)]
    kube: KubeArgs,
    #[command(subcommand)]
    verb: Verb,
}

const START: &str = "\
First steps:
  kubectl appdeploy install
  kubectl appdeploy create hello --image=nginx --port=80
  kubectl appdeploy status

Exit codes: 0 success, 1 error, 2 invalid usage, 3 will not become ready without
a change, 4 timeout.";

/// The template of each help.
const HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

{all-args}{after-help}

Use \"kubectl appdeploy options\" for the options of all commands, such as -n.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Install or upgrade AppDeploy in the cluster
    Install(install::Args),
    /// Check the installation, or whether AppDeploy can be installed
    Check(check::Args),
    /// Remove AppDeploy from the cluster; by default, apps and pod sets stay
    Uninstall(uninstall::Args),
    /// Create or update apps, pod sets and queues from files
    Apply(apply::Args),
    #[command(flatten)]
    App(Common<AppArgs>),
    /// Open the URL of an app in a browser
    Open(open::Args),
    /// Compare the Deployment, Service and Ingress of apps with their spec or a file
    Diff(diff::Args),
    /// Turn an existing Deployment, Service and Ingress into an app
    Adopt(adopt::Args),
    /// Delete apps, but keep their Deployments, Services and Ingresses
    Eject(eject::Args),
    /// Manage pod sets: equal pods without a Service and an Ingress
    #[command(
        visible_aliases = ["podsets", "pset"],
        subcommand_required = true,
        arg_required_else_help = true,
        subcommand
    )]
    Podset(PodSetVerb),
    /// Manage queues of a service outside the cluster, such as Amazon SQS
    #[command(
        visible_aliases = ["queues", "aq"],
        subcommand_required = true,
        arg_required_else_help = true,
        subcommand
    )]
    Queue(QueueVerb),
    /// Print a shell completion script, or install completion for kubectl
    Completion(completion::Args),
    /// Collect diagnostic data in an archive, without secrets
    Report(report::Args),
    /// Print the versions of the plugin and the operator
    Version(version::Args),
    /// Print the options of all commands
    Options(options::Args),
}

/// The commands of each kind.
#[derive(Debug, Subcommand)]
enum Common<S: Spec> {
    /// Create {an} from flags or interactively
    Create(create::Args<S>),
    /// Set the number of pods of {many}
    Scale(scale::Args),
    /// List {many}, or show one with its children and why it is not ready
    #[command(aliases = ["ls", "list", "get"])]
    Status(status::Args),
    /// Show details of {many}, with conditions and events
    Describe(describe::Args),
    /// Print the logs of the pods of {many}
    Logs(logs::Args),
    /// List the events of {an} and its children
    Events(events::Args),
    /// Show the CPU and memory usage of {many}
    Top(top::Args),
    /// Run a command in a pod of {an}
    Exec(exec::Args),
    /// Forward a local port to {an}
    PortForward(port_forward::Args),
    /// Change the {fields} of {many}
    Set(set::Args),
    /// Edit {an} in an editor
    Edit(edit::Args),
    /// List the revisions of {an}
    History(history::Args),
    /// Roll {an} back to an earlier revision
    #[command(alias = "rollback")]
    Undo(undo::Args),
    /// Restart {many}: replace their pods
    Restart(restart::Args),
    /// Pause the rollout of {many}
    Pause(pause::PauseArgs),
    /// Resume the rollout of paused {many}
    Resume(pause::ResumeArgs),
    /// Print the Kubernetes objects or the manifests of {many}
    Export(export::Args),
    /// Delete {many} and their children
    Delete(delete::Args),
}

/// The commands of pod sets.
#[derive(Debug, Subcommand)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, for the life of the process"
)]
enum PodSetVerb {
    #[command(flatten)]
    Common(Common<PodSetArgs>),
    /// Replace pods of {an}: each is deleted after a new pod is ready
    Replace(replace::Args),
}

/// The commands of queues.
#[derive(Debug, Subcommand)]
enum QueueVerb {
    /// Create a queue, and grant the operator the right to read its credentials
    Create(queue::create::Args),
    /// List queues with their depth, and why they are not ready
    #[command(aliases = ["ls", "list", "get"])]
    Status(status::Args),
    /// Show details of queues, with conditions and events
    Describe(describe::Args),
    /// Manage existing queues that were not created by AppDeploy
    Adopt(queue::adopt::Args),
    /// Delete queues, or keep them outside the cluster with --orphan
    Delete(queue::delete::Args),
}

/// Parses the arguments, runs the command, prints an error, and returns the exit code.
pub fn main() -> ExitCode {
    panic::report_panics();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(answer) = completion::answer(&arguments, command) {
        // A shell that has exited does not need it.
        let _ = Ui::new(Color::Never, &Flags::default(), Warnings::default()).print(&answer);
        return ExitCode::SUCCESS;
    }
    let cli = match command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(told) => return refused(&told, &arguments),
    };
    let mut ui = Ui::new(cli.kube.color, &cli.kube.repeat(), cli.kube.warnings.clone());
    let outcome = run(cli, &mut ui);
    ui.print_warnings();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            ui.error(&error);
            error.exit_code()
        }
    }
}

fn run(cli: Cli, ui: &mut Ui) -> Result<()> {
    let (effect, writes) = (cli.verb.effect(), cli.kube.writes.clone());
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::failed(format!("cannot start: {source}")))?
        .block_on(async {
            tokio::select! {
                // First, so that Ctrl-C is ours before a question blocks the thread.
                biased;
                () = interrupt::pressed() => Err(interrupt::error(effect, &writes)),
                // A prompt is ended by the signal itself, since it blocks the thread that would receive it.
                error = interrupt::terminated(), if effect == Effect::None => Err(error),
                outcome = dispatch(cli, ui) => outcome,
            }
        })
}

/// Prints a help, or the error of an invalid command line.
fn refused(told: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if told.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // As kubectl: a command without a verb prints its help to stdout and succeeds.
        let help = told.render().to_string();
        let _ = Ui::new(Color::Never, &Flags::default(), Warnings::default()).print(help.trim_end());
        return ExitCode::SUCCESS;
    }
    if !told.use_stderr() {
        let _ = told.print();
        return ExitCode::SUCCESS;
    }
    let error = usage::error(told, &completion::verbs(command(), arguments), &command());
    // Which colour was asked for is not known of a line that can't be read.
    Ui::new(Color::Auto, &Flags::default(), Warnings::default()).error(&error);
    error.exit_code()
}

async fn dispatch(cli: Cli, ui: &mut Ui) -> Result<()> {
    let kube = &cli.kube;
    match cli.verb {
        Verb::Install(args) => install::run(args, kube, ui).await,
        Verb::Check(args) => check::run(args, kube, ui).await,
        Verb::Uninstall(args) => uninstall::run(args, kube, ui).await,
        Verb::Apply(args) => apply::run(args, kube, ui).await,
        Verb::App(verb) => common(verb, kube, ui).await,
        Verb::Open(args) => open::run(args, kube, ui).await,
        Verb::Diff(args) => diff::run(args, kube, ui).await,
        Verb::Adopt(args) => adopt::run(args, kube, ui).await,
        Verb::Eject(args) => eject::run(args, kube, ui).await,
        Verb::Podset(PodSetVerb::Common(verb)) => common(verb, kube, ui).await,
        Verb::Podset(PodSetVerb::Replace(args)) => replace::run(args, kube, ui).await,
        Verb::Queue(verb) => of_queues(verb, kube, ui).await,
        Verb::Completion(args) => completion::run(args, ui),
        Verb::Report(args) => report::run(args, kube, ui).await,
        Verb::Version(args) => version::run(args, kube, ui).await,
        Verb::Options(_) => options::run(ui),
    }
}

async fn common<S: Spec>(verb: Common<S>, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    match verb {
        Common::Create(args) => create::run(args, kube, ui).await,
        Common::Scale(args) => scale::run(args, S::KIND, kube, ui).await,
        Common::Status(args) => status::run(args, S::KIND, kube, ui).await,
        Common::Describe(args) => describe::run(args, S::KIND, kube, ui).await,
        Common::Logs(args) => logs::run(args, S::KIND, kube, ui).await,
        Common::Events(args) => events::run(args, S::KIND, kube, ui).await,
        Common::Top(args) => top::run(args, S::KIND, kube, ui).await,
        Common::Exec(args) => Box::pin(exec::run(args, S::KIND, kube, ui)).await,
        Common::PortForward(args) => Box::pin(port_forward::run(args, S::KIND, kube, ui)).await,
        Common::Set(args) => set::run(args, S::KIND, kube, ui).await,
        Common::Edit(args) => edit::run(args, S::KIND, kube, ui).await,
        Common::History(args) => history::run(args, S::KIND, kube, ui).await,
        Common::Undo(args) => undo::run(args, S::KIND, kube, ui).await,
        Common::Restart(args) => restart::run(args, S::KIND, kube, ui).await,
        Common::Pause(args) => pause::pause(args, S::KIND, kube, ui).await,
        Common::Resume(args) => pause::resume(args, S::KIND, kube, ui).await,
        Common::Export(args) => export::run(args, S::KIND, kube, ui).await,
        Common::Delete(args) => delete::run(args, S::KIND, kube, ui).await,
    }
}

async fn of_queues(verb: QueueVerb, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    match verb {
        QueueVerb::Create(args) => Box::pin(queue::create::run(args, kube, ui)).await,
        QueueVerb::Status(args) => status::run(args, &kind_info::QUEUE, kube, ui).await,
        QueueVerb::Describe(args) => describe::run(args, &kind_info::QUEUE, kube, ui).await,
        QueueVerb::Adopt(args) => queue::adopt::run(args, kube, ui).await,
        QueueVerb::Delete(args) => queue::delete::run(args, kube, ui).await,
    }
}

impl Verb {
    const fn effect(&self) -> Effect {
        match self {
            Self::Install(_) | Self::Uninstall(_) | Self::Apply(_) | Self::Adopt(_) | Self::Eject(_) => Effect::Steps,
            Self::App(verb) => verb.effect(),
            Self::Podset(PodSetVerb::Common(verb)) => verb.effect(),
            Self::Podset(PodSetVerb::Replace(_))
            | Self::Queue(QueueVerb::Create(_) | QueueVerb::Adopt(_) | QueueVerb::Delete(_)) => Effect::Change,
            Self::Queue(QueueVerb::Status(_) | QueueVerb::Describe(_))
            | Self::Check(_)
            | Self::Open(_)
            | Self::Diff(_)
            | Self::Completion(_)
            | Self::Report(_)
            | Self::Version(_)
            | Self::Options(_) => Effect::None,
        }
    }
}

impl<S: Spec> Common<S> {
    const fn effect(&self) -> Effect {
        match self {
            Self::Status(_)
            | Self::Describe(_)
            | Self::Logs(_)
            | Self::Events(_)
            | Self::Top(_)
            | Self::Exec(_)
            | Self::PortForward(_)
            | Self::History(_)
            | Self::Export(_) => Effect::None,
            Self::Create(_)
            | Self::Scale(_)
            | Self::Set(_)
            | Self::Edit(_)
            | Self::Undo(_)
            | Self::Restart(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Delete(_) => Effect::Change,
        }
    }
}

/// Returns the command line, its help in the words of each kind.
pub fn command() -> Command {
    // As in kubectl, each help lists the flags of its verb; `options` lists the flags of all verbs.
    let command = Cli::command().mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    let command = command.help_template(HELP);
    command.mut_subcommands(|verb| {
        let kind = match verb.get_name() {
            "podset" => crd::Kind::PodSet,
            "queue" => return filled(verb, &kind_info::QUEUE),
            _ => crd::Kind::AppDeploy,
        };
        // Commands that pod sets only have for their error message are hidden.
        let verb = match kind {
            crd::Kind::PodSet => verb
                .mut_subcommand("set", |set| {
                    let set = set.mut_subcommand("host", |host| host.hide(true));
                    set.mut_subcommand("rollout", |rollout| rollout.hide(true))
                })
                .mut_subcommand("history", |history| history.hide(true))
                .mut_subcommand("undo", |undo| undo.hide(true)),
            crd::Kind::AppDeploy => verb,
        };
        filled(verb, kind_info::of(kind))
    })
}

/// Replaces the placeholders for a kind in all texts of a command and its subcommands.
fn filled(command: Command, words: &'static KindInfo) -> Command {
    let fill = |text: Option<&StyledStr>| text.map(|text| words.fill(&text.to_string()));
    let (about, after) = (fill(command.get_about()), fill(command.get_after_help()));
    let mut command = command
        .help_template(HELP)
        .mut_args(|arg| match fill(arg.get_help()) {
            Some(help) => arg.help(help),
            None => arg,
        })
        .mut_subcommands(|verb| filled(verb, words));
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(after) = after {
        command = command.after_help(after);
    }
    command
}

#[cfg(test)]
mod rules;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn placeholders_in_help_are_filled() {
        fn all(command: &mut Command, texts: &mut Vec<String>) {
            texts.push(command.render_long_help().to_string());
            command.get_subcommands_mut().for_each(|verb| all(verb, texts));
        }
        let mut texts = Vec::new();
        all(&mut command(), &mut texts);
        assert!(texts.len() > 12);
        for text in texts {
            assert!(!text.contains(['{', '}']), "{text}");
        }
    }

    #[test]
    fn help_of_a_verb_shows_its_own_flags_only() {
        fn walk(command: &mut Command, check: &mut impl FnMut(&str)) {
            check(&command.render_long_help().to_string());
            let verbs = command.get_subcommands_mut();
            verbs
                .filter(|verb| verb.get_name() != "help")
                .for_each(|verb| walk(verb, check));
        }
        let mut command = command().term_width(80);
        command.build();
        walk(&mut command, &mut |help| {
            for flag in ["--kubeconfig", "--as-group", "--request-timeout", "--context <"] {
                assert!(!help.contains(flag), "{flag}: {help}");
            }
            assert!(help.contains("\"kubectl appdeploy options\""), "{help}");
            let long = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(long, None, "{help}");
        });
    }

    /// Runs a check on every verb, with its words from the first on.
    fn each_verb(command: &Command, check: &mut impl FnMut(&str, &Command)) {
        for verb in command.get_subcommands() {
            if !verb.has_subcommands() {
                check(verb.get_name(), verb);
            }
            each_verb(verb, check);
        }
    }

    #[test]
    fn every_verb_has_examples_that_fit_into_eighty_columns() {
        each_verb(&command(), &mut |name, verb| {
            let examples = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                name == "help" || examples.starts_with("Examples:\n"),
                "{name} has no examples"
            );
            let long = examples.lines().find(|line| line.chars().count() > 80);
            assert_eq!(
                long, None,
                "{name}: a command that is broken can't be copied, and a text reads badly"
            );
        });
    }

    #[test]
    fn commands_that_change_objects_have_a_dry_run() {
        const LOOKS: &[&str] = &[
            "check",
            "completion",
            "describe",
            "diff",
            "events",
            "exec",
            "export",
            "help",
            "history",
            "logs",
            "open",
            "options",
            "port-forward",
            "report",
            "status",
            "top",
            "version",
        ];
        each_verb(&command(), &mut |name, verb| {
            let tries = verb.get_arguments().any(|arg| arg.get_long() == Some("dry-run"));
            assert_ne!(
                tries,
                LOOKS.contains(&name),
                "{name}: either it only looks, or it has --dry-run"
            );
        });
    }

    #[test]
    fn short_flags_mean_what_they_mean_in_kubectl() {
        const MEANINGS: &[(char, &[&str])] = &[
            ('A', &["all-namespaces"]),
            ('R', &["recursive"]),
            ('V', &["version"]),
            ('c', &["container"]),
            ('e', &["env"]),
            ('f', &["filename"]),
            ('h', &["help"]),
            ('i', &["stdin"]),
            ('l', &["selector", "labels"]),
            ('n', &["namespace"]),
            ('o', &["output"]),
            ('p', &["previous"]),
            ('s', &["server"]),
            ('t', &["tty"]),
            ('w', &["watch"]),
            ('y', &["yes"]),
        ];
        each_verb(&command(), &mut |name, verb| {
            for arg in verb.get_arguments() {
                let (Some(short), Some(long)) = (arg.get_short(), arg.get_long()) else {
                    continue;
                };
                let meanings = MEANINGS.iter().filter(|(known, _)| *known == short);
                let known = meanings.flat_map(|(_, longs)| *longs).any(|known| *known == long);
                let follows = (name, short, long) == ("logs", 'f', "follow");
                assert!(known || follows, "{name}: -{short} is --{long}");
            }
        });
    }

    #[test]
    fn flags_of_kubectl_are_accepted_before_and_after_the_command() {
        for line in [
            "kubectl-appdeploy status -n a --context=b",
            "kubectl-appdeploy -n a --context=b status",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(
                (cli.kube.namespace.as_deref(), cli.kube.context.as_deref()),
                (Some("a"), Some("b")),
                "{line}"
            );
        }
    }
}
