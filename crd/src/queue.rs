//! The `AppQueue` resource: a message queue of a service outside the cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{Cause, LocalObjectReference};

/// The desired state of the queue.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "appdeploy.dev",
    version = "v1alpha1",
    kind = "AppQueue",
    plural = "appqueues",
    singular = "appqueue",
    shortname = "aq",
    namespaced,
    status = "AppQueueStatus",
    derive = "PartialEq",
    derive = "Default",
    label("app.kubernetes.io/part-of", "appdeploy"),
    doc = "AppQueue keeps a message queue of a service outside the cluster, such as Amazon SQS. The operator creates the queue, repairs changes and deletions by others, and writes its URL into the ConfigMap <name>-queue, which applications refer to with spec.queues.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status", description = "Whether the queue exists and is as desired: True, False or Unknown."),
    printcolumn(name = "Depth", type_ = "integer", json_path = ".status.approximateDepth", description = "The approximate number of messages in the queue."),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason", description = "The reason for the value of Ready."),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url", description = "The URL of the queue."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.sqs.region", priority = 1),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.sqs.type", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1),
    validation = ("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", "the name becomes part of the queue's name and of environment variables: use lower-case letters, digits and '-', start with a letter and end with a letter or digit, like orders"),
    validation = ("size(self.metadata.name) <= 53", "the name is too long for what is derived from it: use at most 53 characters")
)]
#[cfg_attr(feature = "cel", kube(cel))]
#[serde(rename_all = "camelCase")]
pub struct AppQueueSpec {
    /// A queue of Amazon SQS, or of another server with the same protocol. Required.
    #[x_kube(
        validation = ("self.region == oldSelf.region", "region can't be changed, because the queue would be created again in another region: create another AppQueue"),
        validation = ("has(self.endpoint) == has(oldSelf.endpoint) && (!has(self.endpoint) || self.endpoint == oldSelf.endpoint)", "endpoint can't be changed, because the queue would be created again on another server: create another AppQueue"),
        validation = ("has(self.queueName) == has(oldSelf.queueName) && (!has(self.queueName) || self.queueName == oldSelf.queueName)", "queueName can't be changed, because a second queue would be created: create another AppQueue"),
        validation = ("(has(self.type) ? self.type : 'Standard') == (has(oldSelf.type) ? oldSelf.type : 'Standard')", "type can't be changed, because a second queue would be created: create another AppQueue"),
        validation = ("!has(self.queueName) || !self.queueName.endsWith('.fifo') || (has(self.type) && self.type == 'FIFO')", "only the name of a FIFO queue ends with .fifo: set spec.sqs.type to FIFO, or write another name"),
        validation = ("!has(self.queueName) || size(self.queueName) <= 75 || !has(self.type) || self.type != 'FIFO' || self.queueName.endsWith('.fifo')", "the name is too long, because .fifo is appended to the name of a FIFO queue: use at most 75 characters")
    )]
    pub sqs: Sqs,

    /// The credentials for the service. Default: those of the operator, if an administrator has given it some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub credentials: Option<Credentials>,

    /// What to do if a queue with this name exists that this AppQueue has not created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adoption_policy: Option<AdoptionPolicy>,

    /// What happens to the queue and its messages when the AppQueue is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

