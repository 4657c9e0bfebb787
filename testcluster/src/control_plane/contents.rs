//! Reads and restores the keys of etcd while it runs, through its JSON gateway.
//!
//! API servers receive restored keys as events of their watches, like any other change.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Request, Response};

/// The range of keys of an API server. The end is exclusive: `0` is the character after `/`.
const FIRST: &str = "/registry/";
const END: &str = "/registry0";

/// Prefixes of keys that an API server writes by itself at any time.
const SYSTEM: [&str; 5] = [
    "/registry/leases/kube-system/",
    "/registry/masterleases/",
    "/registry/configmaps/kube-system/",
    "/registry/flowschemas/",
    "/registry/prioritylevelconfigurations/",
];

/// The number of keys in a transaction; the maximum of etcd is 128.
const BATCH: usize = 100;

/// Keys and values as the gateway encodes them, in Base64.
type Entries = BTreeMap<String, Entry>;

#[derive(Debug)]
struct Entry {
    revision: String,
    value: String,
}

/// The keys of etcd at some time, without those that an API server writes by itself.
#[derive(Debug)]
pub(super) struct Contents {
    port: u16,
    entries: Entries,
}

impl Contents {
    /// Reads the keys of the etcd on this port.
    pub(super) fn read(port: u16) -> io::Result<Self> {
        Ok(Self {
            port,
            entries: entries(port, false)?,
        })
    }

    /// Returns whether it has all of these keys.
    pub(super) fn have(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.entries.contains_key(&encode(key)))
    }

    /// Restores these contents.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        let now = entries(self.port, true)?;
        let added = now.keys().filter(|key| !self.entries.contains_key(*key));
        let delete = added.map(|key| json!({"requestDeleteRange": {"key": key}}));
        let changed = self.entries.iter().filter(|(key, entry)| {
            let revision = now.get(*key).map(|now| &now.revision);
            revision != Some(&entry.revision)
        });
        let put = changed.map(|(key, entry)| json!({"requestPut": {"key": key, "value": entry.value}}));
        let steps: Vec<Value> = delete.chain(put).collect();
        for batch in steps.chunks(BATCH) {
            call::<Value>(self.port, "txn", &json!({"success": batch}))?;
        }
        for (key, now) in entries(self.port, true)? {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.revision = now.revision;
            }
        }
        Ok(())
    }
}

fn entries(port: u16, keys_only: bool) -> io::Result<Entries> {
    #[derive(Deserialize)]
    struct Range {
        #[serde(default)]
        kvs: Vec<KeyValue>,
    }
    #[derive(Deserialize)]
    struct KeyValue {
        key: String,
        mod_revision: String,
        #[serde(default)]
        value: String,
    }
    let query = json!({"key": encode(FIRST), "range_end": encode(END), "keys_only": keys_only});
    let range: Range = call(port, "range", &query)?;
    let of_system = |key: &str| {
        let key = BASE64_STANDARD.decode(key).unwrap_or_default();
        SYSTEM.iter().any(|prefix| key.starts_with(prefix.as_bytes()))
    };
    let entries = range.kvs.into_iter().filter(|one| !of_system(&one.key)).map(|one| {
        let entry = Entry {
            revision: one.mod_revision,
            value: one.value,
        };
        (one.key, entry)
    });
    Ok(entries.collect())
}

fn encode(key: &str) -> String {
    BASE64_STANDARD.encode(key)
}

/// Sends a request to the gateway.
fn call<T: serde::de::DeserializeOwned>(port: u16, method: &str, body: &Value) -> io::Result<T> {
    let request = Request {
        method: "POST",
        path: &format!("/v3/kv/{method}"),
        body: &body.to_string(),
        ..Request::default()
    };
    let Response { status, body } = request.send((Ipv4Addr::LOCALHOST, port).into())?;
    if status != 200 {
        return Err(io::Error::other(format!("etcd refused {method}: {body}")));
    }
    Ok(serde_json::from_str(&body)?)
}
