//! The HTTP side of the registry: the part of the OCI distribution API that pulls use.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{MANIFEST, Store};

/// The maximum number of lines in the head of a request.
const MOST_HEADERS: usize = 100;
/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(60);

/// The user and the password that a client must send.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Answers requests on `listener` until it fails.
///
/// # Errors
/// When no more connections can be accepted.
pub fn serve(store: &Store, listener: &TcpListener, credentials: Option<&Credentials>) -> io::Result<()> {
    let authorization = credentials.map(|credentials| {
        let pair = format!("{}:{}", credentials.user, credentials.password);
        format!("Basic {}", STANDARD.encode(pair))
    });
    for stream in listener.incoming() {
        let (store, authorization, stream) = (store.clone(), authorization.clone(), stream?);
        // A broken connection only affects its client.
        thread::spawn(move || connection(&store, &stream, authorization.as_deref()));
    }
    Ok(())
}

fn connection(store: &Store, stream: &TcpStream, authorization: Option<&str>) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(request) = Request::read(&mut reader)? {
        let allowed = authorization.is_none_or(|wanted| request.authorization.as_deref() == Some(wanted));
        let answer = if allowed {
            answer(store, &request)
        } else {
            Answer::error(401, "UNAUTHORIZED", "authentication required")
        };
        answer.write(&mut writer, request.method == "HEAD")?;
    }
    Ok(())
}

/// A request without a body.
struct Request {
    method: String,
    path: String,
    authorization: Option<String>,
}

impl Request {
    /// Reads the next request of a connection; `None` at its end.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::Error::other("invalid request"));
        };
        let mut request = Self {
            method: method.to_owned(),
            path: target.split('?').next().unwrap_or_default().to_owned(),
            authorization: None,
        };
        for _ in 0..MOST_HEADERS {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                return Ok(Some(request));
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("authorization")
            {
                request.authorization = Some(value.trim().to_owned());
            }
        }
        Err(io::Error::other("too many headers"))
    }
}

enum Body {
    Text(String),
    File(File, u64),
}

struct Answer {
    status: u16,
    kind: String,
    digest: Option<String>,
    body: Body,
}

impl Answer {
    fn error(status: u16, code: &str, message: &str) -> Self {
        let body = serde_json::json!({ "errors": [{ "code": code, "message": message }] });
        Self {
            status,
            kind: "application/json".into(),
            digest: None,
            body: Body::Text(body.to_string()),
        }
    }

    fn write(self, out: &mut impl Write, head_only: bool) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            401 => "Unauthorized",
            405 => "Method Not Allowed",
            _ => "Not Found",
        };
        let length = match &self.body {
            Body::Text(text) => text.len() as u64,
            Body::File(_, length) => *length,
        };
        write!(
            out,
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n\
             Docker-Distribution-Api-Version: registry/2.0\r\n",
            self.status, self.kind
        )?;
        if let Some(digest) = &self.digest {
            write!(out, "Docker-Content-Digest: {digest}\r\n")?;
        }
        if self.status == 401 {
            write!(out, "WWW-Authenticate: Basic realm=\"private\"\r\n")?;
        }
        write!(out, "\r\n")?;
        match self.body {
            _ if head_only => {}
            Body::Text(text) => out.write_all(text.as_bytes())?,
            Body::File(mut file, _) => {
                io::copy(&mut file, out)?;
            }
        }
        out.flush()
    }
}

fn answer(store: &Store, request: &Request) -> Answer {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Answer::error(405, "UNSUPPORTED", "the registry is read-only");
    }
    let Some(path) = request.path.strip_prefix("/v2/") else {
        return Answer::error(404, "NAME_UNKNOWN", "not a path of the API");
    };
    if path.is_empty() {
        return Answer {
            status: 200,
            kind: "application/json".into(),
            digest: None,
            body: Body::Text("{}".into()),
        };
    }
    if let Some((name, reference)) = path.rsplit_once("/manifests/") {
        let digest = store.manifest(name, reference);
        return digest
            .and_then(|digest| blob(store, &digest, MANIFEST))
            .unwrap_or_else(|| Answer::error(404, "MANIFEST_UNKNOWN", "manifest unknown"));
    }
    path.rsplit_once("/blobs/")
        .and_then(|(_, digest)| blob(store, digest, "application/octet-stream"))
        .unwrap_or_else(|| Answer::error(404, "BLOB_UNKNOWN", "blob unknown"))
}

fn blob(store: &Store, digest: &str, kind: &str) -> Option<Answer> {
    let file = File::open(store.blob(digest)?).ok()?;
    let length = file.metadata().ok()?.len();
    Some(Answer {
        status: 200,
        kind: kind.to_owned(),
        digest: Some(digest.to_owned()),
        body: Body::File(file, length),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn ask(credentials: Option<Credentials>, requests: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store
            .add_image(&[b"layer".to_vec()], serde_json::json!({}), &["library/a:1".into()])
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(&store, &listener, credentials.as_ref()));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn manifest_is_served_by_its_tag_and_a_missing_one_is_unknown() {
        let text = ask(
            None,
            "GET /v2/ HTTP/1.1\r\n\r\nHEAD /v2/library/a/manifests/1?ns=docker.io HTTP/1.1\r\n\r\n\
             GET /v2/library/a/manifests/2 HTTP/1.1\r\n\r\nPUT /v2/library/a/manifests/2 HTTP/1.1\r\n\r\n",
        );
        let statuses: Vec<&str> = text.matches("HTTP/1.1 ").collect();
        assert_eq!(statuses.len(), 4, "{text}");
        assert!(text.contains("Docker-Content-Digest: sha256:"), "{text}");
        assert!(
            text.contains("MANIFEST_UNKNOWN") && text.contains("405 Method"),
            "{text}"
        );
        assert_eq!(text.matches("schemaVersion").count(), 0, "HEAD has a body: {text}");
    }

    #[test]
    fn password_is_checked() {
        let credentials = Credentials {
            user: "jane".into(),
            password: "open".into(),
        };
        let right = format!("Authorization: Basic {}\r\n", STANDARD.encode("jane:open"));
        let text = ask(
            Some(credentials),
            &format!("GET /v2/ HTTP/1.1\r\n\r\nGET /v2/ HTTP/1.1\r\n{right}\r\n"),
        );
        assert!(text.starts_with("HTTP/1.1 401 "), "{text}");
        assert!(text.contains("HTTP/1.1 200 "), "{text}");
    }
}
