//! The plugin's only mouth: what was asked for goes to stdout, everything else to stderr.

use std::io::{self, IsTerminal as _, Write};

use dialoguer::console::Term;

use crate::error::{Error, Kind, Result};

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

/// What a piece of text means. No meaning is told by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// It works.
    Good,
    /// It is on its way.
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

/// Returns the text without what could steer a terminal: what stands in a cluster was written by anybody.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The two streams of a command and what is known about them.
pub struct Ui {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    screen: bool,
    talk_screen: bool,
    color: bool,
    talk_color: bool,
    progress: Option<String>,
}

impl Ui {
    /// Returns the mouth for this process.
    pub fn new(color: Color) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let on = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto if set("NO_COLOR") || dumb => false,
            Color::Auto => terminal || set("FORCE_COLOR"),
        };
        let (screen, talk_screen) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            screen: screen && !dumb,
            talk_screen: talk_screen && !dumb,
            color: on(screen),
            talk_color: on(talk_screen),
            progress: None,
        }
    }

    /// Whether stdout may be coloured.
    pub const fn color(&self) -> bool {
        self.color
    }

    /// Whether stdout is a terminal on which a page can be redrawn.
    pub const fn screen(&self) -> bool {
        self.screen
    }

    /// Whether somebody is there to answer a question.
    pub fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// The number of columns of the terminal; `None` where stdout is no terminal and nothing limits a line.
    pub fn width(&self) -> Option<usize> {
        self.screen
            .then(|| usize::from(Term::stdout().size().1))
            .filter(|width| *width > 0)
    }

    /// The number of lines of the terminal.
    pub fn height(&self) -> usize {
        usize::from(Term::stdout().size().0)
    }

    /// Writes a line, or several, of what was asked for.
    pub fn print(&mut self, text: &str) -> Result<()> {
        self.clear_progress();
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        write!(self.out, "{text}{newline}")
            .and_then(|()| self.out.flush())
            .map_err(|source| match source.kind() {
                // `kubectl appdeploy status | head -1` is no failure.
                io::ErrorKind::BrokenPipe => Error::new(Kind::Quiet, "nobody reads the output"),
                _ => Error::failed(format!("cannot write the output: {source}")),
            })
    }

    /// Says something to the person.
    pub fn say(&mut self, text: &str) {
        self.clear_progress();
        // Nobody is left to tell when stderr is gone.
        let _ = writeln!(self.err, "{text}");
    }

    /// Says what to run next.
    pub fn next(&mut self, command: &str) {
        let label = paint(self.talk_color, Style::Label, "next:");
        self.say(&format!("{label} {command}"));
    }

    /// Says what may be a surprise.
    pub fn warn(&mut self, text: &str) {
        let label = paint(self.talk_color, Style::Busy, "warning:");
        self.say(&format!("{label} {text}"));
    }

    /// Says what is being waited for: one line that is overwritten on a terminal, else a line for each change.
    pub fn progress(&mut self, text: &str) {
        let text = clean(text);
        if self.progress.as_deref() == Some(text.as_str()) {
            return;
        }
        if self.talk_screen {
            let width = usize::from(Term::stderr().size().1).max(20);
            let line: String = text.chars().take(width - 1).collect();
            let _ = write!(self.err, "\r\x1b[K{line}");
            let _ = self.err.flush();
        } else {
            let _ = writeln!(self.err, "{text}");
        }
        self.progress = Some(text);
    }

    /// Tells an error, label in colour.
    pub fn error(&mut self, error: &Error) {
        if error.kind() == Kind::Quiet {
            return;
        }
        let mut text = String::new();
        for (index, line) in error.text().lines().enumerate() {
            let line = clean(line);
            let painted = ["error:", "Error from server", "  why:", "  next:"]
                .iter()
                .find_map(|label| {
                    let rest = line.strip_prefix(label)?;
                    let style = if index == 0 { Style::Bad } else { Style::Label };
                    Some(format!("{}{rest}", paint(self.talk_color, style, label)))
                });
            if index > 0 {
                text.push('\n');
            }
            text.push_str(&painted.unwrap_or(line));
        }
        self.say(&text);
    }

    /// Takes away the line that [`Ui::progress`] left.
    pub fn clear_progress(&mut self) {
        if self.progress.take().is_some() && self.talk_screen {
            let _ = write!(self.err, "\r\x1b[K");
            let _ = self.err.flush();
        }
    }
}
