//! `kubectl appdeploy completion`, and the answers to the shells: what can be typed next.
//!
//! What can be typed follows from the command line's own tree; a small table says where values come from that only a
//! cluster or a kubeconfig knows. The protocol is that of cobra, which kubectl speaks: a line for each candidate, with its
//! description behind a tab, and a last line that says whether files count, too.

mod install;
mod line;
mod live;
mod source;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Command, ValueEnum};

use crate::error::{Error, Result};
use crate::terminal::ui::Ui;

#[cfg(test)]
pub use line::named;
use line::{Completion, Line};
use source::Source;

/// The word that shells and kubectl ask with.
pub const ASKED: &str = "__complete";
/// The same, without descriptions.
const ASKED_BARELY: &str = "__completeNoDesc";

const EXAMPLES: &str = "\
Examples:
  # Complete `kubectl appdeploy` in shells that complete `kubectl`
  kubectl appdeploy completion --install-kubectl

  # Complete `kubectl-appdeploy` in bash
  echo 'source <(kubectl appdeploy completion bash)' >> ~/.bashrc

  # In zsh, after compinit
  echo 'source <(kubectl appdeploy completion zsh)' >> ~/.zshrc

  # In fish
  kubectl appdeploy completion fish >> ~/.config/fish/config.fish

  # In PowerShell
  kubectl appdeploy completion powershell >> $PROFILE";

/// A shell that can be helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

impl Shell {
    const fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("completion/script.bash"),
            Self::Zsh => include_str!("completion/script.zsh"),
            Self::Fish => include_str!("completion/script.fish"),
            Self::Powershell => include_str!("completion/script.ps1"),
        }
    }
}

/// The flags of `completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Shell to print the script for
    #[arg(
        value_name = "SHELL",
        hide_possible_values = true,
        help = "Shell to print the script for: bash, zsh, fish or powershell"
    )]
    shell: Option<Shell>,
    /// Write kubectl_complete-appdeploy, which kubectl calls for completions, next to the plugin or into this folder
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, conflicts_with = "shell")]
    #[expect(clippy::option_option, reason = "the flag may be there without a folder")]
    install_kubectl: Option<Option<PathBuf>>,
}

/// Runs the command.
pub fn run(args: Args, ui: &mut Ui) -> Result<()> {
    match (args.shell, args.install_kubectl) {
        (Some(shell), _) => ui.print(shell.script()),
        (None, Some(folder)) => install::run(folder, ui),
        (None, None) => Err(Error::usage("completion needs a shell: bash, zsh, fish or powershell")
            .why("or --install-kubectl, to complete `kubectl appdeploy` wherever kubectl itself is completed")
            .next("kubectl appdeploy completion --help")),
    }
}

/// One thing that can be typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    value: String,
    about: String,
}

impl Candidate {
    fn new(value: impl Into<String>, about: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            about: about.into(),
        }
    }
}

/// Prints the completions if a shell has called the plugin for them. The last argument is the word at the cursor. It never fails,
/// because a shell can't show an error.
pub fn answer(arguments: &[OsString], command: impl FnOnce() -> Command) -> Option<String> {
    let (asked, words) = arguments.split_first()?;
    let barely = asked == ASKED_BARELY;
    if !barely && asked != ASKED {
        return None;
    }
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut command = command();
    command.build();
    let line = line::read(&command, &words);
    let (candidates, files) = candidates(&line, |source| live::values(source, &line));
    Some(protocol(&line, candidates, files, barely))
}

