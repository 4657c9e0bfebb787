//! Decides which replica leads, from the versions of the Lease and when they were read: the rules of client-go's leader election.
//!
//! Times are those of the process's own monotonic clock. The times in a Lease are from another machine's clock: whether the Lease is
//! still held depends on when *this* replica saw it change last.

use std::time::Duration;

use jiff::Timestamp;

/// The periods of an election, derived from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long a Lease is not taken after its last change.
    pub lease: Duration,
    /// How long a leader may continue after its last renewal. Shorter than `lease`, so that it has ended before another one begins.
    pub renew: Duration,
    /// How long a running write may take in addition to `renew`. Together they are less than `lease`.
    pub grace: Duration,
    /// The time between two reads of the Lease.
    pub retry: Duration,
    /// How long one request for the Lease may take. A leader whose connection is dead has time for two more attempts before `renew` is
    /// over.
    pub request_timeout: Duration,
}

impl Timings {
    /// Derives the periods from the duration of a Lease, in the proportions of Kubernetes: 15 s, 10 s, 2 s. The duration is in whole
    /// seconds, and other replicas use the one in the Lease.
    #[must_use]
    pub fn of(lease: Duration) -> Self {
        let lease = Duration::from_secs(lease.as_secs());
        Self {
            lease,
            renew: lease * 2 / 3,
            grace: lease * 4 / 15,
            retry: lease * 2 / 15,
            request_timeout: lease * 7 / 30,
        }
    }
}

/// The content of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The holder; `None` if it was released.
    pub holder: Option<String>,
    /// Its version, which changes with each write.
    pub version: String,
    /// How long it lasts.
    pub lasts: Duration,
    /// When the holder has acquired it, by the holder's clock. Only for people.
    pub acquired: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: i32,
}

/// A candidate, and what it has seen of the Lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    name: String,
    seen: Option<(Record, Duration)>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// There is no Lease: create it.
    Create,
    /// It is free, or its holder has not renewed it for too long: take it, if it still has this version.
    Take(Record),
    /// It is ours: renew it, if it still has this version.
    Renew(Record),
    /// Another replica holds it: read it again later.
    Wait,
}

impl Candidate {
    /// Returns a candidate that has not read the Lease yet.
    #[must_use]
    pub const fn new(name: String) -> Self {
        Self { name, seen: None }
    }

    /// Decides what to do after the Lease was read at a time.
    pub fn observe(&mut self, lease: Option<Record>, now: Duration) -> Move {
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
    fn free_lease_is_taken() {
        let mut me = Candidate::new("me".into());
        assert_eq!(me.observe(None, at(0)), Move::Create);
        assert_eq!(me.observe(Some(lease("", "1")), at(0)), Move::Take(lease("", "1")));
        assert_eq!(me.observe(Some(lease("me", "2")), at(0)), Move::Renew(lease("me", "2")));
    }

    /// However old the times in it are: a clock that is wrong must not make two leaders.
    #[test]
    fn unchanged_lease_is_acquired_after_its_duration() {
        let mut me = Candidate::new("me".into());
        assert_eq!(me.observe(Some(lease("other", "1")), at(100)), Move::Wait);
        assert_eq!(me.observe(Some(lease("other", "1")), at(114)), Move::Wait);
        assert_eq!(
            me.observe(Some(lease("other", "2")), at(114)),
            Move::Wait,
            "it was renewed"
        );
        assert_eq!(me.observe(Some(lease("other", "2")), at(128)), Move::Wait);
        assert_eq!(
            me.observe(Some(lease("other", "2")), at(129)),
            Move::Take(lease("other", "2"))
        );
    }

    #[test]
    fn leader_ends_before_another_leads() {
        let timings = Timings::of(LASTS);
        assert!(timings.renew < timings.lease && timings.retry < timings.renew);
        assert_eq!((timings.renew, timings.grace, timings.retry), (at(10), at(4), at(2)));
        assert_eq!(timings.request_timeout, Duration::from_millis(3500));
        assert_eq!(Timings::of(Duration::from_millis(15_999)), timings, "what others read");
    }
}
