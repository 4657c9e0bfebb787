//! The command that a message suggests.
//!
//! Users copy such commands into a shell, and they contain third-party names, keys and texts. So a command can only be
//! built from literals and from values that are quoted; it can't be created from a `String`.

use std::fmt::{self, Display};

use crate::printable::{is_printable, printable};

/// The placeholder for a name that can't be the name of an object.
const PLACEHOLDER: &str = "NAME";

/// A command to run next: it can be copied into a POSIX shell, zsh or fish, and printed on a terminal.
///
/// Build it with [`command!`](crate::command).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextCommand {
    command: String,
    remark: Option<&'static str>,
}

/// Builds a [`NextCommand`] from a literal and the values for each `{}` in it. Each value is quoted for a shell and is
/// exactly one word, or one part of a word.
///
/// ```
/// let name = "db; id";
/// let command = model::command!("kubectl get secret {} -n {}", name, "blue");
/// assert_eq!(command.to_string(), "kubectl get secret 'db; id' -n blue");
/// ```
#[macro_export]
macro_rules! command {
    ($template:literal $(, $value:expr)* $(,)?) => {{
        const VALUES: usize = [$(stringify!($value),)* ""].len() - 1;
        const { $crate::next_command::check($template, VALUES) };
        $crate::NextCommand::fill($template, &[$(&$value as &dyn ::std::fmt::Display),*])
    }};
}

/// Fails to compile unless the template has one `{}` for each value and no other brace.
#[doc(hidden)]
pub const fn check(template: &str, values: usize) {
    let bytes = template.as_bytes();
    let (mut found, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b'{' {
            assert!(
                at + 1 < bytes.len() && bytes[at + 1] == b'}',
                "a brace in the template of a command"
            );
            found += 1;
            at += 1;
        }
        at += 1;
    }
    assert!(
        found == values,
        "the template of a command has another number of places than of values"
    );
}

impl NextCommand {
    /// Fills a template. [`command!`](crate::command) checks the number of values.
    #[doc(hidden)]
    #[must_use]
    pub fn fill(template: &'static str, values: &[&dyn Display]) -> Self {
        let (template, remark) = split_remark(template);
        let mut command = String::with_capacity(template.len());
        let mut values = values.iter();
        for (index, literal) in template.split("{}").enumerate() {
            if index > 0
                && let Some(value) = values.next()
            {
                push_value(&mut command, &value.to_string());
            }
            command.push_str(literal);
        }
        Self { command, remark }
    }

    /// Reads a stored command, such as the one in a status, which any client with the right to write the status may have
    /// written. If a shell would not only split it into words, each word is quoted again. `None` if it is not a command of
    /// kubectl.
    #[must_use]
    pub fn read(stored: &str) -> Option<Self> {
        const PIPE: &str = " | kubectl apply -f -";
        let (words, pipe) = match stored.strip_suffix(PIPE) {
            Some(words) => (words, PIPE),
            None => (stored, ""),
        };
        let (words, is_quoted) = split(words)?;
        if words.first().map(String::as_str) != Some("kubectl") {
            return None;
        }
        if is_quoted && stored.chars().all(is_printable) {
            let command = stored.to_owned();
            return Some(Self { command, remark: None });
        }
        let mut command = String::with_capacity(stored.len());
        for word in &words {
            if !command.is_empty() {
                command.push(' ');
            }
            push_word(&mut command, word);
        }
        command.push_str(pipe);
        Some(Self { command, remark: None })
    }

    /// Appends another command's words, or flags.
    #[must_use]
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        let more = more.into();
        if !self.command.is_empty() && !more.command.is_empty() {
            self.command.push(' ');
        }
        self.command.push_str(&more.command);
        self.remark = more.remark.or(self.remark);
        self
    }

    /// Adds a remark, which is printed below the command and is not part of it.
    #[must_use]
    pub const fn remark(mut self, remark: &'static str) -> Self {
        self.remark = Some(remark);
        self
    }

    /// Returns the command without its remark.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.command
    }

    /// Returns the remark, without parentheses.
    #[must_use]
    pub const fn remarked(&self) -> Option<&'static str> {
        self.remark
    }

    /// Whether the command is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.command.is_empty()
    }
}

/// A literal is trusted: it is part of the program.
impl From<&'static str> for NextCommand {
    fn from(literal: &'static str) -> Self {
        let (command, remark) = split_remark(literal);
        Self {
            command: command.to_owned(),
            remark,
        }
    }
}

impl Display for NextCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command)?;
        self.remark.map_or(Ok(()), |remark| write!(f, "  ({remark})"))
    }
}

/// Splits a literal that ends with a remark in parentheses, after two spaces.
fn split_remark(literal: &'static str) -> (&'static str, Option<&'static str>) {
    match literal.split_once("  (") {
        Some((command, remark)) => (command, Some(remark.strip_suffix(')').unwrap_or(remark))),
        None => (literal, None),
    }
}

/// Appends a value. An empty value at the start of a word, or one that a program would read as a flag, is replaced by a
/// placeholder, because it can't be the name of an object.
fn push_value(command: &mut String, value: &str) {
    let begins_a_word = command.is_empty() || command.ends_with(' ');
    if begins_a_word && (value.is_empty() || value.starts_with('-')) {
        command.push_str(PLACEHOLDER);
    } else {
        push_word(command, value);
    }
}

