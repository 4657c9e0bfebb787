//! Output: results go to stdout, everything else to stderr.

mod alt_screen;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};

use dialoguer::console::{Term, truncate_str};
use model::NextCommand;
use model::printable::{REPLACEMENT, is_invisible};
pub use textwrap::core::display_width as columns;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use crate::error::{Error, Kind, Result, system_error};
use crate::terminal::warnings::Warnings;

pub use alt_screen::AltScreen;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Also into a pipe.
    Always,
    /// Not at all.
    Never,
}

/// The meaning of a piece of text. No meaning is shown by colour only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// It works.
    Good,
    /// It is in progress.
    Busy,
    /// It does not work.
    Bad,
    /// A label before a sentence.
    Label,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Busy => "33",
            Self::Bad => "31",
            Self::Label => "1",
        }
    }
}

/// Returns the text in the colour of its meaning.
pub fn paint(color: bool, style: Style, text: &str) -> String {
    if color {
        format!("\x1b[{}m{text}\x1b[0m", style.code())
    } else {
        text.to_owned()
    }
}

/// Returns the text without what could steer a terminal or make one text look like another: what stands in a cluster was
/// written by anybody.
pub fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        c if c.is_control() => ' ',
        c if is_invisible(c) => REPLACEMENT,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Wraps a text between words, so that no line is wider than `width` columns. A longer word is not broken.
pub fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    wrap_after(text, width, 0)
}

/// Wraps a text whose first line begins after `used` columns.
fn wrap_after(text: &str, width: Option<usize>, used: usize) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    // textwrap measures the indent of the first line; it is not part of the result.
    let indent = " ".repeat(used);
    let options = Options::new(width)
        .initial_indent(&indent)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let mut lines: Vec<String> = textwrap::wrap(text, options).into_iter().map(Into::into).collect();
    if let Some(first) = lines.first_mut() {
        first.drain(..used.min(first.len()));
    }
    lines
}

/// The flags that chose the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// All of them.
    pub all: NextCommand,
    /// The one that names the kubeconfig.
    pub file: NextCommand,
}

/// How a page looks.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// Whether there is colour.
    pub color: bool,
    /// The columns there are; `None` where nothing limits a line.
    pub width: Option<usize>,
    /// The flags that chose the cluster, repeated in every command that is suggested.
    pub flags: Flags,
}

impl RenderOptions {
    /// Returns a sentence behind its label, broken between words where the terminal ends.
    pub fn sentence(&self, indent: &str, label: &str, sentence: &str) -> String {
        self.styled(Style::Label, indent, label, sentence)
    }

    /// Returns a sentence behind a label that has a meaning.
    pub fn styled(&self, style: Style, indent: &str, label: &str, sentence: &str) -> String {
        let hang = indent.len() + 6;
        let used = indent.len() + columns(label) + 1;
        let room = self.width.map(|width| width.saturating_sub(hang));
        let lines = wrap_after(&clean(sentence), room, used.saturating_sub(hang));
        let text = lines.join(&format!("\n{:hang$}", ""));
        format!("{indent}{} {text}", paint(self.color, style, label))
    }

    /// Returns a label, to be followed by a sentence.
    pub fn label(&self, label: &str) -> String {
        paint(self.color, Style::Label, label)
    }

    /// Returns what to run next behind its label, and a remark on it on a line of its own: the first can be copied and run.
    pub fn next(&self, indent: &str, next: &NextCommand) -> String {
        let mut text = format!("{indent}{} {}", self.label("next:"), self.command(next));
        if let Some(remark) = next.remarked() {
            let _ = write!(text, "\n{indent}      ({remark})");
        }
        text
    }

    /// Returns a suggested command, so that it reaches the same cluster.
    pub fn command(&self, next: &NextCommand) -> String {
        let command = next.as_str();
        // Variables of the environment may precede the program.
        let program = command.split(' ').find(|word| !word.contains('='));
        let flags = match program {
            // It has the flag for the kubeconfig only.
            Some("kubectl") if command.starts_with("kubectl config") => &self.flags.file,
            Some("kubectl") => &self.flags.all,
            _ => return command.to_owned(),
        };
        NextCommand::default()
            .and(next.clone())
            .and(flags.clone())
            .as_str()
            .to_owned()
    }
}

