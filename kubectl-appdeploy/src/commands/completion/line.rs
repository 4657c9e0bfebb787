//! Parses an unfinished command line with the definitions of clap, to find out what is completed at the cursor.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

use super::Candidate;

/// What is completed at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// One of these words: verbs or flags.
    Words(Vec<Candidate>),
    /// A value.
    Value {
        /// The argument, as the code calls it.
        id: String,
        /// The value, as the help calls it.
        name: String,
        /// All possible values, if they are known.
        possible: Vec<Candidate>,
    },
    /// Nothing that is known.
    Nothing,
}

/// A command line that is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The verbs so far.
    pub path: Vec<String>,
    /// The flags that choose the cluster.
    pub kube: Vec<String>,
    /// The values so far, by how the help calls them.
    pub values: BTreeMap<String, Vec<String>>,
    /// The part of the word before the value to complete, in a list of values.
    pub before: String,
    /// The typed part of the word.
    pub partial: String,
    /// What is completed at the cursor.
    pub completion: Completion,
}

impl Line {
    /// Whether the line already contains a value that must not be repeated.
    pub fn has(&self, value: &str) -> bool {
        match &self.completion {
            Completion::Value { name, .. } => self
                .values
                .get(name)
                .is_some_and(|values| values.iter().any(|one| one == value || is_named(one, value))),
            _ => false,
        }
    }
}

/// Returns the argument as the code calls it, and its value as the help does.
pub fn named(arg: &Arg) -> (String, String) {
    let id = arg.get_id().to_string();
    let name = arg.get_value_names().and_then(|names| names.first());
    let name = name.map_or_else(|| id.to_uppercase(), ToString::to_string);
    (id, name)
}

/// The state of the parser.
struct Reader<'c> {
    command: &'c Command,
    line: Line,
    used: Vec<String>,
    positionals: usize,
    /// A flag whose value is the next word.
    pending: Option<&'c Arg>,
    /// Behind `--`.
    rest: bool,
}

/// Reads a line. The last word is the one at the cursor; it may be empty.
pub fn read(command: &Command, words: &[String]) -> Line {
    let (partial, words) = match words.split_last() {
        Some((partial, words)) => (partial.as_str(), words),
        None => ("", words),
    };
    let mut reader = Reader {
        command,
        line: Line {
            path: Vec::new(),
            kube: Vec::new(),
            values: BTreeMap::new(),
            before: String::new(),
            partial: partial.to_owned(),
            completion: Completion::Nothing,
        },
        used: Vec::new(),
        positionals: 0,
        pending: None,
        rest: false,
    };
    for word in words {
        reader.take(word);
    }
    reader.want(partial);
    reader.line
}

