//! Servers for the tests: one that follows HTTP/2, and one that writes frames by itself.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use h2::SendStream;
use h2::server::SendResponse;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub type Tls = TlsStream<TcpStream>;
pub type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server on a port of its own.
pub struct Server {
    pub url: String,
    pub certificate: Vec<u8>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server that offers HTTP/2 and serves each connection, with its number, with this function.
    pub async fn start(serve: impl Fn(Tls, usize) -> Served + Send + Sync + 'static) -> Self {
        Self::start_with(b"h2", serve).await
    }

    /// Starts a server that answers with its version of HTTP.
    pub async fn without_http2() -> Self {
        Self::start_with(b"http/1.1", |connection, _| {
            let answer = service_fn(|request: Request<Incoming>| async move {
                let version = Bytes::from(format!("{:?}", request.version()));
                Ok::<_, Infallible>(Response::new(Full::new(version)))
            });
            Box::pin(async move {
                let served = hyper::server::conn::http1::Builder::new();
                let _ = served.serve_connection(TokioIo::new(connection), answer).await;
            })
        })
        .await
    }

    async fn start_with(protocol: &[u8], serve: impl Fn(Tls, usize) -> Served + Send + Sync + 'static) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
        config.alpn_protocols = vec![protocol.to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("https://{}", listener.local_addr().unwrap()),
            certificate: cert.der().to_vec(),
            connections: Arc::default(),
        };
        let connections = server.connections.clone();
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let number = connections.fetch_add(1, Ordering::SeqCst);
                if let Ok(tls) = acceptor.accept(tcp).await {
                    tokio::spawn(serve(tls, number));
                }
            }
        });
        server
    }

    /// Returns how many connections were opened.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Answers with a body.
pub fn answer(mut respond: SendResponse<Bytes>, body: &str) {
    let mut stream = respond.send_response(Response::new(()), false).unwrap();
    stream.send_data(Bytes::from(body.to_owned()), true).unwrap();
}

/// A connection that follows HTTP/2.
pub struct Connection {
    tls: Tls,
    limit: u32,
}

/// Starts HTTP/2 on a connection.
pub fn start(tls: Tls) -> Connection {
    Connection { tls, limit: 100 }
}

impl Connection {
    /// Sends the client this limit of concurrent streams.
    pub fn limited_to(mut self, streams: u32) -> Self {
        self.limit = streams;
        self
    }

    /// Serves each request with this function.
    pub fn each<F>(
        self,
        serve: impl Fn(Request<h2::RecvStream>, SendResponse<Bytes>) -> F + Send + Sync + 'static,
    ) -> Served
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Box::pin(async move {
            let mut builder = h2::server::Builder::new();
            builder.max_concurrent_streams(self.limit);
            let mut connection = builder.handshake(self.tls).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(serve(request, respond));
            }
        })
    }

    /// Answers each request with a body that does not end.
    pub fn send_forever(self) -> Served {
        self.send_once_or_forever("")
    }

    /// Like [`Self::send_forever`], except that nothing follows a part of the body for this path.
    pub fn send_once_or_forever(self, silent: &'static str) -> Served {
        self.each(move |request, mut respond| async move {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            if request.uri().path() == silent {
                stream.send_data(Bytes::from_static(b"begin"), false).unwrap();
                let _ = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
                return;
            }
            while send(&mut stream, 16 << 10).await {}
        })
    }
}

/// Sends bytes when the client's window has room. Returns whether the stream is open.
async fn send(stream: &mut SendStream<Bytes>, bytes: usize) -> bool {
    stream.reserve_capacity(bytes);
    let Some(Ok(capacity)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else {
        return false;
    };
    stream.send_data(Bytes::from(vec![b'x'; capacity]), false).is_ok()
}

/// A connection whose frames a test writes.
pub struct RawConnection(Tls);

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a GOAWAY frame without an error: streams up to this one are processed.
pub fn go_away(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

impl RawConnection {
    pub fn new(tls: Tls) -> Self {
        Self(tls)
    }

    /// Answers the handshake, and returns the stream of the first request.
    async fn first_request(&mut self) -> u32 {
        let mut preface = [0; 24];
        self.0.read_exact(&mut preface).await.unwrap();
        self.0.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await.unwrap();
            match (head[3], head[4] & 1) {
                (HEADERS, _) => return u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
                (SETTINGS, 0) => self.0.write_all(&frame(SETTINGS, 1, 0, &[])).await.unwrap(),
                (PING, 0) => self.0.write_all(&frame(PING, 1, 0, &payload)).await.unwrap(),
                _ => {}
            }
        }
    }

    /// Writes these frames after the first request, and closes the connection.
    pub fn until_request(mut self, frames: impl Fn(u32) -> Vec<u8> + Send + 'static) -> Served {
        Box::pin(async move {
            let id = self.first_request().await;
            self.0.write_all(&frames(id)).await.unwrap();
            let _ = self.0.shutdown().await;
        })
    }

    /// Sends GOAWAY after the first request, and answers that one when `finish` is notified.
    pub fn shut_down_then_answer(mut self, shut_down: Arc<Notify>, finish: Arc<Notify>) -> Served {
        Box::pin(async move {
            let id = self.first_request().await;
            self.0.write_all(&go_away(id)).await.unwrap();
            shut_down.notify_one();
            finish.notified().await;
            // The end of the headers and of the stream; status 200 in the static table.
            self.0.write_all(&frame(HEADERS, 0x5, id, &[0x88])).await.unwrap();
            let _ = self.0.shutdown().await;
        })
    }

    /// Stops reading and writing after the first request, and keeps the connection open.
    pub fn until_request_then_hang(mut self) -> Served {
        Box::pin(async move {
            self.first_request().await;
            std::future::pending::<()>().await;
        })
    }
}
