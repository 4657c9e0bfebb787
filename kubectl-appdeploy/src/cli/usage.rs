//! Errors for an invalid command line, with the command to type instead.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crd::Kind;
use model::{NextCommand, command};

use crate::cluster::kind_info::{self, KindInfo};
use crate::error::Error;
use crate::output::formats::enumerate;

const NAME: &str = "kubectl appdeploy";

/// The commands that may be suggested for an unknown one: they change nothing.
const READING: [&str; 14] = [
    "status",
    "describe",
    "logs",
    "events",
    "top",
    "history",
    "export",
    "diff",
    "check",
    "version",
    "completion",
    "options",
    "podset",
    "queue",
];

/// Returns the error for an invalid command line. `command` is the line up to its last verb, and `verbs` is the whole command line.
pub fn error(told: &clap::Error, command: &str, verbs: &Command) -> Error {
    // `help VERB` is about VERB.
    let command = command.trim_end_matches(" help");
    if let Some(error) = of_a_verb(told, command) {
        return error;
    }
    let suggested = |kind| match told.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        // The nearest is the last.
        Some(ContextValue::Strings(words)) => words.last().map(String::as_str),
        _ => None,
    };
    let error = match told.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => {
            let error = Error::usage(format!("unknown command \"{word}\" for \"{command}\""));
            if let Some(error) = of_another_kind(word, command, verbs, error.clone()) {
                return error;
            }
            error
        }
        _ => Error::usage(sentence(told)),
    };
    if let Some(verb) = suggested(ContextKind::SuggestedSubcommand).filter(|verb| READING.contains(verb)) {
        return error.next(line(command).and(command!("{}", verb)));
    }
    let error = match suggested(ContextKind::SuggestedArg) {
        Some(flag) => error.why(format!("did you mean {flag}?")),
        None => error,
    };
    let error = match suggested(ContextKind::SuggestedValue) {
        Some(value) => error.why(format!("did you mean {value}?")),
        None => error,
    };
    error.next(line(command).and("--help"))
}

/// Returns the error for a verb with known requirements.
fn of_a_verb(told: &clap::Error, command: &str) -> Option<Error> {
    let word = match told.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let error = || Error::usage(sentence(told));
    match (command.rsplit(' ').next()?, told.kind(), word) {
        (_, ErrorKind::UnknownArgument, Some("--env-from")) => {
            let kinds = Kind::ALL.map(kind_info::of);
            let info = kinds.iter().rev().find(|info| command.starts_with(info.command))?;
            let set = NextCommand::from(info.command).and("set env NAME --from=configmap/CONFIGMAP");
            Some(
                error()
                    .why("set env takes variables from a ConfigMap or a Secret")
                    .next(set),
            )
        }
        ("exec", ErrorKind::UnknownArgument, Some(word)) if !word.starts_with('-') => Some(
            error()
                .why("the command follows after --")
                .next(line(command).and(command!("NAME -- {}", word))),
        ),
        ("exec", ErrorKind::MissingRequiredArgument, _) => Some(error().next(line(command).and("NAME -- COMMAND"))),
        ("apply", ErrorKind::UnknownArgument, Some("-k" | "--kustomize")) => {
            Some(error().next("kubectl kustomize FOLDER | kubectl appdeploy apply -f -"))
        }
        ("apply", ErrorKind::UnknownArgument, Some(word)) if !word.starts_with('-') => {
            Some(error().next(line(command).and(command!("-f {}", word))))
        }
        _ => None,
    }
}

/// Returns the words of a command line.
fn line(command: &str) -> NextCommand {
    let words = command.split(' ').map(|word| command!("{}", word));
    words.fold(NextCommand::default(), NextCommand::and)
}

