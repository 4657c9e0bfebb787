//! The cost of queues outside of the cluster that nothing changes: calls, memory and processor time of the operator.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::api::PostParams;
use kube::core::Request;
use serde_json::{Value, json};
use testcluster::http;
use testcluster::queue_servers::ElasticMq;

use crate::cluster::{Cluster, tally};
use crate::contender::{Contender, Entry};
use crate::loader::load;
use crate::memory::crds;
use crate::program::Program;
use crate::request::Key;
use crate::section::Markers;

/// The markers around the figures in a page.
pub const MARKERS: Markers = Markers {
    begin: "<!-- queues: written by `make bench-queues` -->\n",
    end: "<!-- end of queues -->\n",
};

/// How long all queues may take to be created.
const TIMEOUT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The parameters of a measurement.
pub struct Bench {
    /// The operator.
    pub operator: PathBuf,
    /// How many queues there are. Every tenth has tags.
    pub count: usize,
    /// How many minutes are measured.
    pub minutes: u32,
}

/// The cost of queues that nothing changes.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The date.
    pub date: String,
    /// How many queues there were.
    pub count: usize,
    /// The time until all were created, in seconds.
    pub created_s: f64,
    /// Calls to the queue service a minute.
    pub calls: f64,
    /// Requests to the API server a minute, without watches.
    pub requests: f64,
    /// Processor time a minute, in milliseconds.
    pub cpu_ms: f64,
    /// Resident memory before there was a queue, in MiB.
    pub before_mib: f64,
    /// Resident memory at the end, in MiB.
    pub after_mib: f64,
}

impl Bench {
    /// Creates the queues in an ElasticMQ, and measures after that.
    ///
    /// # Errors
    /// When a part does not start, or the queues do not become ready.
    pub fn run(&self) -> Result<Cost> {
        let entry = Entry {
            contender: Contender::AppDeploy,
            program: Some(self.operator.clone()),
            crds: crds(),
        };
        let server = ElasticMq::start(Ipv4Addr::LOCALHOST.into())?;
        let cluster = Cluster::start(&entry)?;
        let credentials = cluster.log().with_extension("credentials");
        fs::create_dir(&credentials)?;
        for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            fs::write(credentials.join(key), "bench")?;
        }
        let folder = format!("--queue-credentials={}", credentials.display());
        let flags = ["--allow-local-queue-endpoints", "--external-resync-period=60s", &folder];
        let mut operator = Program::start_with(&entry, cluster.kubeconfig(), &cluster.log(), &flags)?;
        operator.until_ready()?;
        let before_mib = operator.memory()?.now_mib;

        let started = Instant::now();
        let requests: Result<Vec<_>> = (0..self.count)
            .map(|number| {
                let key = Key::of(number);
                let path = format!(
                    "/apis/{}/{}/namespaces/{}/appqueues",
                    crd::GROUP,
                    crd::VERSION,
                    key.namespace
                );
                let body = queue(&key, &server.url(), number % 10 == 0).to_string().into_bytes();
                Ok((key, Request::new(path).create(&PostParams::default(), body)?))
            })
            .collect();
        cluster.runtime.block_on(load(&cluster.people, requests?))?;
        self.until_ready(&cluster, started)?;
        let created_s = started.elapsed().as_secs_f64();
        // From here, no change is recent, and reads are spread over a period.
        thread::sleep(Duration::from_secs(90));

        let (calls, cpu, mark) = (calls(&operator)?, operator.cpu()?, cluster.mark()?);
        thread::sleep(Duration::from_secs(60) * self.minutes);
        let minutes = f64::from(self.minutes);
        let (own, _) = cluster.since(mark)?;
        let requests: usize = tally(&own).0.values().sum();
        let cost = Cost {
            date: jiff::Timestamp::now().strftime("%F").to_string(),
            count: self.count,
            created_s,
            calls: (self::calls(&operator)? - calls) / minutes,
            requests: f64::from(u32::try_from(requests)?) / minutes,
            cpu_ms: operator.cpu()?.saturating_sub(cpu).as_secs_f64() * 1000.0 / minutes,
            before_mib,
            after_mib: operator.memory()?.now_mib,
        };
        operator.stop()?;
        Ok(cost)
    }

    fn until_ready(&self, cluster: &Cluster, started: Instant) -> Result<()> {
        let template = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        loop {
            let states = cluster.kubectl(&["get", "appqueues", "--all-namespaces", "-o", template])?;
            let ready = states.split_whitespace().filter(|state| *state == "True").count();
            if ready >= self.count {
                return Ok(());
            }
            ensure!(
                started.elapsed() < TIMEOUT,
                "{ready} of {} queues are ready",
                self.count
            );
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn queue(key: &Key, endpoint: &str, has_tags: bool) -> Value {
    let mut sqs = json!({"region": "us-east-1", "endpoint": endpoint, "visibilityTimeoutSeconds": 45});
    if has_tags {
        sqs["tags"] = json!({"team": "bench"});
    }
    json!({
        "apiVersion": format!("{}/{}", crd::GROUP, crd::VERSION),
        "kind": "AppQueue",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"sqs": sqs},
    })
}

/// Returns how many calls the operator has made to the queue service.
fn calls(operator: &Program) -> Result<f64> {
    let response = http::Request::get("/metrics").send(operator.probes())?;
    ensure!(
        response.status == 200,
        "the metrics are answered with {}",
        response.status
    );
    let lines = response
        .body
        .lines()
        .filter(|line| line.starts_with("appdeploy_queue_calls_total{"));
    let mut all = 0.0;
    for line in lines {
        let value = line.rsplit(' ').next().unwrap_or_default();
        all += value
            .parse::<f64>()
            .with_context(|| format!("failed to read the metric {line}"))?;
    }
    Ok(all)
}

/// Renders the figures as Markdown.
#[must_use]
pub fn results(cost: &Cost) -> String {
    let mut text = format!(
        "Measured on {} with an optimized build and ElasticMQ: {} AppQueues that nothing changes, a tenth of them with tags, \
         with the default `--external-resync-period` of 1 minute.\n\n| Cost of all of them | |\n|---|---:|\n",
        cost.date,
        crate::format::grouped(cost.count),
    );
    for (what, value) in [
        ("calls to the queue service a minute", format!("{:.0}", cost.calls)),
        ("requests to the API server a minute", format!("{:.0}", cost.requests)),
        ("operator, CPU ms a minute", format!("{:.0}", cost.cpu_ms)),
        ("memory without a queue, MiB", format!("{:.1}", cost.before_mib)),
        ("memory with all of them, MiB", format!("{:.1}", cost.after_mib)),
        ("time to create all, s", format!("{:.1}", cost.created_s)),
    ] {
        let _ = writeln!(text, "| {what} | {value} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section;

    #[test]
    fn page_has_markers_for_figures() {
        let page = fs::read_to_string(testcluster::checkout::root().join("docs/guide/queue.md")).unwrap();
        assert!(section::replace(&page, MARKERS, "figures").is_some());
    }

    #[test]
    fn figures_are_a_table() {
        let cost = Cost {
            date: "2026-01-02".to_owned(),
            count: 1000,
            created_s: 12.34,
            calls: 1100.4,
            requests: 0.0,
            cpu_ms: 900.0,
            before_mib: 15.0,
            after_mib: 21.0,
        };
        let text = results(&cost);
        assert!(text.contains("1,000 AppQueues"), "{text}");
        assert!(
            text.contains("| calls to the queue service a minute | 1100 |\n"),
            "{text}"
        );
    }
}
