//! The Service of an app: reaches its pods from inside the cluster.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::child::{Child, ChildState, address};
use super::{ChildKind, Health, replace_list};
use crate::Valid;
use crate::defaults::{fill, list};
use crate::desired::ports::{Port, ports};
use crate::desired::{finish, meta, selector};
use crate::diagnose::{Diagnosis, diagnosis};
use crate::reason::Reason;

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
    let service = Service {
        metadata: meta(app),
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
