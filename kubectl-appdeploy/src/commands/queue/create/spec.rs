//! The flags that describe a queue, and the spec they describe.

use std::collections::BTreeMap;
use std::time::Duration;

use crd::{
    AdoptionPolicy, AppQueueSpec, Credentials, DeadLetter, DeletionPolicy, LocalObjectReference, QueueReference,
    QueueType, Sqs,
};

use crate::error::{Error, Result};
use crate::output::duration;

/// What a queue can be made of.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Queue")]
pub struct QueueArgs {
    /// Labels of the AppQueue, like team=shop,tier=web
    #[arg(short, long, value_name = "LABELS", value_delimiter = ',', value_parser = pair, conflicts_with = "grant_only")]
    labels: Vec<(String, String)>,
    /// Region, like us-east-1
    #[arg(
        long,
        value_name = "REGION",
        required_unless_present = "grant_only",
        conflicts_with = "grant_only"
    )]
    region: Option<String>,
    /// URL of the server; default: Amazon SQS in the region
    #[arg(long, value_name = "URL", conflicts_with = "grant_only")]
    endpoint: Option<String>,
    /// Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which the operator gets the right to read
    #[arg(long, value_name = "SECRET", conflicts_with = "grant_only")]
    pub credentials: Option<String>,
    /// Standard or FIFO; default: Standard
    #[arg(long = "type", value_name = "TYPE", value_parser = queue_type, conflicts_with = "grant_only")]
    type_: Option<QueueType>,
    /// Name of the queue outside the cluster; default: <namespace>_<name>
    #[arg(long, value_name = "TEXT", conflicts_with = "grant_only")]
    queue_name: Option<String>,
    /// How long a received message is hidden from other consumers, like 45s
    #[arg(long, value_name = "DURATION", value_parser = seconds, conflicts_with = "grant_only")]
    visibility_timeout: Option<i32>,
    /// How long a message is kept, like 96h
    #[arg(long, value_name = "DURATION", value_parser = seconds, conflicts_with = "grant_only")]
    message_retention: Option<i32>,
    /// How long a new message is hidden from all consumers, like 10s
    #[arg(long, value_name = "DURATION", value_parser = seconds, conflicts_with = "grant_only")]
    delay: Option<i32>,
    /// How long a request for messages waits if the queue is empty, like 20s
    #[arg(long, value_name = "DURATION", value_parser = seconds, conflicts_with = "grant_only")]
    receive_wait: Option<i32>,
    /// Maximum size of a message in bytes
    #[arg(long, value_name = "N", conflicts_with = "grant_only")]
    max_message_bytes: Option<i32>,
    /// Queue for messages that consumers fail to process
    #[arg(
        long,
        value_name = "NAME",
        requires = "max_receive_count",
        conflicts_with = "grant_only"
    )]
    dead_letter: Option<String>,
    /// After how many deliveries a message is moved to the dead letter queue
    #[arg(long, value_name = "N", requires = "dead_letter", conflicts_with = "grant_only")]
    max_receive_count: Option<i32>,
    /// Tag of the queue outside the cluster; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, conflicts_with = "grant_only")]
    tag: Vec<(String, String)>,
    /// Never, or IfExists to manage an existing queue with this name; default: Never
    #[arg(long, value_name = "POLICY", value_parser = adoption, conflicts_with = "grant_only")]
    adoption_policy: Option<AdoptionPolicy>,
    /// Delete or Retain the queue when the AppQueue is deleted; default: Delete, or Retain if it was adopted
    #[arg(long, value_name = "POLICY", value_parser = deletion, conflicts_with = "grant_only")]
    deletion_policy: Option<DeletionPolicy>,
}

type Parsed<T> = std::result::Result<T, String>;

fn pair(text: &str) -> Parsed<(String, String)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it like KEY=VALUE".to_owned()),
    }
}

fn queue_type(text: &str) -> Parsed<QueueType> {
    match text.to_lowercase().as_str() {
        "standard" => Ok(QueueType::Standard),
        "fifo" => Ok(QueueType::Fifo),
        _ => Err("must be Standard or FIFO".to_owned()),
    }
}

fn adoption(text: &str) -> Parsed<AdoptionPolicy> {
    match text.to_lowercase().as_str() {
        "never" => Ok(AdoptionPolicy::Never),
        "ifexists" => Ok(AdoptionPolicy::IfExists),
        _ => Err("must be Never or IfExists".to_owned()),
    }
}

fn deletion(text: &str) -> Parsed<DeletionPolicy> {
    match text.to_lowercase().as_str() {
        "delete" => Ok(DeletionPolicy::Delete),
        "retain" => Ok(DeletionPolicy::Retain),
        _ => Err("must be Delete or Retain".to_owned()),
    }
}

/// Reads a duration of whole seconds.
fn seconds(text: &str) -> Parsed<i32> {
    let duration = duration::parse(text)?;
    let whole = i32::try_from(duration.as_secs()).ok();
    whole
        .filter(|seconds| Duration::from_secs(u64::from(seconds.unsigned_abs())) == duration)
        .ok_or_else(|| "must be whole seconds, like 30s, 1m30s or 2h".to_owned())
}

impl QueueArgs {
    /// Returns the labels of the AppQueue.
    pub fn labels(&self) -> Option<BTreeMap<String, String>> {
        (!self.labels.is_empty()).then(|| self.labels.iter().cloned().collect())
    }

    /// Returns the spec.
    pub fn spec(&self) -> Result<AppQueueSpec> {
        let mut tags = BTreeMap::new();
        for (key, value) in &self.tag {
            if tags.insert(key.clone(), value.clone()).is_some() {
                return Err(Error::usage(format!("--tag {key} is given twice: nothing was changed")));
            }
        }
        let dead_letter = self.dead_letter.clone().zip(self.max_receive_count);
        let secret = self.credentials.clone();
        Ok(AppQueueSpec {
            sqs: Sqs {
                region: self.region.clone().unwrap_or_default(),
                endpoint: self.endpoint.clone(),
                queue_name: self.queue_name.clone(),
                type_: self.type_,
                visibility_timeout_seconds: self.visibility_timeout,
                message_retention_seconds: self.message_retention,
                delay_seconds: self.delay,
                receive_wait_seconds: self.receive_wait,
                max_message_bytes: self.max_message_bytes,
                dead_letter: dead_letter.map(|(name, max_receive_count)| DeadLetter {
                    queue_ref: QueueReference { name },
                    max_receive_count,
                }),
                tags,
            },
            credentials: secret.map(|name| Credentials {
                secret_ref: LocalObjectReference { name },
            }),
            adoption_policy: self.adoption_policy,
            deletion_policy: self.deletion_policy,
        })
    }
}
