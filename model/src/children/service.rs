//! The Service of an app: reaches its pods from inside the cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::child::{Child, ChildState, address};
use super::{ChildKind, Health, POD_MONITOR, replace_list};
use crate::Valid;
use crate::defaults::{fill, list};
use crate::desired::ports::{MetricsEndpoint, Port, metrics, ports};
use crate::desired::{finish, meta, selector};
use crate::diagnose::{Diagnosis, diagnosis};
use crate::reason::Reason;

/// The annotations for Prometheus.
pub(crate) const SCRAPE: &str = "prometheus.io/scrape";
pub(crate) const SCRAPED_PORT: &str = "prometheus.io/port";
pub(crate) const SCRAPED_PATH: &str = "prometheus.io/path";

/// The Service of an app with a port.
pub static SERVICE: ChildKind = ChildKind {
    read,
    health,
    defaults,
    ports_patch: |object| Some(json!({"ports": replace_list(&object["spec"]["ports"])?})),
    ..ChildKind::new(["", "v1", "Service", "services"], render)
};

fn render(app: &Valid<'_>) -> Vec<Value> {
    if app.route.is_none() {
        return Vec::new();
    }
    let mut meta = meta(app);
    if !app.serves(&POD_MONITOR) {
        meta.annotations = metrics(app.pod).map(annotations);
    }
    let service = Service {
        metadata: meta,
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(selector(&app.name)),
            ports: Some(ports(&app.pod.container).into_iter().map(port).collect()),
            ..ServiceSpec::default()
        }),
        status: None,
    };
    vec![finish(&SERVICE, &service)]
}

/// Returns the annotations by which a Prometheus without the Prometheus Operator usually finds metrics. They are on the Service,
/// so that a change restarts no pod.
fn annotations(metrics: MetricsEndpoint<'_>) -> BTreeMap<String, String> {
    [
        (SCRAPE, "true".to_owned()),
        (SCRAPED_PORT, metrics.port.number.to_string()),
        (SCRAPED_PATH, metrics.path.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn port(port: Port<'_>) -> ServicePort {
    ServicePort {
        name: Some(port.name.into()),
        port: port.number,
        // By name, so that pods of the old and of the new port are both reached while a change of the port rolls out.
        target_port: Some(IntOrString::String(port.name.into())),
        protocol: Some(port.protocol.as_str().into()),
        app_protocol: port.app_protocol.map(str::to_owned),
        ..ServicePort::default()
    }
}

fn read(_: &ObjectMeta, data: &Value) -> ChildState {
    ChildState::Address(address(data, "/spec/clusterIP"))
}

fn health(of: Health<'_>) -> Option<Diagnosis> {
    let service = of.observed.first(&SERVICE)?;
    let is_pending = of.valid.route.is_some() && Child::address(service).is_none();
    is_pending.then(|| diagnosis(Reason::AddressPending, "the Service has no cluster IP yet", None))
}

fn defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(
        spec,
        &json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}),
    );
    for port in list(spec, "ports") {
        let number = port["port"].clone();
        fill(port, &json!({"protocol": "TCP", "targetPort": number}));
    }
}
