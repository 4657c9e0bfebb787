//! Serves probes and metrics, and, on loopback only, the log level.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::error;

use crate::controller::Registered;
use crate::http_server::{self, Limits, PlainText};
use crate::informer::Need;
use crate::lease::Fence;
use crate::liveness::Liveness;
use crate::metrics::Metrics;
use crate::telemetry::LogLevel;
use crate::webhook::served::Served;

/// The state that probes and metrics report.
#[derive(Clone)]
pub struct ProbeState {
    /// The controllers, with what they watch.
    pub controllers: Arc<[Arc<Registered>]>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Whether this replica leads.
    pub fence: Fence,
    /// The certificate of webhooks, if they are served.
    pub certificate: Option<Served>,
}

/// Opens the port for probes and scrapes.
///
/// # Errors
/// Returns which address can't be used.
pub fn listen(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    http_server::listen(address).with_context(|| format!("can't listen on {address}; set {flag} to a free address"))
}

/// Serves `/healthz`, `/readyz` and `/metrics`, which change nothing. Never ends.
pub async fn serve(listener: TcpListener, probe_state: ProbeState) {
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(probe_state);
    http_server::serve(listener, PlainText, routes, Limits::probes(), pending()).await;
}

/// Serves `/log-level`. Never ends.
pub async fn serve_debug(listener: TcpListener, level: LogLevel) {
    let routes = Router::new()
        .route("/log-level", get(get_level).put(put_level))
        .with_state(level);
    http_server::serve(listener, PlainText, routes, Limits::probes(), pending()).await;
}

/// Healthy unless a loop is stuck: a watch, the dispatcher of a kind, or a reconcile. A restart repairs that. It does not help if the API
/// server is slow or does not answer, which is therefore not reported here.
async fn healthz(State(probe_state): State<ProbeState>) -> Response {
    let loops = probe_state.controllers.iter().flat_map(|registered| {
        let watches = registered.informers.iter().map(|informer| informer.store().liveness());
        watches.chain([registered.controller.queue().liveness()])
    });
    let stuck: Vec<String> = loops
        .flat_map(Liveness::stuck)
        .map(|(name, seconds)| format!("{name} has been stuck for {seconds} s\n"))
        .collect();
    if stuck.is_empty() {
        return "ok\n".into_response();
    }
    for line in &stuck {
        error!("{}; this is a bug, please report it", line.trim_end());
    }
    (StatusCode::SERVICE_UNAVAILABLE, stuck.concat()).into_response()
}

/// Ready once each needed kind was listed, and API servers can call the webhooks. The answer names what is missing. One unreadable
/// namespace of several does not count.
///
/// A watch that fails later does not count, either: all replicas would stop to serve webhooks at the same time. The metric
/// `appdeploy_watch_failing` reports it.
async fn readyz(State(probe_state): State<ProbeState>) -> Response {
    let mut waiting = Vec::new();
    let informers = probe_state
        .controllers
        .iter()
        .flat_map(|registered| &registered.informers);
    for informer in informers {
        let (resource, health) = (informer.resource(), informer.health());
        let needed = match informer.need() {
            Need::Always => true,
            Need::IfServed => !health.is_not_served(),
            Need::Helps => false,
        };
        if !health.is_usable() && needed {
            let error = health.error().unwrap_or_else(|| "not listed yet".to_owned());
            waiting.push(format!("{resource}: {error}\n"));
        }
    }
    if probe_state
        .certificate
        .is_some_and(|certificate| certificate.expires_at().is_none())
    {
        waiting.push("webhooks: there is no certificate yet; the log says why\n".to_owned());
    }
    if waiting.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, waiting.concat()).into_response()
}

async fn metrics(State(probe_state): State<ProbeState>) -> Response {
    probe_state.metrics.leads(probe_state.fence.is_open());
    // Without a certificate the value is in the past, so that the same alert fires.
    let expires_at = probe_state
        .certificate
        .as_ref()
        .map(|certificate| certificate.expires_at().unwrap_or(0));
    probe_state.metrics.certificate_expires_at(expires_at);
    let text = probe_state.metrics.render(&probe_state.controllers);
    (
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
        .into_response()
}

async fn get_level(State(level): State<LogLevel>) -> String {
    format!("{}\n", level.get())
}

async fn put_level(State(level): State<LogLevel>, filter: String) -> Response {
    match level.set(filter.trim()) {
        Ok(()) => format!("{}\n", level.get()).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use http_body_util::BodyExt as _;
    use k8s_openapi::api::networking::v1::IngressClass;
    use kube::discovery::ApiResource;
    use model::Failure;
    use tokio::time::advance;

    use super::*;
    use crate::controller::Controller;
    use crate::informer::{Informer, Select, Source, waking};
    use crate::key::Key;
    use crate::object_state::ObjectStates;
    use crate::object_state::retry::Retries;
    use crate::primary::ReadyState;
    use crate::queue::Queue;
    use crate::result::{ReconcileResult, Requeue};
    use crate::stores::{Classes, Store};

    /// Watches one kind and does nothing.
    struct Watching {
        queue: Arc<Queue<Key>>,
        store: Arc<Store<bool>>,
        states: ObjectStates<()>,
    }

    #[async_trait]
    impl Controller for Watching {
        fn kind(&self) -> &'static str {
            "Class"
        }

        fn name(&self) -> &'static str {
            "class"
        }

        fn queue(&self) -> &Arc<Queue<Key>> {
            &self.queue
        }

        fn retries(&self) -> &dyn Retries {
            &self.states
        }

        fn informers(&self) -> Vec<Informer> {
            let source = Source::<Classes> {
                resource: "classes",
                api: ApiResource::erase::<IngressClass>(&()),
                is_namespaced: false,
                select: Select::All,
                need: Need::Always,
                store: self.store.clone(),
                wake: waking(&self.queue),
                on_vanish: None,
            };
            vec![source.into()]
        }

        fn keys(&self) -> Vec<Key> {
            self.store.cache.keys()
        }

        fn ready_states(&self) -> Vec<ReadyState> {
            Vec::new()
        }

        async fn reconcile(&self, _: Key) -> ReconcileResult {
            Ok(Requeue::Done)
        }

        async fn report(&self, _: &Key, _: Failure) {}
    }

    #[tokio::test(start_paused = true)]
    async fn healthz_names_the_loop_that_is_stuck() {
        let queue = Arc::new(Queue::default());
        let store = Arc::new(Store::<bool>::default());
        let controllers = [Registered::new(Arc::new(Watching {
            queue: queue.clone(),
            store: store.clone(),
            states: ObjectStates::default(),
        }))];
        let probe_state = ProbeState {
            controllers: controllers.map(Arc::new).into(),
            metrics: Arc::new(Metrics::default()),
            fence: Fence::open(),
            certificate: None,
        };
        let healthz = async || {
            let (head, body) = healthz(State(probe_state.clone())).await.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
        };
        assert_eq!(healthz().await, (200, "ok\n".to_owned()));
        let watch = store.liveness.join("the watch of classes".to_owned());
        let dispatcher = queue.liveness().join("the dispatcher of AppDeploys".to_owned());
        advance(Duration::from_secs(130)).await;
        dispatcher.beat();
        let stuck = "the watch of classes has been stuck for 130 s\n";
        assert_eq!(healthz().await, (503, stuck.to_owned()));
        watch.beat();
        assert_eq!(healthz().await.0, 200);
    }
}