impl Error {
    /// Returns the whole text: the sentence, then `why:` and `next:` lines.
    pub fn text(&self, render: &RenderOptions) -> String {
        // As kubectl: "Error from server (NotFound): …" and "error: …".
        let (label, rest) = match self.sentence().split_once(": ") {
            Some((label, rest)) if label.starts_with("Error from server") => (format!("{label}:"), rest),
            _ => ("error:".to_owned(), self.sentence()),
        };
        let mut text = render.styled(Style::Bad, "", &label, rest);
        for why in self.whys() {
            let _ = write!(text, "\n{}", render.sentence("  ", "why: ", why));
        }
        for next in self.nexts() {
            let _ = write!(text, "\n{}", render.next("  ", next));
        }
        text
    }
}

fn unwritten(source: &io::Error) -> Error {
    match source.kind() {
        // `status` piped to `head -1` is not a failure.
        io::ErrorKind::BrokenPipe => Error::new(Kind::Quiet, "stdout is closed"),
        _ => Error::failed(format!("cannot write the output: {}", system_error(source))),
    }
}

/// Ignores a closed stdout, for commands that do more than print.
pub fn tolerate_closed(written: Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == Kind::Quiet => Ok(()),
        other => other,
    }
}

/// The two output streams of a command and their properties.
pub struct Ui {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    screen: bool,
    talk_screen: bool,
    page: RenderOptions,
    talk: RenderOptions,
    progress: Option<String>,
    warnings: Warnings,
    ascii: bool,
}

/// Whether the locale has no Unicode. Without a locale, Unicode is used.
fn is_ascii(locale: impl Fn(&str) -> Option<String>) -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| locale(name).filter(|value| !value.is_empty()));
    said.is_some_and(|said| {
        let said = said.to_lowercase();
        !said.contains("utf-8") && !said.contains("utf8")
    })
}

/// Replaces characters that not every terminal has, one by one, so that columns are kept.
fn plain(text: &str) -> String {
    let letter = |c| match c {
        '├' | '│' => '|',
        '└' => '`',
        '─' => '-',
        '…' => '~',
        '✔' | '✓' => '+',
        '✖' | '✗' | '×' | '⚠' => '!',
        '→' | '▸' => '>',
        '●' | '•' => '*',
        c => c,
    };
    text.chars().map(letter).collect()
}

