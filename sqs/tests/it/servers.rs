//! The real servers, each started once and shared by concurrent tests.

use std::net::Ipv4Addr;
use std::sync::Arc;

use sqs::{AddressPolicy, Client, Clients, Credentials, Endpoint, LimitSettings};
use testcluster::queue_servers::{AccessKey, ElasticMq, Moto};
use testcluster::shared::Shared;

/// Which server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    ElasticMq,
    Moto,
}

/// A server and a client of it.
#[derive(Debug)]
pub struct Server {
    pub name: Name,
    pub client: Client,
    /// Stopped when the last test that uses it ends.
    _running: Box<dyn std::fmt::Debug>,
}

/// Returns ElasticMQ, which accepts any credentials.
pub fn elasticmq() -> Server {
    static SHARED: Shared<ElasticMq> = Shared::new();
    let server = SHARED.get(|| ElasticMq::start(Ipv4Addr::LOCALHOST.into()).unwrap());
    let key = AccessKey {
        id: "any".to_owned(),
        secret: "any".to_owned(),
        token: None,
    };
    Server {
        name: Name::ElasticMq,
        client: client(&server.url(), &key),
        _running: Box::new(server),
    }
}

/// Returns moto, with authentication, and a client with a valid key.
pub fn moto() -> Server {
    static SHARED: Shared<Moto> = Shared::new();
    let server = SHARED.get(|| Moto::start(Ipv4Addr::LOCALHOST.into()).unwrap());
    Server {
        name: Name::Moto,
        client: client(&server.url(), server.key()),
        _running: Box::new(server),
    }
}

/// Returns a client with limits that no test reaches.
pub fn client(url: &str, key: &AccessKey) -> Client {
    let limits = LimitSettings {
        rate: 1000,
        burst: 1000,
        timeout: std::time::Duration::from_secs(60),
        ..LimitSettings::default()
    };
    let credentials = Credentials::new(key.id.clone(), key.secret.clone(), key.token.clone());
    let endpoint = Endpoint::parse(url, "us-east-1").unwrap();
    Clients::new(AddressPolicy::AllowLocal, limits).client(endpoint, Arc::new(credentials))
}