/// A queue of Amazon SQS. Of the settings of the queue, only those that are set are managed. A setting that is removed from
/// the spec keeps its last value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sqs {
    /// The region, such as `us-east-1`. Requests are signed for it. Can't be changed. Required.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]+(-[a-z0-9]+)*$')", "a region has lower-case letters, digits and '-'; write it like us-east-1")
    )]
    pub region: String,

    /// The URL of the server. Can't be changed. Default: the endpoint of Amazon SQS in the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 320))]
    #[x_kube(
        validation = ("self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\\\[[0-9a-fA-F:.]+\\\\])(:[0-9]{1,5})?/?$')", "an endpoint is a URL of a server, without user, path and query; write it like https://sqs.example.com or http://sqs.shop.svc:9324")
    )]
    pub endpoint: Option<String>,

    /// The name of the queue. `.fifo` is appended to the name of a FIFO queue. Can't be changed. Default
    /// `<namespace>_<name>`, shortened with a hash if it is longer than 80 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 80))]
    #[x_kube(
        validation = ("self.matches('^[A-Za-z0-9_-]+([.]fifo)?$')", "the name of a queue has letters, digits, '_' and '-'; write it like shop_orders")
    )]
    pub queue_name: Option<String>,

    /// The type of the queue. Can't be changed.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<QueueType>,

    /// How long a received message is hidden from other consumers, in seconds. Default: not managed; SQS has 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 43_200))]
    pub visibility_timeout_seconds: Option<i32>,

    /// How long a message is kept that no consumer deletes, in seconds. Default: not managed; SQS has 345600, which is
    /// 4 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 1_209_600))]
    pub message_retention_seconds: Option<i32>,

    /// How long a new message is hidden from all consumers, in seconds. Default: not managed; SQS has 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 900))]
    pub delay_seconds: Option<i32>,

    /// How long a request for messages waits if the queue is empty, in seconds. Default: not managed; SQS has 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 20))]
    pub receive_wait_seconds: Option<i32>,

    /// The maximum size of a message in bytes. Default: not managed; SQS has 1048576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024, max = 1_048_576))]
    pub max_message_bytes: Option<i32>,

    /// Moves messages that consumers fail to process to another queue. Default: not managed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<DeadLetter>,

    /// Tags of the queue. Other tags are kept, also those that are removed from the spec. Default: not managed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    #[x_kube(
        validation = ("self.all(key, size(key) >= 1 && size(key) <= 128)", "the key of a tag has 1 to 128 characters"),
        validation = ("!self.exists(key, key.startsWith('appdeploy.dev/') || key.startsWith('aws:'))", "the keys appdeploy.dev/... and aws:... are reserved: use another key")
    )]
    pub tags: BTreeMap<String, String>,
}

impl Sqs {
    /// Whether it is a FIFO queue.
    #[must_use]
    pub fn is_fifo(&self) -> bool {
        self.type_ == Some(QueueType::Fifo)
    }
}

/// The maximum number of tags of a spec. SQS allows 50, and the operator sets one.
pub const MAX_TAGS: usize = 49;

fn tags_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_TAGS,
        "additionalProperties": {"type": "string", "maxLength": 256},
    })
}

/// The type of the queue: `Standard`, or `FIFO`, which keeps the order of messages. Default `Standard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum QueueType {
    /// Messages can be delivered more than once and in another order.
    Standard,
    /// Messages are delivered in order.
    #[serde(rename = "FIFO")]
    Fifo,
}

/// The queue for messages that consumers fail to process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// An AppQueue in the same namespace, of the same type, with the same endpoint and region.
    pub queue_ref: QueueReference,
    /// After how many deliveries a message is moved.
    #[schemars(range(min = 1, max = 1000))]
    pub max_receive_count: i32,
}

/// An AppQueue in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueReference {
    /// The name of the AppQueue.
    #[schemars(length(min = 1, max = 53))]
    #[x_kube(
        validation = ("self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", "the name of an AppQueue has lower-case letters, digits and '-', and starts with a letter; write it like orders")
    )]
    pub name: String,
}

/// The source of credentials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// A Secret in the same namespace with the keys `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, and with
    /// `AWS_SESSION_TOKEN` for temporary credentials. The operator needs the right to get it, which `kubectl appdeploy queue
    /// create` grants.
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub secret_ref: LocalObjectReference,
}

/// What to do if a queue with this name exists that this AppQueue has not created: `Never` reports a conflict and does not
/// change the queue, `IfExists` manages the queue. Default `Never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AdoptionPolicy {
    /// Reports a conflict.
    Never,
    /// Manages the existing queue.
    IfExists,
}

/// What happens to the queue when the AppQueue is deleted: `Delete` deletes it with its messages, `Retain` keeps it. Default
/// `Delete` if the AppQueue has created the queue, `Retain` if it has adopted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Deletes the queue with its messages.
    Delete,
    /// Keeps the queue.
    Retain,
}

/// The observed state. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppQueueStatus {
    /// The generation of the spec that this status is about. If it is older than `metadata.generation`, the operator has
    /// not processed the last change yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The URL of the queue. Set since the queue was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The ARN of the queue. Set since the queue was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
    /// The approximate number of messages. Updated when its number of digits changes, to keep the number of writes small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approximate_depth: Option<i64>,
    /// Why the queue is not as desired, and what to do about it. Not set if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// `Ready` (Unknown if the operator does not know the current state), and, only while they are true, `Reconciling` (not
    /// ready, but may become ready without a change of the spec) and `Stalled` (does not become ready without a change).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::status::conditions_schema")]
    pub conditions: Vec<Condition>,
}