impl Ui {
    /// Returns the output of this process.
    ///
    /// `flags` are the flags that chose the cluster; suggested commands repeat them. `warnings` are the warnings of the API server,
    /// which are printed before the next output.
    pub fn new(color: Color, flags: &Flags, warnings: Warnings) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        // As tools that know the variable: 0 and false are no.
        let forced = std::env::var("FORCE_COLOR").is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()));
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let on = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto if set("NO_COLOR") || dumb => false,
            Color::Auto => terminal || forced,
        };
        let (screen, talk_screen) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            screen: screen && !dumb,
            talk_screen: talk_screen && !dumb,
            page: RenderOptions {
                color: on(screen),
                flags: flags.clone(),
                width: None,
            },
            talk: RenderOptions {
                color: on(talk_screen),
                flags: flags.clone(),
                width: None,
            },
            progress: None,
            warnings,
            ascii: is_ascii(|name| std::env::var(name).ok()),
        }
    }

    /// Returns how a page on stdout looks.
    pub fn render_options(&self) -> RenderOptions {
        RenderOptions {
            width: self.width(),
            ..self.page.clone()
        }
    }

    /// Whether stdout is a terminal.
    pub fn is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    /// Whether stdout is a terminal on which a page can be redrawn.
    pub const fn screen(&self) -> bool {
        self.screen
    }

    /// Whether the user can be prompted.
    pub fn can_ask() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// The number of columns of the terminal; `None` if stdout is not a terminal.
    pub fn width(&self) -> Option<usize> {
        self.screen
            .then(|| usize::from(Term::stdout().size().1))
            .filter(|width| *width > 0)
    }

    /// The lines and columns of the terminal.
    pub fn size() -> (u16, u16) {
        Term::stdout().size()
    }

    /// The number of lines of the terminal.
    pub fn height() -> usize {
        usize::from(Self::size().0)
    }

    /// Writes a page; without Unicode in the locale, branches and marks are replaced by ASCII.
    pub fn page(&mut self, text: &str) -> Result<()> {
        if self.ascii {
            return self.print(&plain(text));
        }
        self.print(text)
    }

    /// Writes lines of the result to stdout.
    pub fn print(&mut self, text: &str) -> Result<()> {
        self.print_warnings();
        self.clear_progress();
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        self.write_ansi(&format!("{text}{newline}"))
    }

    /// Writes bytes of the result to stdout.
    pub fn print_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.print_warnings();
        self.clear_progress();
        self.write_stdout(bytes)
    }

    /// Writes bytes to stdout.
    pub fn write_stdout(&mut self, bytes: &[u8]) -> Result<()> {
        self.out
            .write_all(bytes)
            .and_then(|()| self.out.flush())
            .map_err(|source| unwritten(&source))
    }

    /// Writes bytes to stderr.
    pub fn write_stderr(&mut self, bytes: &[u8]) {
        // A closed stderr can't be reported.
        let _ = self.err.write_all(bytes).and_then(|()| self.err.flush());
    }

    /// Writes escape sequences.
    fn write_ansi(&mut self, text: &str) -> Result<()> {
        self.write_stdout(text.as_bytes())
    }

    /// Prints a message to stderr.
    pub fn eprintln(&mut self, text: &str) {
        self.print_warnings();
        self.clear_progress();
        // A closed stderr can't be reported.
        let _ = writeln!(self.err, "{text}");
    }

    /// Prints a sentence to stderr, broken between words where the terminal ends.
    pub fn note(&mut self, sentence: &str) {
        let lines = wrap(&clean(sentence), self.talk_look().width);
        self.eprintln(&lines.join("\n"));
    }

    /// Adds a warning that the cluster may send, too. It is printed once.
    pub fn add_warning(&mut self, warning: String) {
        self.warnings.add(warning);
    }

    /// Drops the warnings that were not printed yet, as those about an object that was not stored.
    pub fn drop_warnings(&mut self) {
        self.warnings.take();
    }

    /// Prints warnings of the cluster, as kubectl does.
    pub fn print_warnings(&mut self) {
        for warning in self.warnings.take() {
            self.clear_progress();
            let text = self.talk_look().styled(Style::Busy, "", "Warning:", &warning);
            let _ = writeln!(self.err, "{text}");
        }
    }

    /// Prints the command to run next.
    pub fn next(&mut self, command: impl Into<NextCommand>) {
        let line = self.talk.next("", &command.into());
        self.eprintln(&line);
    }

    /// Prints a warning.
    pub fn warn(&mut self, text: &str) {
        self.eprintln(&self.talk_look().styled(Style::Busy, "", "Warning:", text));
    }

    /// Prints the progress of a wait: one line that is overwritten on a terminal, otherwise a line for each change.
    pub fn progress(&mut self, text: &str) {
        let text = clean(text);
        if self.progress.as_deref() == Some(text.as_str()) {
            return;
        }
        if self.talk_screen {
            let width = usize::from(Term::stderr().size().1).max(20);
            let _ = write!(self.err, "\r\x1b[K{}", truncate_str(&text, width - 1, ""));
            let _ = self.err.flush();
        } else {
            let _ = writeln!(self.err, "{text}");
        }
        self.progress = Some(text);
    }

    /// Prints an error.
    pub fn error(&mut self, error: &Error) {
        self.clear_progress();
        if error.kind() == Kind::Quiet || error.sentence().is_empty() {
            return;
        }
        self.eprintln(&error.text(&self.talk_look()));
    }

    /// Returns how a sentence on stderr looks.
    fn talk_look(&self) -> RenderOptions {
        let width = self.talk_screen.then(|| usize::from(Term::stderr().size().1));
        RenderOptions {
            width: width.filter(|width| *width > 0),
            ..self.talk.clone()
        }
    }

    /// Removes the line of [`Ui::progress`].
    pub fn clear_progress(&mut self) {
        if self.progress.take().is_some() && self.talk_screen {
            let _ = write!(self.err, "\r\x1b[K");
            let _ = self.err.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locale_without_unicode_is_detected() {
        for (variables, ascii) in [
            (&[][..], false),
            (&[("LANG", "")], false),
            (&[("LANG", "en_US.UTF-8")], false),
            (&[("LANG", "de_DE.utf8")], false),
            (&[("LANG", "C")], true),
            (&[("LC_ALL", "POSIX"), ("LANG", "C.UTF-8")], true),
            (&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")], false),
            (&[("LANG", "de_DE.ISO-8859-1")], true),
        ] {
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(is_ascii(value), ascii, "{variables:?}");
        }
    }

    fn flags() -> Flags {
        Flags {
            all: NextCommand::from("--context=dev"),
            ..Flags::default()
        }
    }

    #[test]
    fn text_is_wrapped_by_columns_and_long_words_are_kept() {
        assert_eq!(wrap("a bc def", Some(4)), ["a bc", "def"]);
        assert_eq!(wrap("a verylongword b", Some(4)), ["a", "verylongword", "b"]);
        assert_eq!(wrap("a b", None), ["a b"]);
        assert_eq!(wrap("", Some(4)), [""]);
        // Each of these characters takes two columns.
        assert_eq!(wrap("日本 語", Some(6)), ["日本", "語"]);
        let options = RenderOptions {
            width: Some(12),
            ..RenderOptions::default()
        };
        assert_eq!(
            options.sentence("", "why: ", "one two three"),
            "why:  one\n      two\n      three"
        );
        assert_eq!(
            options.sentence("", "Error from server:", "one two"),
            "Error from server: one\n      two"
        );
    }

    #[test]
    fn hidden_characters_are_replaced() {
        assert_eq!(clean("a\u{1b}[2J\u{202e}b\u{200b}c\nd"), "a [2J\u{fffd}b\u{fffd}c d");
    }

    #[test]
    fn flags_of_the_cluster_are_repeated_in_commands() {
        let render = RenderOptions {
            flags: flags(),
            ..RenderOptions::default()
        };
        assert_eq!(
            render.command(&"kubectl appdeploy status shop".into()),
            "kubectl appdeploy status shop --context=dev"
        );
        assert_eq!(
            render.command(&"kubectl config get-contexts".into()),
            "kubectl config get-contexts"
        );
        assert_eq!(render.command(&"log in again".into()), "log in again");
        let render = RenderOptions {
            flags: Flags {
                all: NextCommand::from("--kubeconfig=other --context=dev"),
                file: NextCommand::from("--kubeconfig=other"),
            },
            ..RenderOptions::default()
        };
        assert_eq!(
            render.command(&"kubectl config get-contexts".into()),
            "kubectl config get-contexts --kubeconfig=other"
        );
    }

    #[test]
    fn next_command_has_its_own_line() {
        let render = RenderOptions {
            flags: flags(),
            ..RenderOptions::default()
        };
        insta::assert_snapshot!(render.next("  ", &"kubectl appdeploy eject shop --yes  (to confirm)".into()), @r"
        next: kubectl appdeploy eject shop --yes --context=dev
              (to confirm)
        ");
    }

    #[test]
    fn page_without_unicode_keeps_its_columns() {
        let page = "└─ReplicaSet/a   0/1\n  ├─Pod/a-b…     0/1\n  │ └─Pod/c     1/1";
        insta::assert_snapshot!(plain(page), @r"
        `-ReplicaSet/a   0/1
          |-Pod/a-b~     0/1
          | `-Pod/c     1/1
        ");
    }

    #[test]
    fn error_begins_with_the_sentence_and_ends_with_the_command() {
        let error = Error::failed("the AppDeploy API is not installed in this cluster")
            .why("the server does not have appdeploys.appdeploy.dev")
            .next("kubectl appdeploy install");
        insta::assert_snapshot!(error.text(&RenderOptions::default()), @r"
        error: the AppDeploy API is not installed in this cluster
          why:  the server does not have appdeploys.appdeploy.dev
          next: kubectl appdeploy install
        ");
    }
}
