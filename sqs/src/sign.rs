//! AWS's Signature Version 4 for requests without a query, as pure functions.
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ring::{digest, hmac};

use crate::credentials::Credentials;

#[cfg(test)]
mod vectors;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A request to be signed. All its headers are signed.
pub(crate) struct Request<'a> {
    pub method: &'a str,
    /// The path, already encoded and normalized.
    pub path: &'a str,
    /// Names and values, with `host` and `x-amz-date`, in the order of the request.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// What a signature is valid for.
pub(crate) struct Scope<'a> {
    pub region: &'a str,
    pub service: &'a str,
    /// The time in the format of `x-amz-date`, such as `20150830T123600Z`.
    pub time: &'a str,
}

impl Scope<'_> {
    fn date(&self) -> &str {
        self.time.get(..8).unwrap_or(self.time)
    }

    fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date(), self.region, self.service)
    }
}

/// Returns the value of the `Authorization` header.
pub(crate) fn authorization(request: &Request<'_>, scope: &Scope<'_>, credentials: &Credentials) -> String {
    let text = string_to_sign(&canonical_request(request), scope);
    format!(
        "{ALGORITHM} Credential={}/{}, SignedHeaders={}, Signature={}",
        credentials.access_key_id(),
        scope.text(),
        signed_headers(&canonical_headers(request)),
        signature(&text, scope, credentials.secret_access_key()),
    )
}

/// Returns values by lower-case name. Values of the same name are joined in their order, with spaces collapsed.
fn canonical_headers(request: &Request<'_>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::<String, String>::new();
    for (name, value) in request.headers {
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        headers
            .entry(name.to_ascii_lowercase())
            .and_modify(|values| {
                values.push(',');
                values.push_str(&value);
            })
            .or_insert(value);
    }
    headers
}

fn signed_headers(headers: &BTreeMap<String, String>) -> String {
    headers.keys().map(String::as_str).collect::<Vec<_>>().join(";")
}

fn canonical_request(request: &Request<'_>) -> String {
    let headers = canonical_headers(request);
    let lines = headers.iter().fold(String::new(), |mut lines, (name, value)| {
        let _ = writeln!(lines, "{name}:{value}");
        lines
    });
    // The empty line is the query.
    format!(
        "{}\n{}\n\n{lines}\n{}\n{}",
        request.method,
        request.path,
        signed_headers(&headers),
        hash(request.body)
    )
}

fn string_to_sign(canonical_request: &str, scope: &Scope<'_>) -> String {
    format!(
        "{ALGORITHM}\n{}\n{}\n{}",
        scope.time,
        scope.text(),
        hash(canonical_request.as_bytes())
    )
}

fn signature(string_to_sign: &str, scope: &Scope<'_>, secret: &str) -> String {
    let key = [scope.date(), scope.region, scope.service, "aws4_request"]
        .iter()
        .fold(hmac_key(format!("AWS4{secret}").as_bytes()), |key, part| {
            hmac_key(hmac::sign(&key, part.as_bytes()).as_ref())
        });
    hexadecimal(hmac::sign(&key, string_to_sign.as_bytes()).as_ref())
}

fn hmac_key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}

fn hash(bytes: &[u8]) -> String {
    hexadecimal(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
