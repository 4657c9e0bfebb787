//! Frames (RFC 9113, section 4), and which of them an action sends.

use h2::Reason;

use crate::RuleId;
use crate::action::{Action, GoAway};
use crate::script::Decided;

/// The length of the part before the payload.
pub(super) const HEAD: usize = 9;

const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// The flag of SETTINGS that confirm those of the other side, and are empty.
const ACK: u8 = 1;
/// The setting with the window that streams have at their start.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A frame, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame(Vec<u8>);

impl Frame {
    fn new(kind: u8, stream: u32, payload: &[u32]) -> Self {
        let length = u8::try_from(4 * payload.len()).unwrap_or(u8::MAX);
        let mut bytes = vec![0, 0, length, kind, 0];
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload.iter().flat_map(|word| word.to_be_bytes()));
        Self(bytes)
    }

    /// Returns the GOAWAY frame after which only streams up to `last` are processed.
    pub(super) fn goaway(last: u32) -> Self {
        Self::new(GOAWAY, 0, &[last, Reason::NO_ERROR.into()])
    }

    /// Returns the frame that allows the client to send as many bytes more of a body.
    pub(super) fn window_update(stream: u32, bytes: u32) -> Self {
        Self::new(WINDOW_UPDATE, stream, &[bytes])
    }

    /// Returns a frame with these bytes, in which streams have no window at their begin if it is the server's settings.
    pub(super) fn without_windows(mut bytes: Vec<u8>) -> Self {
        if bytes.get(3) == Some(&SETTINGS) && bytes.get(4).is_some_and(|flags| flags & ACK == 0) {
            // The last value of a setting counts.
            bytes.extend(INITIAL_WINDOW_SIZE.to_be_bytes());
            bytes.extend(0_u32.to_be_bytes());
            // Settings are short.
            bytes[2] += 6;
        }
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the length of the payload, from the bytes before it.
pub(super) fn payload(head: [u8; HEAD]) -> usize {
    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])
}

/// What an action does with a stream and its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: the request is answered as with HTTP/1.1.
    None,
    /// GOAWAY, after which only streams up to this one are processed.
    ShutDown(u32),
    /// `RST_STREAM`.
    Reset(Reason),
    /// The client gets no window for the end of the request while the rule exists.
    Stall(RuleId),
}

impl Effect {
    /// Returns the effect of a decision about the request on this stream.
    pub(super) fn of(decided: &Decided, stream: u32) -> Self {
        match decided {
            Decided::Act(_, Action::GoAway(GoAway::Included)) => Self::ShutDown(stream),
            // Clients have the odd numbers.
            Decided::Act(_, Action::GoAway(GoAway::Excluded)) => Self::ShutDown(stream.saturating_sub(2)),
            Decided::Act(_, Action::ResetStream(reason)) => Self::Reset(*reason),
            Decided::Act(id, Action::StallRequest) => Self::Stall(*id),
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_in_the_specification() {
        let goaway = Frame::goaway(5);
        assert_eq!(goaway.bytes(), [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0]);
        let window = Frame::window_update(3, 258);
        assert_eq!(window.bytes(), [0, 0, 4, 8, 0, 0, 0, 0, 3, 0, 0, 1, 2]);
        assert_eq!(payload([1, 2, 3, 0, 0, 0, 0, 0, 0]), 0x1_02_03);
    }

    #[test]
    fn only_settings_of_the_server_lose_their_window() {
        let limit = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
        let changed = Frame::without_windows(limit.to_vec());
        assert_eq!(changed.bytes()[..HEAD], [0, 0, 12, 4, 0, 0, 0, 0, 0]);
        assert_eq!(changed.bytes()[HEAD..], [0, 3, 0, 0, 0, 100, 0, 4, 0, 0, 0, 0]);
        for other in [[0, 0, 0, 4, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0, 1]] {
            assert_eq!(Frame::without_windows(other.to_vec()).bytes(), other);
        }
    }

    #[test]
    fn goaway_includes_the_request_or_only_earlier_ones() {
        let effect = |action, stream| Effect::of(&Decided::Act(RuleId(7), action), stream);
        assert_eq!(effect(Action::GoAway(GoAway::Included), 5), Effect::ShutDown(5));
        assert_eq!(effect(Action::GoAway(GoAway::Excluded), 5), Effect::ShutDown(3));
        assert_eq!(effect(Action::GoAway(GoAway::Excluded), 1), Effect::ShutDown(0));
        let refused = Reason::REFUSED_STREAM;
        assert_eq!(effect(Action::ResetStream(refused), 5), Effect::Reset(refused));
        assert_eq!(effect(Action::StallRequest, 5), Effect::Stall(RuleId(7)));
        assert_eq!(effect(Action::Hang, 5), Effect::None);
        assert_eq!(Effect::of(&Decided::Pass, 5), Effect::None);
    }
}
