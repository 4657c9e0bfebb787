//! The labels that series carry. Their values are words from the code, never names of objects: how many series there are
//! does not depend on how many objects there are.

use prometheus_client::encoding::EncodeLabelSet;

/// How the reconciles of a controller end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reconcile {
    pub controller: &'static str,
    pub result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Controller {
    pub controller: &'static str,
}

/// What keeps a controller from its goal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Failure {
    pub controller: &'static str,
    pub class: &'static str,
}

/// How the objects of a controller are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Objects {
    pub controller: &'static str,
    pub state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Request {
    pub verb: &'static str,
    pub resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Verb {
    pub verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Resource {
    pub resource: &'static str,
}

/// A call to a queue service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueCall {
    pub action: &'static str,
    pub result: &'static str,
}

/// What was changed outside of the cluster: the queue, an attribute or a tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Drift {
    pub kind: &'static str,
}

/// A queue, or a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Name {
    pub name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Build {
    pub version: &'static str,
}

/// Of what there may be one, or none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Sole {}
