//! The log, lines of text or JSON on standard error, whose level can be changed at run time; and traces, if a collector is
//! configured.

mod attributes;
mod collector;
mod endpoint;
mod json;
mod panics;
mod traces;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

use crate::settings::{LogFormat, Settings};
use json::{Fields, Lines};
pub use traces::Traces;

/// The default filter. kube and the HTTP stack log only warnings.
const DEFAULT: &str = "info,kube=warn,hyper=warn,tower=warn";

/// The variable with a filter for all programs that log with `tracing`.
const VARIABLE: &str = "RUST_LOG";

/// Changes the log level.
#[derive(Clone, Debug)]
pub struct LogLevel(reload::Handle<Targets, Registry>);

impl LogLevel {
    /// Returns the level of a process whose log was started elsewhere. It can't be changed.
    #[must_use]
    pub fn fixed() -> Self {
        let (_, handle) = reload::Layer::new(Targets::new());
        Self(handle)
    }

    /// Returns the filter in force.
    #[must_use]
    pub fn get(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Sets the filter, such as `debug` or `info,operator=debug`.
    ///
    /// # Errors
    /// Returns what is wrong with the filter; then the former one stays in force.
    pub fn set(&self, filter: &str) -> Result<(), String> {
        let filter: Targets = filter
            .parse()
            .map_err(|error| format!("invalid log filter {filter:?}: {error}"))?;
        self.0.reload(filter).map_err(|error| error.to_string())
    }
}

/// Starts the log and, if a collector is configured, traces. Must be called within the runtime, which sends the spans.
///
/// # Errors
/// Returns what is wrong with the filter, or with the address of the collector.
pub fn start(settings: &Settings) -> anyhow::Result<(LogLevel, Traces)> {
    let from_environment = std::env::var(VARIABLE).ok();
    let text = settings.log_level.as_deref().or(from_environment.as_deref());
    let text = text.unwrap_or(DEFAULT);
    let filter: Targets = text.parse().map_err(|error| {
        anyhow::anyhow!("invalid log filter {text:?}: {error}; write it like info or info,operator=debug")
    })?;
    // The filter applies to log lines only, not to traces.
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match settings.log_format {
        LogFormat::Text => lines
            .with_target(false)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .with_filter(filter)
            .boxed(),
        LogFormat::Json => lines.fmt_fields(Fields).event_format(Lines).with_filter(filter).boxed(),
    };
    let traces = Traces::to(settings.otlp_endpoint.as_deref())?;
    tracing_subscriber::registry()
        .with(lines)
        .with(traces.layer())
        .try_init()?;
    panics::log();
    Ok((LogLevel(handle), traces))
}
