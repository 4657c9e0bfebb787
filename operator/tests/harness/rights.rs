//! What operators asked of a cluster, written down when it ends, to be compared with what config/rbac grants.
//!
//! A line has the outcome of a request and the request: `used - pods create namespaced -` or
//! `denied apps deployments list cluster -`. The columns are those of `tests/src/rights.rs`, which reads them. Only
//! the user counts that config/rbac knows: a test that takes rights away does it to a user of its own. Requests that a test
//! sends with the operator's credentials do not count.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use testcluster::audit::AuditLog;

use super::{OPERATOR, text};

/// The variable that names the folder to write to. Without it nothing is written.
const FOLDER: &str = "APPDEPLOY_RIGHTS";

/// Writes when it is dropped.
pub struct Rights {
    folder: Option<PathBuf>,
    log: AuditLog,
    missed: Mutex<BTreeSet<String>>,
}

impl Rights {
    /// Watches a control plane by its log.
    pub fn of(log: AuditLog) -> Self {
        Self {
            folder: std::env::var_os(FOLDER).map(PathBuf::from),
            log,
            missed: Mutex::default(),
        }
    }

    /// Records that a right is used which the API server checks by itself, without a request in the log: the calling test has seen the
    /// operator fail without it.
    pub fn missed(&self, verb: &str, group: &str, resource: &str) {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        missed.insert(format!("used {group} {resource} {verb} namespaced -"));
    }

    fn lines(&self) -> BTreeSet<String> {
        let mut lines = self.missed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A measurement has no log, and the last line of one may be half written.
        let log = self.log.lines().ok();
        let events = log.into_iter().flatten().map_while(Result::ok);
        let events = events.filter(|line| line.contains(OPERATOR));
        lines.extend(events.filter_map(|line| line_of(&serde_json::from_str(&line).ok()?)));
        lines
    }
}

/// Returns what a line of the audit log says of the operator's rights.
fn line_of(event: &Value) -> Option<String> {
    if text(event, "/user/username") != OPERATOR || !text(event, "/userAgent").starts_with("appdeploy-operator/") {
        return None;
    }
    let decision = event["annotations"]["authorization.k8s.io/decision"].as_str();
    let became = if decision == Some("forbid") { "denied" } else { "used" };
    let of = |field: &str| text(event, &format!("/objectRef/{field}"));
    let resource = [of("resource"), of("subresource")].join("/");
    // Of the tests' own names there are thousands, and no rule could name them.
    let (scope, name) = match of("namespace") {
        "" => ("cluster", of("name")),
        crd::OPERATOR_NAMESPACE => (crd::OPERATOR_NAMESPACE, of("name")),
        // Users grant the right to the Secret of an AppQueue, one Secret at a time.
        _ if (of("resource"), text(event, "/verb")) == ("secrets", "get") => return None,
        _ => ("namespaced", ""),
    };
    let columns = [
        of("apiGroup"),
        resource.trim_matches('/'),
        text(event, "/verb"),
        scope,
        name,
    ];
    let columns = columns.map(|column| if column.is_empty() { "-" } else { column });
    Some(format!("{became} {}", columns.join(" ")))
}

impl Drop for Rights {
    fn drop(&mut self) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Some(folder) = &self.folder else { return };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let text: String = self.lines().into_iter().map(|line| line + "\n").collect();
        let path = folder.join(format!("{}-{number}.rights", std::process::id()));
        let written = fs::create_dir_all(folder).and_then(|()| File::create(&path)?.write_all(text.as_bytes()));
        if let Err(error) = written {
            // A panic while another one unwinds would hide it.
            eprintln!("failed to write {}: {error}", path.display());
        }
    }
}
