//! Who leads, as a function of what was seen of the Lease and when: the rules of client-go's leader election.
//!
//! Times are those of one's own monotonic clock. What a Lease says about times is another machine's opinion: whether it
//! is still held is judged by when *we* saw it change last.

use std::time::Duration;

use jiff::Timestamp;

/// The times of an election, derived from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a Lease is left alone after its last change.
    pub lease: Duration,
    /// How long a leader may go on after the last renewal that it knows of. Shorter than `lease`, so that it has
    /// stopped before another one begins.
    pub renew: Duration,
    /// How long a write that has begun may take beyond `renew`. Together they are less than `lease`.
    pub grace: Duration,
    /// The time between two looks at the Lease.
    pub retry: Duration,
    /// How long one request about the Lease may take. A leader whose connection is dead has time for two more tries before
    /// `renew` is over.
    pub patience: Duration,
}

impl Terms {
    /// Derives the times from how long a Lease lasts, in the proportions of Kubernetes' own: 15 s, 10 s, 2 s. A Lease lasts
    /// whole seconds, and others go by what stands in it.
    #[must_use]
    pub fn of(lease: Duration) -> Self {
        let lease = Duration::from_secs(lease.as_secs());
        Self {
            lease,
            renew: lease * 2 / 3,
            grace: lease * 4 / 15,
            retry: lease * 2 / 15,
            patience: lease * 7 / 30,
        }
    }
}

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; `None` if it was given back.
    pub holder: Option<String>,
    /// Changes with each write.
    pub version: String,
    /// How long it lasts.
    pub lasts: Duration,
    /// Since when its holder has had it, by the holder's clock. For people only.
    pub acquired: Option<Timestamp>,
    /// How often it has changed hands.
    pub transitions: i32,
}

/// One that would lead, and what it has seen.
#[derive(Clone, Debug)]
pub struct Candidate {
    name: String,
    seen: Option<(Record, Duration)>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// There is no Lease: make it.
    Create,
    /// It is free, or its holder has not been heard of for too long: take it, if it is still this version.
    Take(Record),
    /// It is ours: renew it, if it is still this version.
    Renew(Record),
    /// It is another's: look again.
    Wait,
}

impl Candidate {
    /// Makes one that has seen nothing yet.
    #[must_use]
    pub const fn new(name: String) -> Self {
        Self { name, seen: None }
    }

    /// Takes in what the Lease says at a time, and decides.
    pub fn see(&mut self, lease: Option<Record>, now: Duration) -> Move {
        let Some(record) = lease else {
            self.seen = None;
            return Move::Create;
        };
        let since = match &self.seen {
            Some((known, since)) if *known == record => *since,
            _ => now,
        };
        self.seen = Some((record.clone(), since));
        match &record.holder {
            Some(holder) if *holder == self.name => Move::Renew(record),
            Some(_) if now < since + record.lasts => Move::Wait,
            _ => Move::Take(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(15);

    fn lease(holder: &str, version: &str) -> Record {
        Record {
            holder: (!holder.is_empty()).then(|| holder.to_owned()),
            version: version.to_owned(),
            lasts: LASTS,
            ..Record::default()
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_that_nobody_has_is_taken() {
        let mut me = Candidate::new("me".into());
        assert_eq!(me.see(None, at(0)), Move::Create);
        assert_eq!(me.see(Some(lease("", "1")), at(0)), Move::Take(lease("", "1")));
        assert_eq!(me.see(Some(lease("me", "2")), at(0)), Move::Renew(lease("me", "2")));
    }

    /// However old the times in it are: a clock that is wrong must not make two leaders.
    #[test]
    fn a_lease_of_another_is_left_alone_until_it_was_seen_unchanged_for_its_time() {
        let mut me = Candidate::new("me".into());
        assert_eq!(me.see(Some(lease("other", "1")), at(100)), Move::Wait);
        assert_eq!(me.see(Some(lease("other", "1")), at(114)), Move::Wait);
        assert_eq!(me.see(Some(lease("other", "2")), at(114)), Move::Wait, "it was renewed");
        assert_eq!(me.see(Some(lease("other", "2")), at(128)), Move::Wait);
        assert_eq!(
            me.see(Some(lease("other", "2")), at(129)),
            Move::Take(lease("other", "2"))
        );
    }

    #[test]
    fn a_leader_ends_before_another_may_begin() {
        let terms = Terms::of(LASTS);
        assert!(terms.renew < terms.lease && terms.retry < terms.renew);
        assert_eq!((terms.renew, terms.grace, terms.retry), (at(10), at(4), at(2)));
        assert_eq!(terms.patience, Duration::from_millis(3500));
        assert_eq!(Terms::of(Duration::from_millis(15_999)), terms, "what others read");
    }
}
