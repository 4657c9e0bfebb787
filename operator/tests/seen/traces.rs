//! The spans that a collector receives, and the costs without a collector.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use crate::harness::{free_address, web};
use crate::seen::cluster;
use crate::seen::collector::{Collector, Span};

/// Whether it is a reconcile of this object that made something.
fn made<'a>(spans: &'a [Span], name: &str) -> Option<&'a Span> {
    let mut reconciles = spans.iter().filter(|span| {
        span.name == "reconcile"
            && span
                .attributes
                .get("k8s.object.name")
                .is_some_and(|known| known == name)
    });
    reconciles.find(|reconcile| spans.iter().any(|span| span.parent == reconcile.id))
}

#[test]
fn reconcile_is_a_span_with_a_span_for_each_request() {
    let cluster = cluster();
    let collector = Collector::start();
    let shop = cluster.namespace("traces");
    let endpoint = format!("http://{}", collector.address);
    let operator = cluster.operator(&["--watch-namespace", "traces", "--otlp-endpoint", &endpoint]);
    // The log level does not apply to traces.
    assert_eq!(operator.debug("PUT", "/log-level", "off").0, 200);
    let app = shop.settled_app("shop", web());
    let mut refused = web();
    refused["resources"] = json!({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}});
    shop.settled_app("refused", refused);
    // What was not sent yet is sent at the end.
    let (status, took) = operator.terminate();
    assert!(status.success() && took < Duration::from_secs(5), "{took:?}");
    let spans = collector.until("both reconciles have come in", |spans| {
        made(spans, "shop").is_some() && made(spans, "refused").is_some()
    });

    let reconcile = made(&spans, "shop").unwrap();
    assert_eq!(reconcile.service, "appdeploy-operator");
    let known = |name: &str| reconcile.attributes.get(name).map(String::as_str);
    assert_eq!(known("k8s.object.kind"), Some("AppDeploy"));
    assert_eq!(known("k8s.namespace.name"), Some("traces"));
    assert_eq!(
        known("k8s.object.generation"),
        Some(&*app["metadata"]["generation"].to_string())
    );
    assert_eq!(known("appdeploy.reconcile.id").map(str::len), Some(16));
    assert_eq!(known("appdeploy.reconcile.result"), Some("success"));
    assert!(!reconcile.failed, "{reconcile:?}");
    let requests = |of: &Span| -> Vec<String> {
        let below = spans.iter().filter(|span| span.parent == of.id);
        below.map(|span| span.name.clone()).collect()
    };
    assert_eq!(
        requests(reconcile),
        [
            "create deployments",
            "create services",
            "create ingresses",
            "patch appdeploys/status"
        ]
    );
    assert!(
        reconcile.events.contains(&"created".to_owned()),
        "{:?}",
        reconcile.events
    );

    let refused = made(&spans, "refused").unwrap();
    assert!(
        refused.failed && refused.attributes["appdeploy.reconcile.result"] != "success",
        "{refused:?}"
    );
    let refusal = spans
        .iter()
        .find(|span| span.parent == refused.id && span.failed)
        .unwrap();
    assert_eq!(refusal.name, "create deployments");
    assert_eq!(
        refusal.attributes.get("http.response.status_code").map(String::as_str),
        Some("422")
    );
}

#[test]
fn missing_collector_is_logged_once() {
    let cluster = cluster();
    let shop = cluster.namespace("traces-away");
    let address = free_address();
    let endpoint = format!("http://{address}");
    let operator = cluster.operator(&["--watch-namespace", "traces-away", "--otlp-endpoint", &endpoint]);
    shop.settled_app("one", web());
    let said = |words: &str| operator.log().matches(words).count();
    crate::harness::eventually("it is said", || said("traces can't be sent") == 1);
    shop.settled_app("two", web());
    // As soon as a collector listens there, spans are exported from then on.
    let collector = Collector::on(TcpListener::bind(address).unwrap());
    crate::harness::eventually("it is said that it works", || {
        shop.set("two", json!({"replicas": fastrand::u8(1..9)}));
        std::thread::sleep(Duration::from_millis(500));
        said("traces can be sent again") == 1
    });
    collector.until("a reconcile has come in", |spans| made(spans, "two").is_some());
    assert_eq!(said("traces can't be sent"), 1, "{}", operator.log_tail(40));
}

#[test]
fn shutdown_does_not_wait_for_a_collector() {
    let cluster = cluster();
    let shop = cluster.namespace("traces-silent");
    // Connections are accepted, and no request is read.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let operator = cluster.operator(&["--watch-namespace", "traces-silent", "--otlp-endpoint", &endpoint]);
    shop.settled_app("one", web());
    let (status, took) = operator.terminate();
    assert!(status.success() && took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn invalid_address_is_reported_in_one_line() {
    let operator = cluster().spawn_operator(&["--otlp-endpoint", "collector:4318"]);
    assert_eq!(operator.until_ended().code(), Some(1));
    let said = "error: --otlp-endpoint is \"collector:4318\", which is not the address of a collector; write it like \
                http://collector:4318";
    assert_eq!(operator.log().trim_end(), said);
}
