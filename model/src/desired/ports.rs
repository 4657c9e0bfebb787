//! The ports of the container and of the Service.

use crd::{ContainerFields, PortProtocol};

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
