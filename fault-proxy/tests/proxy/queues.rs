//! Faults of a queue service, with a real server.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use fault_proxy::{Action, Answer, QueueProxy, Requests, Rule, Verb};
use sqs::{AddressPolicy, Client, Clients, Credentials, Endpoint, Error, LimitSettings};
use testcluster::queue_servers::ElasticMq;
use tokio::runtime::Runtime;

use crate::TIMEOUT;

/// A server, a proxy in front of it, and a client of the proxy.
struct Stage {
    server: ElasticMq,
    proxy: QueueProxy,
    client: Client,
    runtime: Runtime,
}

impl Stage {
    fn new() -> Self {
        let server = ElasticMq::start(Ipv4Addr::LOCALHOST.into()).unwrap();
        let proxy = QueueProxy::before(server.address()).unwrap();
        Self {
            client: client(&proxy.url()),
            server,
            proxy,
            runtime: Runtime::new().unwrap(),
        }
    }

    fn add(&self, resource: &str, action: Action) {
        self.proxy.add(Rule::new(Requests::all().on(resource), action).nth(1));
    }

    fn create(&self, name: &str) -> Result<String, Error> {
        self.runtime
            .block_on(self.client.create_queue(name, &timeout("45"), &BTreeMap::new()))
    }

    fn timeout_of(&self, url: &str) -> Result<String, Error> {
        let attributes = self.runtime.block_on(self.client.attributes(url));
        attributes.map(|attributes| attributes["VisibilityTimeout"].clone())
    }

    fn exists(&self, name: &str) -> bool {
        let direct = client(&self.server.url());
        self.runtime.block_on(direct.queue_url(name)).is_ok()
    }
}

fn client(url: &str) -> Client {
    let limits = LimitSettings {
        timeout: TIMEOUT,
        ..LimitSettings::default()
    };
    let credentials = Credentials::new("any".to_owned(), "any".to_owned(), None);
    let endpoint = Endpoint::parse(url, "us-east-1").unwrap();
    Clients::new(AddressPolicy::AllowLocal, limits).client(endpoint, Arc::new(credentials))
}

fn timeout(seconds: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("VisibilityTimeout".to_owned(), seconds.to_owned())])
}

#[test]
fn calls_of_a_queue_service_are_recorded_and_can_fail() {
    let stage = Stage::new();
    let refused = Answer::queue_error(400, "QueueDeletedRecently", "wait 60 seconds");
    stage.add("CreateQueue", Action::Answer(refused));
    assert_eq!(stage.create("shop_orders"), Err(Error::DeletedRecently));
    assert!(!stage.exists("shop_orders"));

    let failed = Answer::queue_error(500, "InternalError", "try again");
    stage.add("CreateQueue", Action::ForwardThenAnswer(failed));
    assert!(matches!(stage.create("shop_orders"), Err(Error::Lost { .. })));
    assert!(stage.exists("shop_orders"), "the call was carried out");
    stage.create("shop_orders").unwrap();

    let records = stage.proxy.records();
    let calls: Vec<_> = records
        .iter()
        .map(|record| (record.request.verb, record.request.name.as_str(), record.told))
        .collect();
    let expected = [400, 500, 200].map(|status| (Verb::Create, "orders", Some(status)));
    assert_eq!(calls, expected);
}

#[test]
fn reads_of_a_queue_service_can_lag() {
    let stage = Stage::new();
    let url = stage.create("shop_orders").unwrap();
    let lag = || Action::Lag(Answer::queue_error(400, "QueueDoesNotExist", "no such queue"));
    stage.add("GetQueueAttributes", lag());
    assert_eq!(
        stage.timeout_of(&url),
        Err(Error::NoSuchQueue),
        "as before it was created"
    );
    assert_eq!(stage.timeout_of(&url).unwrap(), "45");

    stage
        .runtime
        .block_on(stage.client.set_attributes(&url, &timeout("50")))
        .unwrap();
    stage.add("GetQueueAttributes", lag());
    assert_eq!(stage.timeout_of(&url).unwrap(), "45", "as before the change");
    assert_eq!(stage.timeout_of(&url).unwrap(), "50");

    stage.runtime.block_on(stage.client.delete(&url)).unwrap();
    stage.add("GetQueueAttributes", lag());
    assert_eq!(stage.timeout_of(&url).unwrap(), "50", "as before the deletion");
    assert_eq!(stage.timeout_of(&url), Err(Error::NoSuchQueue));
}
