//! What the operator says of its work: lines on standard error, text or JSON, whose level can be changed while it runs; and
//! spans to a collector, if it is told of one.

mod attributes;
mod collector;
mod endpoint;
mod json;
mod panics;
mod traces;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

use crate::settings::{LogFormat, Settings};
use json::{Fields, Lines};
pub use traces::Traces;

/// What is logged if nobody says anything. kube and the HTTP stack only when something is wrong.
const DEFAULT: &str = "info,kube=warn,hyper=warn,tower=warn";

/// Changes what is logged.
#[derive(Clone, Debug)]
pub struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Returns the level of a process whose log was started elsewhere. It can't be changed.
    #[must_use]
    pub fn fixed() -> Self {
        let (_, handle) = reload::Layer::new(EnvFilter::new(DEFAULT));
        Self(handle)
    }

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

/// Begins to log and, if told where to, to trace. Has to be called within the runtime, which sends the spans.
///
/// # Errors
/// Says what is wrong with the filter, or with the address of the collector.
pub fn start(settings: &Settings) -> anyhow::Result<(LogLevel, Traces)> {
    let from_environment = std::env::var(EnvFilter::DEFAULT_ENV).ok();
    let text = settings.log_level.as_deref().or(from_environment.as_deref());
    let text = text.unwrap_or(DEFAULT);
    let filter = EnvFilter::try_new(text).map_err(|error| {
        anyhow::anyhow!("{text:?} is no log filter: {error}; write it like info or info,operator=debug")
    })?;
    // The filter is that of the lines alone: a quiet log does not end the traces.
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
