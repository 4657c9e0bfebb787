//! Traces over OTLP: a span for each reconcile, with one for each request that it makes below it.

use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::registry::LookupSpan;

use super::attributes::Named;
use super::collector::Collector;
use super::endpoint::endpoint;

/// What the operator is called in traces. `OTEL_SERVICE_NAME` calls it otherwise.
const SERVICE: &str = "appdeploy-operator";

/// The longest that the end of the operator waits for what was not sent yet.
const FLUSH: Duration = Duration::from_secs(2);

/// The traces of this process, if it makes any.
#[derive(Debug)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Sends traces to where the flag or the environment says, or makes none.
    ///
    /// # Errors
    /// Says what is wrong with the address. Whether somebody answers there is not asked.
    pub(super) fn to(flag: Option<&str>) -> anyhow::Result<Self> {
        let Some(endpoint) = endpoint(flag, |name| std::env::var(name).ok())? else {
            return Ok(Self(None));
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::at(&endpoint)?)
            .with_endpoint(endpoint.to_string())
            .build()
            .with_context(|| format!("traces can't be sent to {endpoint}"))?;
        let mut about = vec![KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
        about.extend(std::env::var("HOSTNAME").map(|pod| KeyValue::new("service.instance.id", pod)));
        let mut resource = Resource::builder().with_attributes(about);
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(SERVICE);
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(Named(exporter))
            .build();
        Ok(Self(Some(provider)))
    }

    /// Returns what takes in the spans.
    pub(super) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let provider = self.0.as_ref()?;
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_level(true);
        let ours = FilterFn::new(is_ours as fn(&Metadata<'_>) -> bool).with_max_level_hint(LevelFilter::DEBUG);
        Some(layer.with_filter(ours))
    }

    /// Sends what was not sent yet, if that is soon done.
    pub async fn end(self) {
        if let Some(provider) = self.0 {
            let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH));
            // Whoever listens is told by the collector's log lines.
            let _ = ended.await;
        }
    }
}

/// Our own spans, and what the log says within them by default. What libraries do to send a span is none.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    target.starts_with("operator") && (metadata.is_span() || *metadata.level() <= Level::INFO)
}
