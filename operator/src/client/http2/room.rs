//! Decides which connection takes a request, and whether a failed request may be sent again.

use http::Uri;

/// What a connection is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Watches, each of which lasts for minutes.
    Watches,
    /// Requests for the Lease, which must not wait for others: a leader that can't renew it ends.
    Lease,
    /// All other requests.
    Requests,
}

impl Traffic {
    /// Returns the traffic that a request belongs to.
    pub(super) fn of(uri: &Uri) -> Self {
        let mut parameters = uri.query().unwrap_or_default().split('&');
        if parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1")) {
            Self::Watches
        } else if uri.path().contains("/apis/coordination.k8s.io/") {
            Self::Lease
        } else {
            Self::Requests
        }
    }

    /// Returns the most connections. A request waits for a stream of another one, which ends within its deadline. A watch can't
    /// wait, since others do not end; it opens a connection for every hundred.
    pub(super) const fn most(self) -> usize {
        match self {
            Self::Watches => usize::MAX,
            Self::Lease => 1,
            Self::Requests => 2,
        }
    }

    /// Returns how many connections stay open without streams.
    pub(super) const fn kept(self) -> usize {
        match self {
            Self::Watches | Self::Lease => 1,
            Self::Requests => 2,
        }
    }
}

/// How busy an open connection is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Reserved streams.
    pub(super) streams: usize,
    /// The server's limit of concurrent streams.
    pub(super) limit: usize,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Send it on the connection with this index.
    Use(usize),
    /// Open another connection.
    Open,
    /// Wait until a stream has ended.
    Wait,
}

/// Chooses among the open connections of one kind of traffic. The first one with room is used, so others become idle.
pub(super) fn choose(traffic: Traffic, loads: &[Load]) -> Choice {
    match loads.iter().position(|load| load.streams < load.limit) {
        Some(index) => Choice::Use(index),
        None if loads.len() < traffic.most() => Choice::Open,
        None => Choice::Wait,
    }
}

/// What the server has done with a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The connection had ended before the request was sent.
    NotSent,
    /// A GOAWAY frame states that the server did not process the request: it shuts the connection down.
    Excluded,
    /// The server states that it did not process the request, which may be one too many.
    Refused,
    /// The request may have been carried out.
    Unknown,
}

impl Fate {
    /// Returns the fate of a request whose stream has ended with an error.
    ///
    /// A GOAWAY frame ends the streams that the server has not processed, and no others (RFC 9113, section 6.8). `REFUSED_STREAM`
    /// states the same of one stream (section 8.7).
    pub(super) fn of(error: &h2::Error) -> Self {
        match error.reason() {
            _ if !error.is_remote() => Self::Unknown,
            _ if error.is_go_away() => Self::Excluded,
            Some(h2::Reason::REFUSED_STREAM) => Self::Refused,
            _ => Self::Unknown,
        }
    }

    /// Returns the fate of a request that a connection did not take.
    pub(super) fn of_unsent(error: &h2::Error) -> Self {
        if error.is_io() || error.is_go_away() {
            Self::NotSent
        } else {
            // The request itself is invalid.
            Self::Unknown
        }
    }

    /// Whether to send the request again, which was repeated this often.
    pub(super) const fn may_repeat(self, repeats: usize) -> bool {
        match self {
            Self::NotSent | Self::Excluded => repeats < REPEATS,
            Self::Refused => repeats < 1,
            Self::Unknown => false,
        }
    }

    /// Whether it is certain that the request was not carried out.
    pub(super) const fn is_unprocessed(self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// How often a request is repeated when connections end. Requests that are sent together on a new connection may all be excluded again.
const REPEATS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(traffic: Traffic, streams: &[usize]) -> Choice {
        let load = |streams: &usize| Load {
            streams: *streams,
            limit: 100,
        };
        choose(traffic, &streams.iter().map(load).collect::<Vec<_>>())
    }

    #[test]
    fn first_connection_with_room_is_used() {
        use Traffic::{Requests, Watches};
        assert_eq!(choice(Requests, &[]), Choice::Open);
        assert_eq!(choice(Requests, &[0]), Choice::Use(0));
        assert_eq!(choice(Requests, &[99, 0]), Choice::Use(0));
        assert_eq!(choice(Requests, &[100]), Choice::Open);
        assert_eq!(choice(Requests, &[100, 5]), Choice::Use(1));
        assert_eq!(choice(Requests, &[100, 100]), Choice::Wait);
        assert_eq!(choice(Watches, &[100, 100]), Choice::Open, "watches do not end");
        // The server has reduced its limit.
        let reduced = Load { streams: 20, limit: 10 };
        assert_eq!(choose(Requests, &[reduced, reduced]), Choice::Wait);
    }

    #[test]
    fn traffic_is_recognized_by_address() {
        let traffic = |uri: &str| Traffic::of(&uri.parse().unwrap());
        assert_eq!(traffic("/api/v1/pods?&watch=true&resourceVersion=7"), Traffic::Watches);
        assert_eq!(traffic("/api/v1/pods?watch=1"), Traffic::Watches);
        let leases = "/apis/coordination.k8s.io/v1/namespaces/appdeploy-system/leases";
        assert_eq!(traffic(leases), Traffic::Lease);
        for uri in [
            "/api/v1/pods",
            "/api/v1/pods?watch=false",
            "/api/v1/pods?labelSelector=watch%3Dtrue",
            "/api/v1/namespaces/watch=true/pods",
        ] {
            assert_eq!(traffic(uri), Traffic::Requests, "{uri}");
        }
    }

    #[test]
    fn only_unprocessed_requests_are_repeated() {
        for fate in [Fate::NotSent, Fate::Excluded] {
            assert!(fate.may_repeat(0) && fate.may_repeat(2) && !fate.may_repeat(3));
        }
        assert!(Fate::Refused.may_repeat(0) && !Fate::Refused.may_repeat(1));
        assert!(!Fate::Unknown.may_repeat(0) && !Fate::Unknown.is_unprocessed());
        // These are not from the server.
        for reason in [h2::Reason::REFUSED_STREAM, h2::Reason::NO_ERROR] {
            assert_eq!(Fate::of(&h2::Error::from(reason)), Fate::Unknown);
            assert_eq!(Fate::of_unsent(&h2::Error::from(reason)), Fate::Unknown);
        }
    }
}