impl<'c> Reader<'c> {
    fn take(&mut self, word: &str) {
        if let Some(arg) = self.pending.take() {
            self.value(arg, word);
        } else if self.rest {
            // Words after `--` belong to another command line.
        } else if word == "--" {
            self.rest = true;
        } else if let Some(flag) = word.strip_prefix("--") {
            let (flag, value) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (flag, None),
            };
            if let Some(arg) = self.long(flag) {
                self.flag(arg, value);
            }
        } else if let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty()) {
            self.short(flags);
        } else if let Some(verb) = self.command.find_subcommand(word).filter(|_| self.positionals == 0) {
            self.command = verb;
            self.line.path.push(verb.get_name().to_owned());
        } else {
            if let Some(arg) = self.positional() {
                self.value(arg, word);
            }
            self.positionals += 1;
        }
    }

    /// Takes several short flags behind one dash; what follows one with a value is its value.
    fn short(&mut self, flags: &str) {
        for (index, short) in flags.char_indices() {
            let Some(arg) = self.command.get_arguments().find(|arg| arg.get_short() == Some(short)) else {
                return;
            };
            let rest = &flags[index + short.len_utf8()..];
            if arg.get_action().takes_values() {
                let value = rest.strip_prefix('=').unwrap_or(rest);
                return self.flag(arg, (!rest.is_empty()).then_some(value));
            }
            self.flag(arg, None);
        }
    }

    fn flag(&mut self, arg: &'c Arg, value: Option<&str>) {
        self.used.push(arg.get_id().to_string());
        match value {
            Some(value) => self.value(arg, value),
            None if takes_next(arg) => self.pending = Some(arg),
            None => {}
        }
    }

    fn value(&mut self, arg: &Arg, value: &str) {
        if arg.is_global_set()
            && let Some(long) = arg.get_long()
        {
            self.line.kube.push(format!("--{long}={value}"));
        }
        let values = self.line.values.entry(named(arg).1).or_default();
        match arg.get_value_delimiter() {
            Some(comma) => values.extend(value.split(comma).map(str::to_owned)),
            None => values.push(value.to_owned()),
        }
    }

    fn long(&self, flag: &str) -> Option<&'c Arg> {
        let is = |arg: &&Arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(flag) || aliases.contains(&flag)
        };
        self.command.get_arguments().find(is)
    }

    /// Returns the argument that the next word without a dash is.
    fn positional(&self) -> Option<&'c Arg> {
        let open: Vec<&Arg> = self
            .command
            .get_positionals()
            .filter(|arg| !arg.is_last_set())
            .collect();
        match open.get(self.positionals) {
            Some(arg) => Some(arg),
            None => open
                .last()
                .copied()
                .filter(|arg| matches!(arg.get_action(), ArgAction::Append)),
        }
    }

    fn want(&mut self, partial: &str) {
        if let Some(arg) = self.pending {
            return self.want_value(arg, partial);
        }
        if self.rest {
            return;
        }
        if let Some((flag, value)) = partial.strip_prefix("--").and_then(|flag| flag.split_once('=')) {
            if let Some(arg) = self.long(flag).filter(|arg| arg.get_action().takes_values()) {
                self.want_value(arg, value);
            }
            return;
        }
        if partial.starts_with('-') {
            self.line.completion = Completion::Words(self.flags(partial));
        } else if self.positionals == 0 && self.command.has_subcommands() {
            self.line.completion = Completion::Words(self.verbs());
        } else if let Some(arg) = self.positional() {
            self.want_value(arg, partial);
        }
    }

    fn want_value(&mut self, arg: &Arg, partial: &str) {
        let (before, partial) = match arg.get_value_delimiter().and_then(|comma| partial.rfind(comma)) {
            Some(comma) => partial.split_at(comma + 1),
            None => ("", partial),
        };
        if let Some(comma) = arg.get_value_delimiter() {
            let values = self.line.values.entry(named(arg).1).or_default();
            values.extend(before.split(comma).map(str::to_owned));
        }
        (self.line.before, self.line.partial) = (before.to_owned(), partial.to_owned());
        let (id, name) = named(arg);
        let possible = arg.get_possible_values();
        let possible = possible.iter().filter(|value| !value.is_hide_set()).map(|value| {
            let about = value.get_help().map(ToString::to_string).unwrap_or_default();
            Candidate::new(value.get_name(), about)
        });
        self.line.completion = Completion::Value {
            id,
            name,
            possible: possible.collect(),
        };
    }

    fn verbs(&self) -> Vec<Candidate> {
        let verbs = self.command.get_subcommands().filter(|verb| !verb.is_hide_set());
        verbs
            .map(|verb| {
                let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
                Candidate::new(verb.get_name(), about)
            })
            .collect()
    }

    /// Returns the flags that may still be given, the short one only if it stands there.
    fn flags(&self, partial: &str) -> Vec<Candidate> {
        let open = self.command.get_arguments().filter(|arg| {
            let again = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
            (!arg.is_hide_set() || arg.is_global_set())
                && (again || !self.used.iter().any(|id| id.as_str() == arg.get_id().as_str()))
        });
        open.filter_map(|arg| {
            let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let short = arg.get_short().map(|short| format!("-{short}"));
            match (short, arg.get_long()) {
                (Some(short), _) if short == partial => Some(Candidate::new(short, about)),
                (_, Some(long)) => Some(Candidate::new(format!("--{long}"), about)),
                _ => None,
            }
        })
        .collect()
    }
}

/// Whether a value begins with a name and `=`, as `shop=nginx` does with `shop=`.
fn is_named(value: &str, name: &str) -> bool {
    name.ends_with('=') && value.starts_with(name)
}

/// Whether the word after a flag is its value.
fn takes_next(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}
