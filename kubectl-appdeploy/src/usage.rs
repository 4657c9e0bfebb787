//! What is wrong with a command line, in the plugin's own words: the sentence, and what to type instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::Error;

/// Returns the error for a command line that clap refuses; `None` where clap only shows what was asked for, such as a help.
/// `command` is the line up to its last verb.
pub fn error(told: &clap::Error, command: &str) -> Option<Error> {
    if !told.use_stderr() || told.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let suggested = |kind| match told.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        // The nearest is the last.
        Some(ContextValue::Strings(words)) => words.last().map(String::as_str),
        _ => None,
    };
    let error = match told.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => Error::usage(format!("unknown command \"{word}\" for \"{command}\"")),
        _ => Error::usage(sentence(told)),
    };
    if let Some(verb) = suggested(ContextKind::SuggestedSubcommand) {
        return Some(error.next(format!("{command} {verb}")));
    }
    let error = match suggested(ContextKind::SuggestedArg) {
        Some(flag) => error.why(format!("there is {flag}")),
        None => error,
    };
    let error = match suggested(ContextKind::SuggestedValue) {
        Some(value) => error.why(format!("there is {value}")),
        None => error,
    };
    Some(error.next(format!("{command} --help")))
}

/// Returns the first paragraph of what clap says, as one sentence.
fn sentence(told: &clap::Error) -> String {
    let text = told.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words = first.trim_start_matches("error: ").split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::ui::Look;

    fn told(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let verbs = crate::completion::verbs(crate::cli::command(), &words);
        let told = crate::cli::command().no_binary_name(true).try_get_matches_from(words);
        error(&told.unwrap_err(), &verbs).unwrap().text(&Look::default())
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_nearest() {
        insta::assert_snapshot!(told("stats"), @r#"
        error: unknown command "stats" for "kubectl appdeploy"
          next: kubectl appdeploy status
        "#);
        insta::assert_snapshot!(told("podset creat"), @r#"
        error: unknown command "creat" for "kubectl appdeploy podset"
          next: kubectl appdeploy podset create
        "#);
        insta::assert_snapshot!(told("frobnicate"), @r#"
        error: unknown command "frobnicate" for "kubectl appdeploy"
          next: kubectl appdeploy --help
        "#);
        insta::assert_snapshot!(told("status --namspace=a"), @r"
        error: unexpected argument '--namspace' found
          why:  there is --namespace
          next: kubectl appdeploy status --help
        ");
        insta::assert_snapshot!(told("status -o jsn"), @r"
        error: invalid value 'jsn' for '--output <FORMAT>' [possible values: wide, json, yaml, name]
          why:  there is json
          next: kubectl appdeploy status --help
        ");
    }

    #[test]
    fn what_is_missing_is_named() {
        insta::assert_snapshot!(told("scale shop"), @r"
        error: the following required arguments were not provided: --replicas <N>
          next: kubectl appdeploy scale --help
        ");
        insta::assert_snapshot!(told("delete shop --dry-run"), @r"
        error: a value is required for '--dry-run <MODE>' but none was supplied [possible values: none, client, server]
          next: kubectl appdeploy delete --help
        ");
        insta::assert_snapshot!(told("status shop -A"), @r"
        error: the argument '[NAME]' cannot be used with '--all-namespaces'
          next: kubectl appdeploy status --help
        ");
        insta::assert_snapshot!(told("create shop --port=x"), @r"
        error: invalid value 'x' for '--port <PORT>': invalid digit found in string
          next: kubectl appdeploy create --help
        ");
    }

    #[test]
    fn a_help_is_no_error() {
        let told = crate::cli::command().try_get_matches_from(["kubectl-appdeploy", "--help"]);
        assert_eq!(error(&told.unwrap_err(), ""), None);
    }
}
