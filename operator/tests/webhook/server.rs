//! The server without a manager of its certificate.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use jiff::Timestamp;
use operator::http_server::{PlainText, Transport, listen, serve};
use operator::webhook::certificate::life::Action;
use operator::webhook::certificate::material::{Data, Material};
use operator::webhook::certificate::{Lifetimes, names};
use operator::webhook::served::Served;
use operator::webhook::server::{Limits, Tls};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::webhook::client::{Caller, PATIENCE};

pub const NAMESPACE: &str = "appdeploy-system";

/// A server with a certificate and its authority.
pub struct Server {
    pub address: SocketAddr,
    pub bundle: String,
    pub end: oneshot::Sender<()>,
    pub running: JoinHandle<anyhow::Result<()>>,
}

/// Creates a certificate, and returns its authority.
pub fn certificate(served: &Served) -> String {
    let names = names(NAMESPACE);
    let data =
        Material::read(&Data::new(), &names).act(Action::Create, &Lifetimes::default(), &names, Timestamp::now());
    let made = Material::read(&data.unwrap(), &names);
    assert!(served.show(made.served.clone().unwrap(), made.state.leaf.unwrap().span.end));
    made.bundle()
}

impl Server {
    pub fn start(limits: Limits) -> Self {
        let served = Served::default();
        let bundle = certificate(&served);
        let tls = Tls::new(served, None).unwrap();
        Self::start_with(tls, bundle, limits)
    }

    /// Starts a server without TLS.
    pub fn start_plain(limits: Limits) -> Self {
        Self::start_with(PlainText, String::new(), limits)
    }

    fn start_with(transport: impl Transport, bundle: String, limits: Limits) -> Self {
        let routes = Router::new()
            .route("/", post(async |body: String| format!("{}\n", body.len())))
            .route("/panic", post(async || -> String { panic!("as asked") }))
            .route(
                "/slow",
                post(async || {
                    sleep(Duration::from_secs(2)).await;
                    "at last\n"
                }),
            )
            .route("/stuck", post(std::future::pending::<String>));
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let ended = async {
            let _ = ended.await;
        };
        let running = tokio::spawn(async move {
            serve(listener, transport, routes, limits, ended).await;
            Ok(())
        });
        Self {
            address,
            bundle,
            end,
            running,
        }
    }

    pub fn caller(&self) -> Caller {
        Caller::new(self.address, NAMESPACE, &self.bundle)
    }

    pub async fn plain(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Asks as one should, and is answered.
    pub async fn is_well(&self) {
        assert_eq!(self.caller().post("/", "four").await.unwrap(), (200, "4\n".into()));
    }
}

/// Reads until the other side ends the connection, one way or the other, and returns what it said.
pub async fn until_ended(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut said = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut said)).await.unwrap();
    said
}
