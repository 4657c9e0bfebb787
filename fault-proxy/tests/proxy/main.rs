//! Each action of the proxy, with a real client and a real API server. kubectl uses HTTP/1.1, except in `http2.rs`.

#![expect(clippy::unwrap_used, reason = "clippy takes the functions that tests share for code")]

mod http2;
mod queues;
mod requests;
mod watches;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use fault_proxy::{Error, Proxy, Requests, Verb};
use serde_json::{Value, json};
use testcluster::shared::Shared;
use testcluster::{ControlPlane, Kubectl};

const TIMEOUT: Duration = Duration::from_secs(30);
/// How long there must be no event until a test assumes that there will be none.
const QUIET: Duration = Duration::from_millis(500);

static SHARED: Shared<ControlPlane> = Shared::new();

/// A namespace of a control plane, and a client that accesses it through a proxy.
struct Stage {
    namespace: &'static str,
    proxy: Proxy,
    kubectl: Kubectl,
    control_plane: Arc<ControlPlane>,
}

impl Stage {
    fn new(namespace: &'static str) -> Self {
        Self::with(namespace, |control_plane| {
            Proxy::without_http2(control_plane, "operator", &["system:masters"])
        })
    }

    /// Returns a stage whose proxy offers HTTP/2, too.
    fn with_http2(namespace: &'static str) -> Self {
        Self::with(namespace, |control_plane| {
            Proxy::before(control_plane, "operator", &["system:masters"])
        })
    }

    fn with(namespace: &'static str, proxy: impl FnOnce(&ControlPlane) -> Result<Proxy, Error>) -> Self {
        let control_plane = SHARED.get(|| ControlPlane::start().unwrap());
        control_plane.kubectl(&["create", "namespace", namespace]).unwrap();
        let proxy = proxy(&control_plane).unwrap();
        let kubectl = control_plane.kubectl_as(proxy.kubeconfig());
        Self {
            namespace,
            proxy,
            kubectl,
            control_plane,
        }
    }

    fn create(&self, name: &str) -> Result<String, testcluster::kubectl::Error> {
        self.create_with(name, &[])
    }

    /// Creates a ConfigMap, with flags.
    fn create_with(&self, name: &str, flags: &[&str]) -> Result<String, testcluster::kubectl::Error> {
        // An object from a file is sent as JSON.
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": self.namespace},
        });
        let arguments: Vec<&str> = ["create", "--validate=false", "-f", "-"]
            .iter()
            .chain(flags)
            .copied()
            .collect();
        self.kubectl.run_with_input(&arguments, &object.to_string())
    }

    fn delete(&self, name: &str) {
        self.control_plane
            .kubectl(&["delete", "configmap", name, "-n", self.namespace])
            .unwrap();
    }

    /// Reads the object directly from the API server.
    fn exists(&self, name: &str) -> bool {
        self.control_plane
            .kubectl(&["get", "configmap", name, "-n", self.namespace])
            .is_ok()
    }

    /// Returns the API server's answer to each request, and the answer that the client received.
    fn told(&self, verb: Verb, resource: &str) -> Vec<(Option<u16>, Option<u16>)> {
        let records = self.proxy.records();
        let of_it = records
            .iter()
            .filter(|record| record.request.verb == verb && record.request.resource == resource);
        of_it.map(|record| (record.status, record.told)).collect()
    }

    /// Opens a watch, and waits until the proxy has it.
    fn watch(&self) -> Watch {
        let before = count(&self.proxy.records(), Verb::Watch);
        let path = format!("/api/v1/namespaces/{}/configmaps?watch=true", self.namespace);
        let mut command = self.kubectl.command();
        command
            .args(["get", "--raw", &path])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        self.proxy
            .wait_for(TIMEOUT, |records| {
                let mut watches = records
                    .iter()
                    .filter(|record| record.request.verb == Verb::Watch)
                    .skip(before);
                watches.any(|record| record.told == Some(200))
            })
            .unwrap();
        Watch { child, lines }
    }
}

struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    /// Returns the type and the name of the next event.
    fn next(&mut self) -> [String; 2] {
        let line = self.lines.recv_timeout(TIMEOUT).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        [&event["type"], &event["object"]["metadata"]["name"]].map(|text| text.as_str().unwrap_or_default().to_owned())
    }

    fn hears_nothing(&mut self) {
        assert_eq!(self.lines.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout));
        assert!(self.child.try_wait().unwrap().is_none(), "the watch ended");
    }

    /// Waits until the watch ends without another event, and returns the client's message.
    fn end(mut self) -> String {
        assert_eq!(self.lines.recv_timeout(TIMEOUT), Err(RecvTimeoutError::Disconnected));
        let mut said = String::new();
        BufReader::new(self.child.stderr.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        said
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn lines(stdout: ChildStdout) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive
}

fn count(records: &[fault_proxy::Record], verb: Verb) -> usize {
    records.iter().filter(|record| record.request.verb == verb).count()
}

fn creates() -> Requests {
    Requests::with(&[Verb::Create]).on("configmaps")
}

fn watches() -> Requests {
    Requests::with(&[Verb::Watch]).on("configmaps")
}