/// Returns the commands of a line, without the name of the program.
pub fn verbs(mut command: Command, words: &[OsString]) -> String {
    command.build();
    let mut words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    words.push(String::new());
    let path = line::read(&command, &words).path;
    std::iter::once("kubectl appdeploy")
        .chain(path.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns what can be typed, and whether files can.
fn candidates(line: &Line, ask: impl FnOnce(Source) -> Vec<Candidate>) -> (Vec<Candidate>, bool) {
    match &line.completion {
        Completion::Words(words) => (words.clone(), false),
        Completion::Value { possible, .. } if !possible.is_empty() => (possible.clone(), false),
        Completion::Value { id, name, .. } => match source::of(&line.path, id, name) {
            Some(Source::Files) => (Vec::new(), true),
            Some(Source::Words(words)) => (words.iter().map(|word| Candidate::new(*word, "")).collect(), false),
            Some(Source::Free) | None => (Vec::new(), false),
            // A name that a value follows.
            Some(Source::Objects) if name.starts_with("NAME=") => {
                let names = ask(Source::Objects).into_iter();
                let names = names.map(|one| Candidate::new(format!("{}=", one.value), one.about));
                (names.collect(), false)
            }
            Some(source) => (ask(source), false),
        },
        Completion::Nothing => (Vec::new(), false),
    }
}

/// Writes an answer down.
fn protocol(line: &Line, mut candidates: Vec<Candidate>, files: bool, barely: bool) -> String {
    /// Nothing but these candidates.
    const NO_FILES: u8 = 4;
    /// No space behind them, either.
    const NO_SPACE: u8 = 2;
    candidates.retain(|one| one.value.starts_with(line.partial.as_str()) && !line.has(&one.value));
    candidates.dedup_by(|a, b| a.value == b.value);
    let continues = !candidates.is_empty() && candidates.iter().all(|one| one.value.ends_with('='));
    let mut text = String::new();
    for Candidate { value, about } in candidates {
        let about = about.lines().next().unwrap_or_default();
        let _ = match about {
            "" => writeln!(text, "{}{value}", line.before),
            _ if barely => writeln!(text, "{}{value}", line.before),
            about => writeln!(text, "{}{value}\t{}", line.before, crate::terminal::ui::clean(about)),
        };
    }
    let directive = match (files, continues) {
        (true, _) => 0,
        (false, true) => NO_FILES | NO_SPACE,
        (false, false) => NO_FILES,
    };
    let _ = write!(text, ":{directive}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the completion of a line whose last word is at the cursor. A cluster has one name.
    fn answer(text: &str) -> String {
        let mut command = crate::cli::command();
        command.build();
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let line = line::read(&command, &words);
        let (candidates, files) = candidates(&line, |source| {
            vec![Candidate::new(format!("{source:?}").to_lowercase(), "live")]
        });
        protocol(&line, candidates, files, false)
    }

    /// The same without descriptions, on one line.
    fn words(text: &str) -> String {
        let answer = answer(text);
        let words = answer.lines().map(|line| line.split('\t').next().unwrap_or_default());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn verbs_are_offered_with_what_they_do() {
        insta::assert_snapshot!(answer("st"), @r"
        status	List apps, or show one with its children and why it is not ready
        :4
        ");
        insta::assert_snapshot!(answer("podset repl"), @r"
        replace	Replace pods of a pod set: each is deleted after a new pod is ready
        :4
        ");
        assert!(words("").contains(" status "), "{}", words(""));
        assert!(!words("").contains("__complete"));
        assert_eq!(words("-n a stat"), "status :4");
        assert_eq!(words("pset stat"), "status :4");
    }

    #[test]
    fn flags_are_offered_once() {
        insta::assert_snapshot!(answer("status --sel"), @r"
        --selector	Select apps by labels, like team=shop,tier!=test
        :4
        ");
        assert_eq!(words("status -l a=b --sel"), ":4");
        assert_eq!(words("status --name"), "--namespace :4");
        assert_eq!(words("status -n"), "-n :4");
        // Flags that can be repeated are offered again.
        assert_eq!(words("create shop --env A=b --en"), "--env --env-file --env-from :4");
    }

    #[test]
    fn each_value_has_its_source() {
        for (line, expected) in [
            ("status ", "objects :4"),
            ("status obj", "objects :4"),
            ("status x", ":4"),
            ("podset delete a ", "objects :4"),
            ("create ", ":4"),
            ("status -n ", "namespaces :4"),
            ("status -n names", "namespaces :4"),
            ("status --namespace=", "namespaces :4"),
            ("status --context ", "contexts :4"),
            ("status --cluster ", "clusters :4"),
            ("status --user ", "users :4"),
            ("status --kubeconfig ", ":0"),
            ("status -o ", "wide json yaml name :4"),
            ("status -o j", "json :4"),
            ("status --output=y", "yaml :4"),
            ("delete a --dry-run=", "none client server :4"),
            ("delete a --dry-run s", "server :4"),
            ("version -o ", "json yaml :4"),
            ("create a --ingress-class ", "ingressclasses :4"),
            ("create a --expose c", "cluster :4"),
            ("set image ", "objects= :6"),
            ("set image obj", "objects= :6"),
            ("set image objects=x ", ":4"),
            ("set image objects=", "objects= :6"),
            ("podset replace a --pod ", "pods :4"),
            ("podset replace a --pod x,", "x,pods :4"),
            ("queue delete a ", "objects :4"),
            ("queue create ", ":4"),
            ("queue create a --dead-letter ", "objects :4"),
            ("queue create a --credentials ", "secrets :4"),
            ("queue create a --deletion-policy ", "Delete Retain :4"),
            ("create a --queue ", "queues :4"),
            ("completion ", "bash zsh fish powershell :4"),
            ("create a --image nginx -- ", ":4"),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn name_is_not_offered_twice() {
        assert_eq!(words("delete objects "), ":4");
    }

    #[test]
    fn completion_without_descriptions_has_only_values() {
        let ask = |word: &str| super::answer(&[word.into(), "uninst".into()], crate::cli::command);
        assert_eq!(ask("__completeNoDesc").as_deref(), Some("uninstall\n:4"));
        assert_eq!(ask("status"), None);
    }

    #[test]
    fn every_value_has_a_source_or_is_free() {
        fn walk(command: &Command, path: &mut Vec<String>, unknown: &mut Vec<String>) {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                let (id, name) = line::named(arg);
                if arg.get_possible_values().is_empty() && source::of(path, &id, &name).is_none() {
                    unknown.push(format!("{name} (--{id} of {})", path.join(" ")));
                }
            }
            for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
                path.push(verb.get_name().to_owned());
                walk(verb, path, unknown);
                path.pop();
            }
        }
        let mut unknown = Vec::new();
        let mut command = crate::cli::command();
        command.build();
        walk(&command, &mut Vec::new(), &mut unknown);
        assert!(
            unknown.is_empty(),
            "completion/source.rs does not say where values come from: {unknown:#?}"
        );
    }
}