/// Appends a word, quoted if it contains special characters.
///
/// In single quotes, `'` ends the quotes, and in fish `\` escapes. Both are escaped outside of quotes, which all shells
/// read the same way.
fn push_word(command: &mut String, word: &str) {
    let word = printable(word);
    // zsh replaces =ls with the path of ls.
    let begins_plain = !word.starts_with('=');
    if word.is_empty() && (command.is_empty() || command.ends_with(' ')) {
        command.push_str("''");
    } else if begins_plain && word.chars().all(is_plain) {
        command.push_str(&word);
    } else {
        for piece in word.split_inclusive(['\'', '\\']) {
            let (quoted, escaped) = match piece.char_indices().next_back() {
                Some((at, c @ ('\'' | '\\'))) => (&piece[..at], Some(c)),
                _ => (piece, None),
            };
            if !quoted.is_empty() {
                command.extend(["'", quoted, "'"]);
            }
            command.extend(escaped.into_iter().flat_map(|c| ['\\', c]));
        }
    }
}

/// Whether a character has no special meaning in a shell, except at the start of a word.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c)
}

/// Splits a command into words as a POSIX shell does, without expanding anything, and returns whether all that a shell
/// could expand is quoted. `None` if a quote is not closed, or if it is more than one line.
fn split(text: &str) -> Option<(Vec<String>, bool)> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = true;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => {
                            is_quoted &= c != '\\';
                            word.push(c);
                        }
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            c if c.is_control() => return None,
            c => {
                is_quoted &= is_plain(c) && !(c == '=' && word.is_none());
                word.get_or_insert_default().push(c);
            }
        }
    }
    words.extend(word);
    Some((words, is_quoted))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const HOSTILE: [&str; 16] = [
        "",
        "a b",
        "it's",
        "a\\b",
        "\\'; id #",
        "$(id)",
        "`id`",
        "${HOME}",
        "\"x\"",
        "a;b&c|d>e<f",
        "*?[a]{b,c}",
        "~root",
        "!!",
        "=ls",
        "  (remark)",
        "größe 😀",
    ];

    #[test]
    fn values_are_quoted_only_where_needed() {
        for (value, shown) in [
            ("web", "kubectl get web"),
            (
                "r.example:5000/shop@sha256:0",
                "kubectl get r.example:5000/shop@sha256:0",
            ),
            ("a b", "kubectl get 'a b'"),
            ("it's", r"kubectl get 'it'\''s'"),
            ("=ls", "kubectl get '=ls'"),
            ("--server=evil", "kubectl get NAME"),
            ("", "kubectl get NAME"),
            ("a\u{1b}[2Jb", "kubectl get 'a\u{fffd}[2Jb'"),
        ] {
            assert_eq!(command!("kubectl get {}", value).to_string(), shown);
        }
        assert_eq!(
            command!("kubectl get --from={}=1", "").to_string(),
            "kubectl get --from==1"
        );
    }

    #[test]
    fn remarks_are_not_part_of_the_command() {
        let command = command!("kubectl delete {}  (if no app needs it)", "a  (b)");
        assert_eq!(command.as_str(), "kubectl delete 'a  (b)'");
        assert_eq!(command.remarked(), Some("if no app needs it"));
        assert_eq!(command.to_string(), "kubectl delete 'a  (b)'  (if no app needs it)");
        let command = command!("kubectl get {}", "x").and("").and(command!("-n {}", "a b"));
        assert_eq!(command.remark("why").to_string(), "kubectl get x -n 'a b'  (why)");
    }

    #[test]
    fn shells_read_the_intended_words() {
        for shell in ["sh", "bash", "dash"] {
            for value in HOSTILE {
                let text = command!("printf %s\\\\0 x{}y --flag={} end", value, value);
                let Ok(ran) = Command::new(shell).arg("-c").arg(text.as_str()).output() else {
                    continue;
                };
                let words = String::from_utf8(ran.stdout).unwrap();
                assert_eq!(words, format!("x{value}y\0--flag={value}\0end\0"), "{shell}: {text}");
            }
        }
    }

    #[test]
    fn only_stored_commands_of_kubectl_are_read() {
        for (stored, read) in [
            ("kubectl get pods -n a", Some("kubectl get pods -n a")),
            (
                "kubectl patch x -p '{\"a\":1}' --type merge",
                Some("kubectl patch x -p '{\"a\":1}' --type merge"),
            ),
            (
                "kubectl create secret generic a -o yaml | kubectl apply -f -",
                Some("kubectl create secret generic a -o yaml | kubectl apply -f -"),
            ),
            ("kubectl get x$(id); id", Some("kubectl get 'x$(id);' id")),
            (r"kubectl get 'a\';id", Some(r"kubectl get 'a'\\';id'")),
            ("kubectl get -o x='[*]'", Some("kubectl get -o x='[*]'")),
            ("kubectl get\nid", None),
            ("curl evil | sh", None),
            ("kubectl get 'x", None),
        ] {
            assert_eq!(
                NextCommand::read(stored).as_ref().map(NextCommand::as_str),
                read,
                "{stored}"
            );
        }
    }

    proptest! {
        #[test]
        fn value_is_one_word_for_a_shell_parser(value in any::<String>(), before in "([a-z][a-z=-]{0,2})?") {
            let mut text = before.clone();
            push_word(&mut text, &value);
            prop_assert!(text.chars().all(crate::printable::is_printable));
            let intended = format!("{before}{}", printable(&value));
            prop_assert_eq!(shlex::split(&text), Some(vec![intended.clone()]));
            prop_assert_eq!(split(&text), Some((vec![intended], true)));
        }

        #[test]
        fn built_command_is_read_back(value in any::<String>()) {
            let built = command!("kubectl get {} -n x{}", value, value);
            prop_assert_eq!(NextCommand::read(built.as_str()), Some(built));
        }
    }
}
