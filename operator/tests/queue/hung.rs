//! A queue service that accepts connections and never answers.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::json;
use sqs::LimitSettings;

use super::{Space, queue_spec, space};
use crate::harness::{QUEUE, eventually, web};

/// The number of AppQueues whose service hangs.
const QUEUES: usize = 100;

/// A server that accepts connections and never answers. Its threads end with the process.
struct HungServer {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl HungServer {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = Self {
            address,
            open: open.clone(),
            most: most.clone(),
        };
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (open, most) = (open.clone(), most.clone());
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        server
    }
}

/// Returns the creates that an app costs, by resource.
fn creates_of_a_new_app(space: &Space, name: &str) -> BTreeMap<String, usize> {
    let mark = space.mark();
    space.settled_app(name, web());
    let asked = space.asked_since(mark);
    asked
        .that(|request| request.verb == "create" && request.name == name)
        .tally()
}

/// An operator that reconciled its kinds together, or waited for one service after the other, would not come to the app.
#[test]
fn hung_endpoint_delays_neither_apps_nor_other_queues() {
    let space = space("hung");
    space.credentials();
    let usual = creates_of_a_new_app(&space, "before");
    assert!(!usual.is_empty());
    let server = HungServer::start();
    let spec = queue_spec(&format!("http://{}", server.address), &json!({}), &json!({}));
    for number in 0..QUEUES {
        let object = json!({"metadata": {"name": format!("hung-{number}")}, "spec": spec});
        space.create(QUEUE, object);
    }
    let limit = LimitSettings::default().concurrency;
    eventually("as many calls hang as are allowed", || {
        server.most.load(Ordering::SeqCst) >= limit
    });
    assert_eq!(creates_of_a_new_app(&space, "shop"), usual);
    space.ready_queue("orders", &json!({}), &json!({}));
    for name in ["hung-0".to_owned(), format!("hung-{}", QUEUES - 1)] {
        space.until_reason(&name, "EndpointUnavailable");
    }
    // A connection is closed a moment after its call has ended, when another call may have begun.
    let most = server.most.load(Ordering::SeqCst);
    assert!(most <= 2 * limit, "{most} calls hung at the same time");
    for number in 0..QUEUES {
        space.delete(QUEUE, &format!("hung-{number}"));
    }
    eventually("all calls have ended", || server.open.load(Ordering::SeqCst) == 0);
}
