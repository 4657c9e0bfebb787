//! The rules that hold for every verb, checked over the whole command line. An exception is a line with its reason.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

use super::command;

/// A verb by its words, such as `set env` or `podset delete`, and why it is an exception.
type Exceptions = &'static [(&'static str, &'static str)];

/// Every verb that can be run, by its words.
fn verbs() -> BTreeMap<String, Command> {
    fn walk(command: &Command, path: &str, all: &mut BTreeMap<String, Command>) {
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let path = format!("{path} {}", verb.get_name()).trim_start().to_owned();
            if verb.has_subcommands() {
                walk(verb, &path, all);
            } else {
                all.insert(path, verb.clone());
            }
        }
    }
    let mut command = command();
    command.build();
    let mut all = BTreeMap::new();
    walk(&command, "", &mut all);
    assert!(all.len() > 50, "{:?}", all.keys());
    all
}

fn flag<'a>(verb: &'a Command, long: &str) -> Option<&'a Arg> {
    verb.get_arguments().find(|arg| arg.get_long() == Some(long))
}

fn values(arg: &Arg) -> Vec<String> {
    let values = arg.get_possible_values();
    values.iter().map(|value| value.get_name().to_owned()).collect()
}

/// Whether a verb changes the cluster: then it can be tried.
fn changes(verb: &Command) -> bool {
    flag(verb, "dry-run").is_some()
}

/// Checks a rule on all verbs. Verbs of pod sets and queues follow the rule of the verb for apps.
fn check(rule: &str, exceptions: Exceptions, holds: impl Fn(&str, &Command) -> bool) {
    let mut broken = Vec::new();
    let mut used = Vec::new();
    for (path, verb) in verbs() {
        let common = path.trim_start_matches("podset ").trim_start_matches("queue ");
        let excepted = exceptions.iter().find(|(name, _)| *name == common);
        match (holds(common, &verb), excepted) {
            (true, _) => {}
            (false, Some((name, _))) => used.push(*name),
            (false, None) => broken.push(path),
        }
    }
    assert!(broken.is_empty(), "{rule}: {broken:?}");
    let idle: Vec<_> = exceptions.iter().filter(|(name, _)| !used.contains(name)).collect();
    assert!(idle.is_empty(), "{rule}: no exceptions any more: {idle:?}");
    assert!(exceptions.iter().all(|(_, reason)| !reason.is_empty()), "{rule}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one list of all rules")]
fn flags_follow_the_same_rules_in_every_verb() {
    check(
        "--dry-run takes none, client or server, and always a value",
        &[],
        |_, verb| {
            flag(verb, "dry-run").is_none_or(|arg| {
                values(arg) == ["none", "client", "server"]
                    && arg.get_default_values() == ["none"]
                    && arg.get_num_args().is_none_or(|range| range.min_values() == 1)
            })
        },
    );
    check(
        "a change prints what it changed with -o json, yaml or name",
        &[(
            "uninstall",
            "what it removes is not there to be printed; --dry-run=client prints the plan",
        )],
        |_, verb| !changes(verb) || flag(verb, "output").is_some_and(|arg| values(arg) == ["json", "yaml", "name"]),
    );
    check(
        "-o of what reads is one of kubectl's formats",
        &[("check", "its short form is one line for each finding, for a pipeline")],
        |_, verb| {
            let known = |value: &String| ["wide", "json", "yaml", "name"].contains(&value.as_str());
            let output = flag(verb, "output").filter(|_| !changes(verb));
            output.is_none_or(|arg| arg.get_short() == Some('o') && values(arg).iter().all(known))
        },
    );
    check(
        "a verb for objects that exist takes several names, -l, and --all unless it shows all without a name",
        &[
            (
                "adopt",
                "the Deployment, the Service and the Ingress are those of one name",
            ),
            ("edit", "an editor shows one object"),
            ("undo", "a revision number is that of one app"),
            ("history", "a revision number is that of one app"),
            ("replace", "the pods that --pod names are those of one pod set"),
            ("exec", "a command runs in one pod"),
            ("port-forward", "a port of this machine leads to one app"),
            ("open", "a browser opens one page"),
            ("create", "its name is new"),
        ],
        |path, verb| {
            // As in `kubectl get`.
            let shows_all = ["status", "top"].contains(&path);
            let name = verb.get_positionals().find(|arg| {
                let names = arg.get_value_names().unwrap_or_default();
                arg.get_id() == "name" || names.iter().any(|name| name.as_str() == "NAME")
            });
            let several = |name: &Arg| {
                name.get_num_args().is_some_and(|range| range.max_values() > 1)
                    || matches!(name.get_action(), ArgAction::Append)
            };
            let all = shows_all || flag(verb, "all").is_some();
            name.is_none_or(|name| several(name) && flag(verb, "selector").is_some() && all)
        },
    );
    check("-l selects by labels, as in kubectl", &[], |name, verb| {
        let by_label = verb.get_arguments().find(|arg| arg.get_short() == Some('l'));
        // As in `kubectl run`, the created object gets the labels.
        let long = if name == "create" { "labels" } else { "selector" };
        by_label.is_none_or(|arg| arg.get_long() == Some(long) && arg.get_action().takes_values())
    });
    check("-A is all namespaces, and for what only reads", &[], |_, verb| {
        let all = verb.get_arguments().find(|arg| arg.get_short() == Some('A'));
        all.is_none_or(|arg| arg.get_long() == Some("all-namespaces") && !changes(verb))
    });
    check(
        "--wait[=BOOL] goes with --timeout",
        &[
            ("adopt", "each of its steps waits for the one before"),
            ("eject", "each of its steps waits for the one before"),
            ("status", "--until says what is waited for"),
        ],
        |_, verb| match (flag(verb, "wait"), flag(verb, "timeout")) {
            (None, None) => true,
            (Some(wait), Some(timeout)) => {
                wait.get_num_args().is_some_and(|range| range.min_values() == 0)
                    && wait.is_require_equals_set()
                    && timeout.get_action().takes_values()
            }
            _ => false,
        },
    );
    check(
        "a change of pods can be waited for",
        &[
            ("pause", "nothing is rolled out after it"),
            ("adopt", "it always waits"),
            ("eject", "it always waits"),
        ],
        |_, verb| !changes(verb) || flag(verb, "wait").is_some(),
    );
    check(
        "--wait is off unless the verb is about an end, as in kubectl delete",
        &[],
        |name, verb| {
            let on = ["delete", "install", "uninstall"].contains(&name);
            flag(verb, "wait").is_none_or(|wait| (wait.get_default_values() == ["true"]) == on)
        },
    );
    check(
        "-y goes with the verbs that ask: they delete or hand over what the command line does not name",
        &[],
        |name, verb| {
            let asks = ["adopt", "delete", "eject", "uninstall"].contains(&name);
            flag(verb, "yes").is_some_and(|arg| arg.get_short() == Some('y')) == asks
        },
    );
    check("no other flag has the name of one of these", &[], |_, verb| {
        let short = |long: &str| flag(verb, long).and_then(Arg::get_short);
        [
            ("force", None),
            ("wait", None),
            ("timeout", None),
            ("dry-run", None),
            ("all", None),
        ]
        .iter()
        .all(|(long, expected)| short(long) == *expected)
    });
}
