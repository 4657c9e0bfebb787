//! A queue service with one name, and an operator that takes the steps.

use std::collections::BTreeMap;

use crd::AppQueue;
use serde_json::{Value, json};

use super::super::*;
use crate::queue::{Answer, desired, record};

/// More steps than any reconcile has.
const MAX_STEPS: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub created: i64,
    pub attributes: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
}

impl Queue {
    /// Returns a queue that another client has created.
    pub fn of_another(tags: &[(&str, &str)]) -> Self {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Self {
            created: 1,
            attributes: defaults(),
            tags: tags.collect(),
        }
    }
}

fn defaults() -> BTreeMap<String, String> {
    let all = [
        ("DelaySeconds", "0"),
        ("MessageRetentionPeriod", "345600"),
        ("ReceiveMessageWaitTimeSeconds", "0"),
        ("VisibilityTimeout", "30"),
    ];
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// An AppQueue, an operator and the queue service.
pub struct World {
    pub object: Lifecycle,
    pub desired: Desired,
    pub memory: Memory,
    pub queue: Option<Queue>,
    pub now: i64,
    /// Whether other AppQueues exist.
    pub is_live: bool,
    /// Attributes that the service does not return.
    pub hidden: Vec<&'static str>,
    /// Whether the service does not show tags yet.
    pub lagging_tags: bool,
    failing: BTreeMap<&'static str, CallError>,
    lost: Option<&'static str>,
    calls: Vec<String>,
}

impl World {
    pub fn new(sqs: Value) -> Self {
        let mut object = json!({
            "metadata": {"name": "orders", "namespace": "shop", "uid": "me", "generation": 1},
            "spec": {"sqs": sqs},
        });
        object["spec"]["sqs"]["region"] = "us-east-1".into();
        let queue: AppQueue = serde_json::from_value(object).unwrap();
        Self {
            object: Lifecycle::of(&queue, false),
            desired: desired(&queue, |_| None::<AppQueue>).unwrap(),
            memory: Memory::default(),
            queue: None,
            now: 1_000_000,
            is_live: false,
            hidden: Vec::new(),
            lagging_tags: false,
            failing: BTreeMap::new(),
            lost: None,
            calls: Vec::new(),
        }
    }

    /// Takes the steps until nothing is left to do.
    pub fn reconcile(&mut self) -> Outcome {
        let mut observed = Observed::default();
        for _ in 0..MAX_STEPS {
            let is_live = |_: &str| self.is_live;
            let step = next_step(StepInput {
                object: &self.object,
                desired: &self.desired,
                observed: &observed,
                memory: &self.memory,
                is_live: &is_live,
                now: self.now,
            });
            match step {
                Step::Call(call) => {
                    let result = self.call(&call);
                    record(
                        &call,
                        result,
                        &self.object.uid,
                        &mut observed,
                        &mut self.memory,
                        self.now,
                    );
                }
                Step::AddFinalizer => {
                    assert!(!self.object.has_finalizer);
                    self.object.has_finalizer = true;
                    self.calls.push("+finalizer".to_owned());
                }
                Step::RemoveFinalizer(removal) => {
                    assert!(self.object.has_finalizer);
                    self.object.has_finalizer = false;
                    self.calls.push(format!("-finalizer {removal:?}"));
                }
                Step::Settled(outcome) => {
                    self.memory.settle(&self.desired, &outcome, 60, self.now);
                    self.object.was_ready = matches!(outcome.state, State::Ready(_));
                    self.object.was_seen |= outcome.view().is_some();
                    return outcome;
                }
            }
        }
        panic!("the steps do not end: {:?}", self.calls);
    }

    /// Returns and forgets the calls.
    pub fn calls(&mut self) -> Vec<String> {
        std::mem::take(&mut self.calls)
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now += seconds;
    }

    pub fn restart(&mut self) {
        self.memory = Memory::default();
    }

    /// Lets a call fail.
    pub fn fail(&mut self, action: &'static str, error: &CallError) {
        self.failing.insert(action, error.clone());
    }

    /// Loses the response to a call.
    pub fn lose(&mut self, action: &'static str) {
        self.lost = Some(action);
    }

    /// Lets all calls succeed.
    pub fn succeed(&mut self) {
        self.failing.clear();
        self.lost = None;
    }

    /// Changes an attribute outside.
    pub fn change(&mut self, name: &str, value: &str) {
        let queue = self.queue.as_mut().unwrap();
        queue.attributes.insert(name.to_owned(), value.to_owned());
    }

    fn call(&mut self, call: &Call) -> Result<Answer, CallError> {
        let names = match call {
            Call::SetAttributes { attributes, .. } => {
                let names: Vec<&str> = attributes.keys().map(String::as_str).collect();
                format!(" {}", names.join(" "))
            }
            _ => String::new(),
        };
        self.calls.push(format!("{}{names}", call.action()));
        if let Some(error) = self.failing.get(call.action()) {
            return Err(error.clone());
        }
        let result = self.carry_out(call);
        if self.lost == Some(call.action()) {
            return Err(CallError::Lost("timeout".to_owned()));
        }
        result
    }

    fn carry_out(&mut self, call: &Call) -> Result<Answer, CallError> {
        let url = format!("http://sqs/{}", self.desired.name);
        if let Call::Create { attributes, tags } = call {
            let now = self.now;
            self.queue.get_or_insert_with(|| Queue {
                created: now,
                attributes: defaults().into_iter().chain(attributes.clone()).collect(),
                tags: tags.clone(),
            });
            return Ok(Answer::Url(url));
        }
        let queue = self.queue.as_mut().ok_or(CallError::NoSuchQueue)?;
        Ok(match call {
            Call::GetUrl | Call::Create { .. } => Answer::Url(url),
            Call::GetAttributes { .. } => {
                let mut found = queue.attributes.clone();
                found.insert("CreatedTimestamp".into(), queue.created.to_string());
                found.insert("ApproximateNumberOfMessages".into(), "0".into());
                found.retain(|name, _| !self.hidden.contains(&name.as_str()));
                Answer::Attributes(found)
            }
            Call::GetTags { .. } if self.lagging_tags => Answer::Tags(BTreeMap::new()),
            Call::GetTags { .. } => Answer::Tags(queue.tags.clone()),
            Call::SetAttributes { attributes, .. } => {
                queue.attributes.extend(attributes.clone());
                Answer::Done
            }
            Call::Tag { tags, .. } => {
                queue.tags.extend(tags.clone());
                Answer::Done
            }
            Call::Untag { keys, .. } => {
                assert!(!keys.is_empty());
                queue.tags.retain(|key, _| !keys.contains(key));
                Answer::Done
            }
            Call::Delete { .. } => {
                self.queue = None;
                Answer::Done
            }
        })
    }
}
