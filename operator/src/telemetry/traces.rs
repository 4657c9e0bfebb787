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

/// The operator's default name in traces; `OTEL_SERVICE_NAME` sets another one.
const SERVICE: &str = "appdeploy-operator";

/// How long the operator waits at its end until all spans are sent.
const FLUSH: Duration = Duration::from_secs(2);

/// The traces of this process, if there are any.
#[derive(Debug)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Sends traces to the address in the flag or the environment, if there is one.
    ///
    /// # Errors
    /// Returns what is wrong with the address. Nothing is sent yet.
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

    /// Returns the layer that receives the spans.
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

    /// Sends the remaining spans, for a limited time.
    pub async fn end(self) {
        if let Some(provider) = self.0 {
            let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH));
            // The connection logs failures itself.
            let _ = ended.await;
        }
    }
}

/// Whether a span or event is the operator's own, not one of the libraries that send spans.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    target.starts_with("operator") && (metadata.is_span() || *metadata.level() <= Level::INFO)
}
