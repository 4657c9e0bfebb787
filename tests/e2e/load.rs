//! Sends requests to a Service and to the pods behind it, one after the other, while these are changed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use testcluster::http::Request;
use testcluster::node::Node;

/// The timeout of a request. Long, because a machine may be busy; a pod whose container restarts refuses connections
/// immediately.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The time between two requests to the same address.
const INTERVAL: Duration = Duration::from_millis(20);

/// The outcome of the requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The number of requests to the Service.
    pub requests: usize,
    /// The number of these without a response.
    pub dropped: usize,
    /// The maximum number of pods that did not answer at the same time.
    pub most_down: usize,
}

/// Requests that are being sent.
pub struct Load {
    is_over: Arc<AtomicBool>,
    service: JoinHandle<io::Result<(usize, usize)>>,
    pods: JoinHandle<io::Result<usize>>,
}

impl Load {
    /// Starts to send requests to a Service, and to each pod behind it, from the node's network.
    pub fn start(node: &Node, service: SocketAddr, pods: Vec<SocketAddr>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let own_node = node.clone();
        let to_service = thread::spawn(move || {
            own_node.in_network(|| {
                let (mut requests, mut dropped) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    requests += 1;
                    dropped += usize::from(!answers(service));
                    thread::sleep(INTERVAL);
                }
                (requests, dropped)
            })
        });
        let stop = Arc::clone(&is_over);
        let own_node = node.clone();
        let to_pods = thread::spawn(move || {
            own_node.in_network(|| {
                let mut most = 0;
                while !stop.load(Ordering::Relaxed) {
                    let silent: Vec<_> = pods.iter().filter(|pod| !answers(**pod)).collect();
                    // Checked a second time, because the first requests were not sent at the same time.
                    let down = silent.into_iter().filter(|pod| !answers(**pod)).count();
                    most = most.max(down);
                    thread::sleep(INTERVAL);
                }
                most
            })
        });
        Self {
            is_over,
            service: to_service,
            pods: to_pods,
        }
    }

    /// Stops the requests, and returns their outcome.
    pub fn stop(self) -> Result<Outcome> {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = || "the thread that sends requests panicked";
        let network = "failed to enter the node's network";
        let (requests, dropped) = self.service.join().ok().with_context(ended)?.context(network)?;
        let most_down = self.pods.join().ok().with_context(ended)?.context(network)?;
        Ok(Outcome {
            requests,
            dropped,
            most_down,
        })
    }
}

fn answers(address: SocketAddr) -> bool {
    let request = Request {
        timeout: TIMEOUT,
        ..Request::default()
    };
    request.send(address).is_ok_and(|response| response.status == 200)
}
