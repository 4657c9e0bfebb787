//! The log: text or JSON on standard error, its level changeable while the operator runs.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

use crate::settings::LogFormat;

/// What is logged if nobody says anything. kube and the HTTP stack only when something is wrong.
const DEFAULT: &str = "info,kube=warn,hyper=warn,tower=warn";

/// Changes what is logged.
#[derive(Clone, Debug)]
pub struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Returns the filter in force.
    #[must_use]
    pub fn get(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Sets the filter, such as `debug` or `info,operator=trace`.
    ///
    /// # Errors
    /// Says what is wrong with the filter; the old one then stays in force.
    pub fn set(&self, filter: &str) -> Result<(), String> {
        let filter = EnvFilter::try_new(filter).map_err(|error| format!("{filter:?} is no log filter: {error}"))?;
        self.0.reload(filter).map_err(|error| error.to_string())
    }
}

/// Begins to log.
///
/// # Errors
/// Says what is wrong with the filter.
pub fn start(format: LogFormat, filter: Option<&str>) -> anyhow::Result<LogLevel> {
    let from_environment = std::env::var(EnvFilter::DEFAULT_ENV).ok();
    let text = filter.or(from_environment.as_deref()).unwrap_or(DEFAULT);
    let filter = EnvFilter::try_new(text).map_err(|error| {
        anyhow::anyhow!("{text:?} is no log filter: {error}; write it like info or info,operator=debug")
    })?;
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines
            .with_target(false)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).try_init()?;
    Ok(LogLevel(handle))
}
