//! The operator's peak memory, under load and under attack, with the limit that its Deployment sets.
//!
//! If this runs as root and the kernel has a memory controller, the limit is enforced as in a pod: a process that exceeds
//! it is killed, and the case fails. Otherwise the peak is measured and compared.

mod attack;
mod limit;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use testcluster::checkout::{manifest, root};
use testcluster::port::free_address;

use crate::cluster::Cluster;
use crate::contender::{Contender, Entry};
use crate::loader::load;
use crate::program::Program;
use crate::request::{Key, create_app, path};
use crate::section::Markers;
use crate::seen::CHILDREN;
use limit::Limit;

/// The limit of `config/manager/deployment.yaml`, in MiB.
pub const LIMIT_MIB: u64 = 256;

/// The markers around the figures in a page.
pub const MARKERS: Markers = Markers {
    begin: "<!-- peak memory: written by `make bench-memory` -->\n",
    end: "<!-- end of peak memory -->\n",
};

/// Reviews that are sent to each replica.
const REVIEWS: usize = 100;
/// Connections that are opened to the probe port.
const CONNECTIONS: usize = 700;
/// Oversized specs that are stored under an older schema.
const LARGE: usize = 150;

/// The peak of one case.
#[derive(Clone, Debug)]
pub struct Peak {
    /// The name of the case.
    pub case: String,
    /// The maximum resident memory of any process, in MiB.
    pub mib: f64,
}

/// The result of a measurement.
#[derive(Clone, Debug)]
pub struct Report {
    /// The date.
    pub date: String,
    /// Whether the limit was enforced.
    pub enforced: bool,
    /// The peaks.
    pub peaks: Vec<Peak>,
}

/// The parameters of a measurement.
pub struct Bench<'a> {
    /// The operator.
    pub operator: PathBuf,
    /// How many apps the largest case has.
    pub apps: usize,
    /// Reports progress.
    pub note: &'a dyn Fn(&str),
}

