//! One look at one PodSet. Not written yet: a PodSet is seen, and nothing is done.

use crd::PodSet;
use tracing::instrument;

use super::teller::Teller;
use crate::dispatch::Verdict;
use crate::key::Key;

/// What reconciling a PodSet needs.
pub struct Reconciler {
    /// Who writes statuses.
    pub teller: Teller<PodSet>,
}

impl Reconciler {
    /// Brings one PodSet to where its spec wants it, as far as it can be, and says how it is.
    #[instrument(skip_all, fields(kind = %crd::Kind::PodSet, object = %key))]
    pub async fn reconcile(&self, key: Key) -> Verdict {
        let _ = self.teller.look(key);
        Verdict::Settled
    }
}
