//! The ports of the container and of the Service.

use crd::{ContainerFields, PodFields, PortProtocol};

use super::PORT;

/// A port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port<'a> {
    pub name: &'a str,
    pub number: i32,
    pub protocol: PortProtocol,
    pub app_protocol: Option<&'a str>,
}

/// Returns all ports of a container: the main one, then the others.
pub(crate) fn ports(fields: &ContainerFields) -> Vec<Port<'_>> {
    let main = fields.port.map(|number| Port {
        name: PORT,
        number,
        protocol: PortProtocol::Tcp,
        app_protocol: None,
    });
    let others = fields.ports.iter().map(|port| Port {
        name: &port.name,
        number: port.port,
        protocol: port.protocol(),
        app_protocol: port.app_protocol.as_deref(),
    });
    main.into_iter().chain(others).collect()
}

/// The name of the port of the metrics, if no other port has its number.
const METRICS: &str = "metrics";

/// The path of the metrics, if the spec names none.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// Where the metrics of an app are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetricsEndpoint<'a> {
    pub port: Port<'a>,
    pub path: &'a str,
    /// Whether the port is one of the Service. Otherwise only the container has it.
    pub is_of_service: bool,
}

/// Returns where the metrics of an app are; `None` without any.
pub(crate) fn metrics(pod: &PodFields) -> Option<MetricsEndpoint<'_>> {
    let metrics = pod.metrics.as_ref()?;
    let number = metrics.port.or(pod.container.port)?;
    let mut known = ports(&pod.container).into_iter();
    let known = known.find(|port| port.number == number && port.protocol == PortProtocol::Tcp);
    Some(MetricsEndpoint {
        port: known.unwrap_or(Port {
            name: METRICS,
            number,
            protocol: PortProtocol::Tcp,
            app_protocol: None,
        }),
        path: metrics.path.as_deref().unwrap_or(METRICS_PATH),
        is_of_service: known.is_some(),
    })
}

/// Returns the ports of the container: those of the Service, and that of the metrics.
pub(crate) fn container_ports(pod: &PodFields) -> Vec<Port<'_>> {
    let own = metrics(pod).filter(|metrics| !metrics.is_of_service);
    let own = own.map(|metrics| metrics.port);
    ports(&pod.container).into_iter().chain(own).collect()
}
