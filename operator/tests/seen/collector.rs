//! A collector of traces: it takes what is sent by OTLP over HTTP, and keeps it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use prost::Message as _;

use crate::harness::PATIENCE;

/// A span as it came in.
#[derive(Clone, Debug)]
pub struct Span {
    pub service: String,
    pub name: String,
    pub id: Vec<u8>,
    pub parent: Vec<u8>,
    pub attributes: BTreeMap<String, String>,
    pub events: Vec<String>,
    pub failed: bool,
}

pub struct Collector {
    pub address: SocketAddr,
    spans: Receiver<Span>,
}

impl Collector {
    pub fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let (send, spans) = channel();
        // Ends with the process: no client is left to connect.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let send = send.clone();
                thread::spawn(move || serve(stream, &send));
            }
        });
        Self { address, spans }
    }

    /// Waits until what has come in is enough, and returns it.
    pub fn until(&self, what: &str, wanted: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let started = Instant::now();
        let mut spans = Vec::new();
        while !wanted(&spans) {
            match self.spans.recv_timeout(PATIENCE.saturating_sub(started.elapsed())) {
                Ok(span) => spans.push(span),
                Err(error) => panic!("{error}, not within {PATIENCE:?}: {what}\n{spans:#?}"),
            }
        }
        spans
    }
}

/// Reads requests of one connection until it is closed.
fn serve(stream: TcpStream, send: &Sender<Span>) {
    let mut reader = BufReader::new(stream);
    while let Some(body) = request(&mut reader) {
        let batch = ExportTraceServiceRequest::decode(&*body).unwrap();
        for spans in batch.resource_spans {
            let about = attributes(spans.resource.map(|resource| resource.attributes).unwrap_or_default());
            let service = about.get("service.name").cloned().unwrap_or_default();
            for span in spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let _ = send.send(Span {
                    service: service.clone(),
                    name: span.name,
                    id: span.span_id,
                    parent: span.parent_span_id,
                    attributes: attributes(span.attributes),
                    events: span.events.into_iter().map(|event| event.name).collect(),
                    failed: span.status.is_some_and(|status| status.code == 2),
                });
            }
        }
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

/// Returns the body of the next request, which must be for traces.
fn request(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    let lower = head.to_lowercase();
    assert!(lower.contains("content-type: application/x-protobuf"), "{head}");
    let length = lower.split("content-length: ").nth(1)?.lines().next()?;
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

fn attributes(all: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    all.into_iter().map(|pair| (pair.key, text(pair.value))).collect()
}