/// Returns the error for a verb that exists only for other kinds.
fn of_another_kind(word: &str, command: &str, verbs: &Command, error: Error) -> Option<Error> {
    let this = kind_info::ALL.into_iter().find(|kind| kind.command == command)?;
    let has_verb = |kind: &KindInfo| {
        let mut verbs = verbs;
        for part in kind.command.trim_start_matches(NAME).split_whitespace() {
            verbs = verbs.find_subcommand(part)?;
        }
        let verb = verbs.find_subcommand(word).filter(|verb| !verb.is_hide_set())?;
        // The parents of the other kinds' verbs are no verbs.
        (!["podset", "queue"].contains(&verb.get_name())).then_some(())
    };
    let others = kind_info::ALL.into_iter().filter(|kind| *kind != this);
    let others: Vec<&KindInfo> = others.filter(|kind| has_verb(kind).is_some()).collect();
    let first = others.first()?;
    let many: Vec<String> = others.iter().map(|kind| kind.many.to_owned()).collect();
    let error = error.why(format!("{} have it, {} do not", enumerate(&many), this.many));
    Some(if (word, this.workload) == ("edit", None) {
        error.next(this.edit("NAME"))
    } else {
        error.next(NextCommand::from(first.command).and(command!("{}", word)).and("--help"))
    })
}

