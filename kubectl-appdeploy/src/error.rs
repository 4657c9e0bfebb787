//! The error type of the plugin: a sentence, reasons, and the command to run next.

use std::process::ExitCode;

use model::NextCommand;

/// How a command ended when it failed. The exit code follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The reader of stdout has closed it.
    Quiet,
    /// Something is wrong in the cluster, with the connection or with a right.
    Failed,
    /// The command line is invalid.
    Usage,
    /// It will not become ready without a change.
    Stalled,
    /// It did not become ready in time, and still may.
    TimedOut,
    /// A command in a pod ended with this exit code, and has printed its own error.
    Passed(u8),
    /// Two things are not the same, and what differs has been shown.
    Differs,
    /// It is unknown whether the compared objects are equal.
    NotCompared,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// A signal ended the command, with this exit code.
    Terminated(u8),
}

/// The only error type of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: Kind,
    message: String,
    why: Vec<String>,
    next: Vec<NextCommand>,
}

/// What every fallible function of the plugin returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns why an operation of the system failed, without the number of the error.
pub fn system_error(source: &std::io::Error) -> String {
    let text = source.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(rest).collect()
}

impl Error {
    /// Returns an error of a kind with its sentence: lower case, no full stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            why: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Returns an error that ends in exit code 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// Returns an error that ends in exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Adds the name of the object, if the server's message lacks it.
    #[must_use]
    pub fn about(mut self, object: &str) -> Self {
        self.message = match self.message.split_once("): ") {
            Some((head, rest)) if head.starts_with("Error from server") => format!("{head}): {object}: {rest}"),
            _ => self.message,
        };
        self
    }

    /// Adds one reason below the sentence.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// Adds a command that can be run as it stands, or what to do, below the sentence. A remark on a command follows it in
    /// brackets, after two spaces.
    #[must_use]
    pub fn next(mut self, next: impl Into<NextCommand>) -> Self {
        self.next.push(next.into());
        self
    }

    /// Returns the same error for a command whose exit code 1 means that objects differ.
    #[must_use]
    pub fn of_a_comparison(self) -> Self {
        match self.kind {
            Kind::Failed => Self {
                kind: Kind::NotCompared,
                ..self
            },
            _ => self,
        }
    }

    /// Returns the kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns only the sentence, for a line of a list.
    pub fn sentence(&self) -> &str {
        &self.message
    }

    /// Whether the API server or a webhook has rejected the request as invalid, so that another one may be accepted.
    pub fn is_refusal(&self) -> bool {
        const REFUSALS: [&str; 4] = [
            "Error from server (Invalid)",
            "Error from server (BadRequest)",
            "the operator rejected it",
            "admission webhook ",
        ];
        REFUSALS.iter().any(|start| self.message.starts_with(start))
    }

    /// Whether a right is missing.
    pub fn is_forbidden(&self) -> bool {
        self.message.starts_with("Error from server (Forbidden)")
    }

    /// Returns the reasons.
    pub fn whys(&self) -> &[String] {
        &self.why
    }

    /// Returns the commands, or what to do.
    pub fn nexts(&self) -> &[NextCommand] {
        &self.next
    }

    /// Whether the requested object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.message.starts_with("Error from server (NotFound)")
    }

    /// Whether an object of that name exists already.
    pub fn already_exists(&self) -> bool {
        self.message.starts_with("Error from server (AlreadyExists)")
    }

    /// Returns the reasons in one line, for a prompt.
    pub fn reasons(&self) -> String {
        self.why.join("; ")
    }

    /// Returns the exit code that scripts rely on.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.kind {
            Kind::Quiet => 0,
            Kind::Failed | Kind::Differs => 1,
            Kind::Usage | Kind::NotCompared => 2,
            Kind::Stalled => 3,
            Kind::TimedOut => 4,
            Kind::Passed(code) | Kind::Terminated(code) => code,
            Kind::Interrupted => 130,
        })
    }
}
