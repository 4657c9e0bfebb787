//! Requests to the pods of a set, one after the other, for as long as something is done to them.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use testcluster::node::Node;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time between two requests to the same address.
const INTERVAL: Duration = Duration::from_millis(20);

/// What came of the requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// How many were sent to the Service.
    pub requests: usize,
    /// How many of these had no answer.
    pub dropped: usize,
    /// How many pods did not answer at the same time, at most.
    pub most_down: usize,
}

/// Requests that are being sent.
pub struct Load {
    ends: Arc<AtomicBool>,
    service: JoinHandle<io::Result<(usize, usize)>>,
    pods: JoinHandle<io::Result<usize>>,
}

impl Load {
    /// Starts to send requests to a Service, and to each pod behind it, from the node's network.
    pub fn start(node: &Node, service: SocketAddr, pods: Vec<SocketAddr>) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let there = node.clone();
        let to_service = thread::spawn(move || {
            there.in_network(|| {
                let (mut requests, mut dropped) = (0, 0);
                while !until.load(Ordering::Relaxed) {
                    requests += 1;
                    dropped += usize::from(!answers(service));
                    thread::sleep(INTERVAL);
                }
                (requests, dropped)
            })
        });
        let until = Arc::clone(&ends);
        let there = node.clone();
        let to_pods = thread::spawn(move || {
            there.in_network(|| {
                let mut most = 0;
                while !until.load(Ordering::Relaxed) {
                    let silent: Vec<_> = pods.iter().filter(|pod| !answers(**pod)).collect();
                    // Asked a second time: those that were not down at the same time do not count.
                    let down = silent.into_iter().filter(|pod| !answers(**pod)).count();
                    most = most.max(down);
                    thread::sleep(INTERVAL);
                }
                most
            })
        });
        Self {
            ends,
            service: to_service,
            pods: to_pods,
        }
    }

    /// Stops, and returns what came of it.
    pub fn stop(self) -> Result<Outcome> {
        self.ends.store(true, Ordering::Relaxed);
        let ended = || "a thread that sends requests has panicked";
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
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET / HTTP/1.0\r\nHost: web\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
}