/// Returns the first paragraph of clap's message as one sentence.
fn sentence(told: &clap::Error) -> String {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) =
        (told.kind(), told.get(ContextKind::InvalidArg))
    {
        return if word.starts_with('-') {
            format!("unknown flag {word}")
        } else {
            format!("unexpected argument '{word}'")
        };
    }
    let text = told.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words = first.trim_start_matches("error: ").split_whitespace();
    let sentence = words.collect::<Vec<_>>().join(" ");
    let sentence = sentence.replace("the following required arguments were not provided:", "missing");
    // Rust's message for an invalid number.
    let sentence = sentence.replace("invalid digit found in string", "must be a whole number");
    match sentence.rsplit_once(" is not in ") {
        Some((_, range)) => match (sentence.rsplit_once(": "), range.split_once("..=")) {
            (Some((head, _)), Some((low, high))) => format!("{head}: must be from {low} to {high}"),
            // Without an upper bound, clap prints the largest number.
            (Some((head, _)), None) => match range.split_once("..") {
                Some((low, high)) if high.len() > 18 => format!("{head}: must be {low} or more"),
                _ => sentence,
            },
            _ => sentence,
        },
        None => sentence,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::terminal::ui::RenderOptions;

    fn told(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let verbs = crate::commands::completion::verbs(crate::cli::command(), &words);
        let told = crate::cli::command().no_binary_name(true).try_get_matches_from(words);
        error(&told.unwrap_err(), &verbs, &crate::cli::command()).text(&RenderOptions::default())
    }

    #[test]
    fn unknown_word_gets_the_nearest_suggestion() {
        insta::assert_snapshot!(told("stats"), @r#"
        error: unknown command "stats" for "kubectl appdeploy"
          next: kubectl appdeploy status
        "#);
        // What changes something is not suggested: more than the word may be wrong.
        insta::assert_snapshot!(told("podset creat"), @r#"
        error: unknown command "creat" for "kubectl appdeploy podset"
          next: kubectl appdeploy podset --help
        "#);
        insta::assert_snapshot!(told("podset logss"), @r#"
        error: unknown command "logss" for "kubectl appdeploy podset"
          next: kubectl appdeploy podset logs
        "#);
        insta::assert_snapshot!(told("frobnicate"), @r#"
        error: unknown command "frobnicate" for "kubectl appdeploy"
          next: kubectl appdeploy --help
        "#);
        insta::assert_snapshot!(told("status --namspace=a"), @r"
        error: unknown flag --namspace
          why:  did you mean --namespace?
          next: kubectl appdeploy status --help
        ");
        insta::assert_snapshot!(told("status -o jsn"), @r"
        error: invalid value 'jsn' for '--output <FORMAT>' [possible values: wide, json, yaml, name]
          why:  did you mean json?
          next: kubectl appdeploy status --help
        ");
    }

    #[test]
    fn words_of_other_tools_are_understood() {
        for (word, verb) in [
            ("ls", "status"),
            ("list", "status"),
            ("get", "status"),
            ("rollback", "undo"),
        ] {
            let read = crate::cli::command()
                .no_binary_name(true)
                .try_get_matches_from([word, "shop"]);
            assert_eq!(read.unwrap().subcommand_name(), Some(verb));
        }
    }

    #[test]
    fn missing_arguments_are_named() {
        insta::assert_snapshot!(told("scale shop"), @r"
        error: missing --replicas <N>
          next: kubectl appdeploy scale --help
        ");
        insta::assert_snapshot!(told("delete shop --dry-run"), @r"
        error: a value is required for '--dry-run <MODE>' but none was supplied [possible values: none, client, server]
          next: kubectl appdeploy delete --help
        ");
        insta::assert_snapshot!(told("status shop -A"), @r"
        error: the argument '[NAME]...' cannot be used with '--all-namespaces'
          next: kubectl appdeploy status --help
        ");
        insta::assert_snapshot!(told("create shop --port=x"), @r"
        error: invalid value 'x' for '--port <PORT>': must be a whole number
          next: kubectl appdeploy create --help
        ");
    }

    #[test]
    fn command_of_the_other_kind_is_suggested_with_it() {
        insta::assert_snapshot!(told("podset open w"), @r#"
        error: unknown command "open" for "kubectl appdeploy podset"
          why:  apps have it, pod sets do not
          next: kubectl appdeploy open --help
        "#);
        insta::assert_snapshot!(told("replace w"), @r#"
        error: unknown command "replace" for "kubectl appdeploy"
          why:  pod sets have it, apps do not
          next: kubectl appdeploy podset replace --help
        "#);
        insta::assert_snapshot!(told("queue scale orders"), @r#"
        error: unknown command "scale" for "kubectl appdeploy queue"
          why:  apps and pod sets have it, queues do not
          next: kubectl appdeploy scale --help
        "#);
        insta::assert_snapshot!(told("queue edit orders"), @r#"
        error: unknown command "edit" for "kubectl appdeploy queue"
          why:  apps and pod sets have it, queues do not
          next: kubectl edit appqueue NAME
        "#);
    }

    #[test]
    fn invalid_number_is_rejected_with_its_range() {
        insta::assert_snapshot!(told("scale shop --replicas=1001"), @r"
        error: invalid value '1001' for '--replicas <N>': must be from 0 to 1000
          next: kubectl appdeploy scale --help
        ");
    }

    #[test]
    fn missing_parts_of_a_command_are_suggested() {
        insta::assert_snapshot!(told("exec shop nginx -v"), @r"
        error: unexpected argument 'nginx'
          why:  the command follows after --
          next: kubectl appdeploy exec NAME -- nginx
        ");
        insta::assert_snapshot!(told("exec shop"), @r"
        error: missing <COMMAND>...
          next: kubectl appdeploy exec NAME -- COMMAND
        ");
        insta::assert_snapshot!(told("apply shop.yaml"), @r"
        error: unexpected argument 'shop.yaml'
          next: kubectl appdeploy apply -f shop.yaml
        ");
        insta::assert_snapshot!(told("apply -k overlay"), @r"
        error: unknown flag -k
          next: kubectl kustomize FOLDER | kubectl appdeploy apply -f -
        ");
        insta::assert_snapshot!(told("help frobnicate"), @r#"
        error: unknown command "frobnicate" for "kubectl appdeploy"
          next: kubectl appdeploy --help
        "#);
        insta::assert_snapshot!(told("install --image=a%b"), @r"
        error: invalid value 'a%b' for '--image <IMAGE>': must be like registry.example.com/appdeploy-operator:v1
          next: kubectl appdeploy install --help
        ");
        insta::assert_snapshot!(told("logs shop --tail=-5"), @r"
        error: invalid value '-5' for '--tail <LINES>': must be -1 or more
          next: kubectl appdeploy logs --help
        ");
    }
}