impl Bench<'_> {
    /// Measures all cases.
    ///
    /// # Errors
    /// When an operator exits, stops answering, or exceeds the limit.
    pub fn run(&self) -> Result<Report> {
        let mut peaks = self.attacks()?;
        peaks.extend(self.large_specs()?);
        peaks.extend(self.many_apps()?);
        for peak in &peaks {
            ensure!(
                peak.mib < number(LIMIT_MIB),
                "{}: {:.0} MiB of {LIMIT_MIB}",
                peak.case,
                peak.mib
            );
        }
        Ok(Report {
            date: jiff::Timestamp::now().strftime("%F").to_string(),
            enforced: Limit::new("probe").is_some(),
            peaks,
        })
    }

    fn entry(&self, crds: Vec<PathBuf>) -> Entry {
        Entry {
            contender: Contender::AppDeploy,
            program: Some(self.operator.clone()),
            crds,
        }
    }

    fn start(cluster: &Cluster, entry: &Entry, flags: &[&str]) -> Result<Limited> {
        let mut program = Program::start_with(entry, cluster.kubeconfig(), &cluster.log(), flags)?;
        let limit = Limit::new(&program.pid().to_string());
        if let Some(limit) = &limit {
            limit.add(program.pid())?;
        }
        program.until_ready()?;
        Ok(Limited { program, _limit: limit })
    }

    /// Two replicas that serve webhooks, attacked on both ports.
    fn attacks(&self) -> Result<Vec<Peak>> {
        (self.note)("two replicas under attack");
        let entry = self.entry(crds());
        let cluster = Cluster::start(&entry)?;
        cluster.apply(&manifest("manager/namespace")?)?;
        for file in ["service", "validating", "mutating"] {
            cluster.apply(&manifest(&format!("webhook/{file}"))?)?;
        }
        let mut replicas = Vec::new();
        for _ in 0..2 {
            let bind = free_address();
            let address = bind.to_string();
            let flags = ["--leader-elect", "--webhooks", "--webhook-bind", &address];
            let replica = Self::start(&cluster, &entry, &flags)?;
            replicas.push((replica, bind));
        }
        let template = "go-template={{(index .webhooks 0).clientConfig.caBundle | base64decode}}";
        let bundle = until("the API server knows the certificate", || {
            let bundle = cluster.kubectl(&["get", "validatingwebhookconfiguration", "appdeploy", "-o", template])?;
            ensure!(!bundle.is_empty(), "no certificate yet");
            Ok(bundle)
        })?;
        let body = attack::dense_review();
        for (_, bind) in &replicas {
            attack::post(*bind, &bundle, "/validate", &body, REVIEWS)?;
        }
        let mut peaks = vec![peak(
            format!("{REVIEWS} reviews of 8 MiB, as dense as JSON can be, to each of two replicas, eight at a time"),
            &mut replicas,
        )?];
        for (replica, _) in &replicas {
            attack::hold(replica.program.probes(), CONNECTIONS)?;
        }
        peaks.push(peak(
            format!("after that, {CONNECTIONS} unfinished requests of 400 KiB on the port for probes of each"),
            &mut replicas,
        )?);
        Ok(peaks)
    }

    /// Specs that an older schema accepted, seen by an operator that starts, restarts and lists again.
    fn large_specs(&self) -> Result<Vec<Peak>> {
        (self.note)("specs of a MiB");
        let folder = std::env::temp_dir().join(format!("bench-memory-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let loose = folder.join("appdeploys.json");
        std::fs::write(&loose, loose_crd()?)?;
        let others = crds().into_iter().skip(1);
        let entry = self.entry([loose].into_iter().chain(others).collect());
        let cluster = Cluster::start(&entry)?;
        std::fs::remove_dir_all(&folder)?;
        let requests: Result<Vec<_>> = (0..LARGE)
            .map(|number| {
                let key = Key::of(number);
                let request = create_app(&key)?.map(|body| {
                    let mut app: Value = serde_json::from_slice(&body).unwrap_or_default();
                    app["spec"]["replicas"] = json!(0);
                    app["spec"]["env"] = attack::large_env();
                    app.to_string().into_bytes()
                });
                Ok((key, request))
            })
            .collect();
        cluster.runtime.block_on(load(&cluster.people, requests?))?;
        cluster.apply(&manifest("crd/appdeploys")?)?;
        let mut most = 0.0_f64;
        for _ in 0..2 {
            // Each start lists, and so does each resync.
            let mut replica = Self::start(&cluster, &entry, &["--resync-period=10s"])?;
            thread::sleep(Duration::from_secs(30));
            most = most.max(replica.peak()?);
            replica.program.stop()?;
        }
        Ok(vec![Peak {
            case: format!("{LARGE} stored specs of 1 MiB from an older schema: a start, a restart, and lists again"),
            mib: most,
        }])
    }

    fn many_apps(&self) -> Result<Vec<Peak>> {
        (self.note)("many apps");
        let entry = self.entry(crds());
        let cluster = Cluster::start(&entry)?;
        let mut replica = Self::start(&cluster, &entry, &[])?;
        let requests: Result<Vec<_>> = (0..self.apps)
            .map(|number| {
                let key = Key::of(number);
                Ok((key.clone(), create_app(&key)?))
            })
            .collect();
        cluster.runtime.block_on(load(&cluster.people, requests?))?;
        until_converged(&cluster, self.apps)?;
        replica.program.until_quiet()?;
        let created = Peak {
            case: format!("{} created", crate::format::apps(self.apps)),
            mib: replica.peak()?,
        };
        replica.program.stop()?;
        let mut replica = Self::start(&cluster, &entry, &[])?;
        replica.program.until_quiet()?;
        let restarted = Peak {
            case: format!("a restart with {}", crate::format::apps(self.apps)),
            mib: replica.peak()?,
        };
        replica.program.stop()?;
        Ok(vec![created, restarted])
    }
}

/// An operator under the limit.
struct Limited {
    program: Program,
    _limit: Option<Limit>,
}

impl Limited {
    /// Returns the maximum resident memory so far.
    fn peak(&mut self) -> Result<f64> {
        ensure!(self.program.is_ready(), "the operator does not answer");
        Ok(self.program.memory()?.peak_mib)
    }
}

fn peak(case: String, replicas: &mut [(Limited, std::net::SocketAddr)]) -> Result<Peak> {
    let mut mib = 0.0_f64;
    for (replica, _) in replicas {
        mib = mib.max(replica.peak().with_context(|| case.clone())?);
    }
    Ok(Peak { case, mib })
}

/// Renders the figures as Markdown.
#[must_use]
pub fn results(report: &Report) -> String {
    let how = if report.enforced {
        "The limit was enforced by a cgroup"
    } else {
        "The peak was compared with the limit"
    };
    let mut text = format!(
        "Measured on {} with an optimized build and the Deployment's limit of {LIMIT_MIB} MiB. {how}; no operator was restarted.\n\n\
         | Case | Peak resident memory |\n|---|---|\n",
        report.date
    );
    for Peak { case, mib } in &report.peaks {
        let _ = writeln!(text, "| {case} | {mib:.0} MiB |");
    }
    text
}

/// Returns the files of the CRDs, that of AppDeploy first.
#[must_use]
pub fn crds() -> Vec<PathBuf> {
    let folder = root().join("config/crd");
    ["appdeploys.yaml", "podsets.yaml", "appqueues.yaml"]
        .map(|file| folder.join(file))
        .into()
}

/// Returns a CRD that accepts any spec.
fn loose_crd() -> Result<String> {
    let mut crd = serde_json::to_value(crd::AppDeploy::crd())?;
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("x-kubernetes-validations");
    }
    Ok(crd.to_string())
}

/// Waits until there are as many children of each kind as apps.
fn until_converged(cluster: &Cluster, apps: usize) -> Result<()> {
    until("all apps have their children", || {
        for kind in CHILDREN {
            let count = cluster.count(&path(Some(kind)))?;
            ensure!(count >= apps, "{count} of {apps} {}", kind.plural);
        }
        Ok(())
    })
}

fn until<T>(what: &str, mut tried: impl FnMut() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        match tried() {
            Ok(value) => return Ok(value),
            Err(error) if started.elapsed() > Duration::from_secs(900) => {
                return Err(error.context(format!("it did not happen: {what}")));
            }
            Err(_) => thread::sleep(Duration::from_millis(500)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is a small number of MiB")]
const fn number(mib: u64) -> f64 {
    mib as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section;

    #[test]
    fn figures_are_a_table() {
        let report = Report {
            date: "2026-01-02".to_owned(),
            enforced: true,
            peaks: vec![Peak {
                case: "a case".to_owned(),
                mib: 41.6,
            }],
        };
        let figures = results(&report);
        assert!(figures.ends_with("| a case | 42 MiB |\n"), "{figures}");
    }

    #[test]
    fn page_has_markers_for_figures() {
        let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
        assert!(section::replace(&page, MARKERS, "figures").is_some());
    }

    #[test]
    fn limit_is_that_of_the_deployment() {
        let deployment = manifest("manager/deployment").unwrap();
        assert!(deployment.contains(&format!("memory: {LIMIT_MIB}Mi")));
    }
}
