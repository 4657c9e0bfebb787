//! Decides the next action on certificates, from the content of the Secret and the time.
//!
//! ```text
//!                authority:   old            old, new        old, new          new
//!                certificate: by old         by old          by new            by new
//!                                     |  overlap  |       |   overlap  |
//!                                AddAuthority   Sign               DropAuthorities
//! ```
//!
//! So a client with the current or the previous authorities trusts the current and the previous certificate.

use std::time::Duration;

use jiff::Timestamp;

use super::Lifetimes;

/// The time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins to be valid.
    pub begin: Timestamp,
    /// When it expires.
    pub end: Timestamp,
}

impl Span {
    fn holds(self, now: Timestamp) -> bool {
        self.begin <= now && now < self.end
    }

    /// Two thirds of it, in whole milliseconds.
    fn due(self) -> Timestamp {
        let life = self.end.as_millisecond().saturating_sub(self.begin.as_millisecond());
        Timestamp::from_millisecond(self.end.as_millisecond().saturating_sub(life / 3)).unwrap_or(self.end)
    }
}

/// The server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// When it is valid.
    pub span: Span,
    /// The index of the authority that has signed it.
    pub signer: usize,
}

/// The content of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretState {
    /// The trusted authorities, the newest first.
    pub authorities: Vec<Span>,
    /// Whether the key of the newest one exists.
    pub can_sign: bool,
    /// The server's certificate, if it is complete: its key matches, it has all names, and one of the authorities has signed it.
    pub leaf: Option<Leaf>,
    /// Whether a part of the authorities can't be read.
    pub is_littered: bool,
}

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create an authority and a certificate. The existing ones can't be used.
    Create,
    /// Create an authority and put it before the others, of which the valid ones stay.
    AddAuthority,
    /// Create a certificate, signed by the newest authority.
    Sign,
    /// Drop all authorities except the newest.
    DropAuthorities,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This one, now.
    Act(Action),
    /// None until then.
    Wait(Timestamp),
}

/// Decides the next action. `published` says that the webhook configurations have had the current authorities for the overlap. Before
/// that, a certificate by a new authority is not used, unless no other one is valid.
#[must_use]
pub fn next(state: &SecretState, lifetimes: &Lifetimes, now: Timestamp, published: bool) -> Next {
    let valid = |place: usize| state.authorities.get(place).filter(|span| span.holds(now)).copied();
    let newest = valid(0).filter(|_| state.can_sign);
    let leaf = state.leaf.filter(|leaf| leaf.span.holds(now));
    let leaf = leaf.and_then(|leaf| Some((leaf, valid(leaf.signer)?)));
    let (newest, leaf, signer) = match (newest, leaf) {
        (None, None) => return Next::Act(Action::Create),
        (Some(_), None) => return Next::Act(Action::Sign),
        (None, Some(_)) => return Next::Act(Action::AddAuthority),
        (Some(newest), Some((leaf, signer))) => (newest, leaf, signer),
    };
    // When the content changes without an action.
    let broken = leaf.span.end.min(signer.end).min(newest.end);
    if leaf.signer != 0 {
        let ready = since(newest, lifetimes.skew + lifetimes.overlap);
        if now < ready {
            return Next::Wait(ready.min(broken));
        }
        // The caller checks again when they were written.
        return if published {
            Next::Act(Action::Sign)
        } else {
            Next::Wait(broken)
        };
    }
    let drop = since(leaf.span, lifetimes.skew + lifetimes.overlap);
    let steps = [
        (
            Action::DropAuthorities,
            (state.authorities.len() > 1 || state.is_littered).then_some(drop),
        ),
        // Before a certificate that would not expire after this authority.
        (Action::AddAuthority, Some(newest.due())),
        (Action::Sign, Some(leaf.span.due())),
    ];
    let due = steps.iter().find(|(_, at)| at.is_some_and(|at| at <= now));
    // While a new authority is not trusted yet, no certificate can be signed: the current one must last.
    let fresh = now
        .checked_add(lifetimes.certificate)
        .unwrap_or(Timestamp::MAX)
        .min(newest.end);
    let is_half_gone = now.duration_until(fresh) >= now.duration_until(leaf.span.end) * 2;
    match due {
        Some((Action::AddAuthority, _)) if is_half_gone => Next::Act(Action::Sign),
        Some((action, _)) => Next::Act(*action),
        None => Next::Wait(steps.iter().filter_map(|(_, at)| *at).fold(broken, Timestamp::min)),
    }
}

fn since(span: Span, time: Duration) -> Timestamp {
    // After the end of the clock's range it is never.
    span.begin.checked_add(time).unwrap_or(Timestamp::MAX)
}
