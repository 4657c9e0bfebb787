//! The result of a check.

use model::NextCommand;
use serde_json::{Value, json};

use crate::error::Error;
use crate::installation::check::code::Code;

/// The severity of a finding. The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// No problem.
    Ok,
    /// Information.
    Info,
    /// AppDeploy works, but something does not, may stop working, or is unknown.
    Warning,
    /// AppDeploy does not work.
    Error,
}

impl Severity {
    /// Returns the word, which is the same on the page and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// One sentence: lower case, no full stop.
    pub message: String,
    /// Details.
    pub why: Vec<String>,
    /// The commands that fix it, or what to do.
    pub next: Vec<NextCommand>,
}

impl Finding {
    /// Returns a finding.
    pub fn new(code: Code, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            message: message.into(),
            why: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Returns that all is well.
    pub fn ok(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Ok, message)
    }

    /// Returns additional information.
    pub fn info(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Info, message)
    }

    /// Returns a warning.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, message)
    }

    /// Returns an error.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, message)
    }

    /// Returns that `what` is unknown: a missing right is a warning, any other failure an error.
    pub fn unseen(code: Code, what: &str, error: &Error) -> Self {
        let finding = if error.is_forbidden() {
            Self::warning(code, format!("{what}: n/a (forbidden)"))
        } else {
            Self::error(code, format!("{what}: {}", error.sentence()))
        };
        Self {
            why: error.whys().to_vec(),
            next: error.nexts().to_vec(),
            ..finding
        }
    }

    /// Adds a particular.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// Adds a command that mends it.
    #[must_use]
    pub fn next(mut self, next: impl Into<NextCommand>) -> Self {
        self.next.push(next.into());
        self
    }

    /// Whether it is a warning or an error.
    pub fn is_trouble(&self) -> bool {
        self.severity >= Severity::Warning
    }

    /// Returns it for scripts.
    pub fn value(&self) -> Value {
        let next: Vec<String> = self.next.iter().map(ToString::to_string).collect();
        json!({
            "code": self.code.as_str(), "group": self.code.group().title(), "severity": self.severity.as_str(),
            "message": self.message, "why": self.why, "next": next, "see": self.code.page(),
        })
    }
}
