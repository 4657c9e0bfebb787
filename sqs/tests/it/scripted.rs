//! A server with prepared answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sqs::{AddressPolicy, Client, Clients, Credentials, Endpoint, LimitSettings};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Sends these bytes, then closes the connection.
    Last(Vec<u8>),
    /// Never answers.
    Hang,
}

impl Answer {
    /// An answer with a status, headers and a body.
    pub fn status(status: u16, headers: &str, body: &str) -> Self {
        let head = format!(
            "HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        Self::Bytes([head.into_bytes(), body.as_bytes().to_vec()].concat())
    }

    /// A success with the URL of a queue.
    pub fn url() -> Self {
        Self::status(200, "", r#"{"QueueUrl":"http://queue"}"#)
    }
}

/// A server on loopback, which ends when it is dropped.
#[derive(Debug)]
pub struct Scripted {
    pub address: SocketAddr,
    pub requests: Arc<Mutex<Vec<String>>>,
    pub connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Scripted {
    /// Starts a server, which passes the number of each request to `answer`, from zero.
    pub async fn start(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, connections) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let (seen, count, answer) = (requests.clone(), connections.clone(), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (seen, answer) = (seen.clone(), answer.clone());
                tokio::spawn(serve(stream, seen, answer));
            }
        });
        Self {
            address,
            requests,
            connections,
            task,
        }
    }

    /// Returns how many requests it has received.
    pub fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Returns a client with limits.
    pub fn client(&self, limits: LimitSettings) -> Client {
        client(&format!("http://{}", self.address), limits)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a client for any endpoint.
pub fn client(url: &str, limits: LimitSettings) -> Client {
    let credentials = Arc::new(Credentials::new("id".into(), "hush".into(), None));
    Clients::new(AddressPolicy::AllowLocal, limits).client(Endpoint::parse(url, "us-east-1").unwrap(), credentials)
}

/// Answers the requests of a connection.
pub async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: Arc<Mutex<Vec<String>>>,
    answer: Arc<impl Fn(usize) -> Answer>,
) {
    while let Some(request) = read(&mut stream).await {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            seen.len() - 1
        };
        match answer(number) {
            Answer::Bytes(bytes) => {
                let _ = stream.write_all(&bytes).await;
            }
            Answer::Last(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
            Answer::Hang => std::future::pending().await,
        }
    }
}

/// Reads a request with its body, or `None` at the end of the connection.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
