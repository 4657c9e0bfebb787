//! Attacks on the operator's ports, from this machine.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

/// Concurrent requests.
const AT_A_TIME: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a review of 8 MiB, the maximum of the port, with four million values.
#[must_use]
pub fn dense_review() -> String {
    let head = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"appdeploy.dev","version":"v1alpha1","kind":"AppDeploy"},"resource":{"group":"appdeploy.dev","version":"v1alpha1","resource":"appdeploys"},"name":"shop","namespace":"shop","operation":"CREATE","userInfo":{"username":"u"},"object":{"apiVersion":"appdeploy.dev/v1alpha1","kind":"AppDeploy","metadata":{"name":"shop"},"spec":{"image":"nginx","args":[0"#;
    let tail = "]}}}}";
    let room = (8 << 20) - head.len() - tail.len();
    [head, &",0".repeat(room / 2), tail].concat()
}

/// Returns environment variables of 1 MiB.
#[must_use]
pub fn large_env() -> Value {
    let variable = |number: usize| json!({"name": format!("V{number}"), "value": "x".repeat(2000)});
    (0..512).map(variable).collect()
}

/// Posts a body many times. Each request is answered, possibly with an error.
///
/// # Errors
/// When one is not answered.
pub fn post(address: SocketAddr, authorities: &str, path: &str, body: &str, times: usize) -> Result<()> {
    ensure!(address.ip().is_loopback(), "{address} is not this machine");
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority?)?;
    }
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let left = AtomicUsize::new(times);
    let worker = || -> Result<()> {
        while left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
        {
            once(address, &config, path, body)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done?,
                Err(_) => bail!("a client panicked"),
            }
        }
        Ok(())
    })
}

fn once(address: SocketAddr, config: &Arc<ClientConfig>, path: &str, body: &str) -> Result<()> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let name = ServerName::try_from("appdeploy-webhook.appdeploy-system.svc")?;
    let mut stream = StreamOwned::new(ClientConnection::new(config.clone(), name)?, stream);
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: webhook\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    // A server that closes the connection without a TLS close_notify has answered anyway.
    if let Err(error) = stream.read_to_end(&mut answer)
        && error.kind() != ErrorKind::UnexpectedEof
    {
        return Err(error).context("no answer to a review");
    }
    let answer = String::from_utf8_lossy(&answer);
    ensure!(
        answer.contains("at most 256 KiB"),
        "a review was answered with {answer:?}"
    );
    Ok(())
}

/// Opens connections that send incomplete requests, and waits until all of them are closed.
///
/// # Errors
/// When one stays open, or the port can't be reached.
pub fn hold(address: SocketAddr, count: usize) -> Result<()> {
    ensure!(address.ip().is_loopback(), "{address} is not this machine");
    let begun = [b"GET /healthz HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 400 << 10]].concat();
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nonblocking(true)?;
        // As much as the server accepts.
        let _ = stream.write(&begun);
        held.push(stream);
    }
    for mut stream in held {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            ensure!(
                error.kind() != ErrorKind::WouldBlock,
                "an unfinished request is kept open"
            );
        }
    }
    Ok(())
}
