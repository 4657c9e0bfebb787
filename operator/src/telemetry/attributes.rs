//! OpenTelemetry's names of span fields. Log lines have shorter ones.

use std::time::Duration;

use opentelemetry::Key;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// The fields of spans, and their names in traces.
const NAMES: [(&str, &str); 9] = [
    ("kind", "k8s.object.kind"),
    ("namespace", "k8s.namespace.name"),
    ("name", "k8s.object.name"),
    ("generation", "k8s.object.generation"),
    ("reconcileID", "appdeploy.reconcile.id"),
    ("result", "appdeploy.reconcile.result"),
    ("verb", "k8s.request.verb"),
    ("resource", "k8s.request.resource"),
    ("code", "http.response.status_code"),
];

/// Exports spans with OpenTelemetry's names, which are set for a batch at a time.
#[derive(Debug)]
pub struct Named<E>(pub E);

impl<E: SpanExporter> SpanExporter for Named<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for attribute in batch.iter_mut().flat_map(|span| &mut span.attributes) {
            let known = NAMES.iter().find(|(field, _)| attribute.key.as_str() == *field);
            if let Some((_, name)) = known {
                attribute.key = Key::from_static_str(name);
            }
        }
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}
