//! What to do next with the certificates, as a function of what there is and of the time.
//!
//! ```text
//!                authority:   old            old, new        old, new          new
//!                certificate: by old         by old          by new            by new
//!                                     |  overlap  |       |   overlap  |
//!                                AddAuthority   Sign               DropAuthorities
//! ```
//!
//! So whoever trusts the authorities of now, or those of a moment ago, trusts the certificate of now and of a moment ago.

use std::time::Duration;

use jiff::Timestamp;

use super::Terms;

/// The time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins to be valid.
    pub begin: Timestamp,
    /// When it is valid no more.
    pub end: Timestamp,
}

impl Span {
    fn holds(self, now: Timestamp) -> bool {
        self.begin <= now && now < self.end
    }

    /// Two thirds of it. In whole milliseconds, because it is not needed more exactly.
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
    /// Which of the authorities has signed it, by its place.
    pub signer: usize,
}

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The authorities that are to be trusted, the newest first.
    pub authorities: Vec<Span>,
    /// Whether the key of the newest is there.
    pub can_sign: bool,
    /// The server's certificate, if it is whole: its key fits, it has all names, and one of the authorities has signed
    /// it.
    pub leaf: Option<Leaf>,
    /// Whether there is anything among the authorities that is none.
    pub is_littered: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make an authority and a certificate. What there was can't be used.
    Create,
    /// Make an authority and put it before the others, of which those that are still valid stay.
    AddAuthority,
    /// Make a certificate, signed by the newest authority.
    Sign,
    /// Drop all authorities but the newest.
    DropAuthorities,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To do this now.
    Act(Action),
    /// To do nothing until then.
    Wait(Timestamp),
}

/// Decides what is next. `told` says that API servers, as far as one can know, were told the authorities of now, and have
/// had the overlap to take them in: else a certificate by a new one is not used yet, unless nothing else is valid.
#[must_use]
pub fn next(facts: &Facts, terms: &Terms, now: Timestamp, told: bool) -> Next {
    let valid = |place: usize| facts.authorities.get(place).filter(|span| span.holds(now)).copied();
    let newest = valid(0).filter(|_| facts.can_sign);
    let leaf = facts.leaf.filter(|leaf| leaf.span.holds(now));
    let leaf = leaf.and_then(|leaf| Some((leaf, valid(leaf.signer)?)));
    let (newest, leaf, signer) = match (newest, leaf) {
        (None, None) => return Next::Act(Action::Create),
        (Some(_), None) => return Next::Act(Action::Sign),
        (None, Some(_)) => return Next::Act(Action::AddAuthority),
        (Some(newest), Some((leaf, signer))) => (newest, leaf, signer),
    };
    // When it is no more as it is, whatever else happens.
    let broken = leaf.span.end.min(signer.end).min(newest.end);
    if leaf.signer != 0 {
        let ready = since(newest, terms.skew + terms.overlap);
        if now < ready {
            return Next::Wait(ready.min(broken));
        }
        // Whoever tells them looks again then.
        return if told {
            Next::Act(Action::Sign)
        } else {
            Next::Wait(broken)
        };
    }
    let drop = since(leaf.span, terms.skew + terms.overlap);
    let steps = [
        (
            Action::DropAuthorities,
            (facts.authorities.len() > 1 || facts.is_littered).then_some(drop),
        ),
        // Before a certificate that would not live longer than this authority.
        (Action::AddAuthority, Some(newest.due())),
        (Action::Sign, Some(leaf.span.due())),
    ];
    let due = steps.iter().find(|(_, at)| at.is_some_and(|at| at <= now));
    // While a new authority is not trusted yet, nothing can be signed: the certificate has to last.
    let fresh = now
        .checked_add(terms.certificate)
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
    // Past the end of all time it is never.
    span.begin.checked_add(time).unwrap_or(Timestamp::MAX)
}
