//! The decisions about AppQueues, which are queues outside the cluster.
//!
//! A reconcile repeats [`next_step`] and [`record`] until the step is [`Step::Settled`], writes [`status()`], and stores the
//! outcome with [`Memory::settle`]. All times are in seconds since 1970.
//!
//! Rules of the protocol, which `model/tests/queue` checks in all reachable states:
//! - The name of the queue is derived from the AppQueue, so that a create that is repeated creates no second queue.
//! - `CreateQueue` sets a tag with the UID of the AppQueue. A queue without this tag is never changed or deleted.
//! - A write follows a read of the tags in the same reconcile, and the tags are read after the attributes. So the tags are
//!   never older than the `CreatedTimestamp` to which the result is bound.
//! - The finalizer is added before the queue is created, and removed when the queue was deleted.

mod call;
mod claim;
mod desired;
mod difference;
mod memory;
mod observed;
mod outcome;
mod output;
mod status;
mod step;

pub use call::{Answer, Call, CallError, CredentialsError};
pub use claim::Claim;
pub use desired::{DeadLetterState, Desired, desired};
pub use difference::Drift;
pub use memory::{LostCreate, Memory, Verified, Written};
pub use observed::{Existence, Observed, record};
pub use outcome::{Conflict, Outcome, Retry, State, View};
pub(crate) use output::{CONFIG_MAP_SUFFIX, ENDPOINT, REGION, URL};
pub use output::{config_map, config_map_name, env_prefix, output};
pub use status::{status, unfinished};
pub use step::{Lifecycle, Removal, Step, StepInput, next_step};

/// How long a change of a queue may take to be visible, in seconds. Until then a difference is not drift.
/// See <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html>.
pub const PROPAGATION: i64 = 60;
/// The same for the retention of messages.
pub const RETENTION_PROPAGATION: i64 = 900;
