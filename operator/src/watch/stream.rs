//! Splits the body of a watch into events, of which only one is in memory at a time.

use std::ops::Range;

use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes};

/// The most bytes of an event. An object has at most 1.5 MiB in etcd, and up to six times as many as JSON, where `<` is six bytes.
const MAX_EVENT: usize = 12 << 20;

/// The bytes of a length.
const LENGTH: usize = 4;

/// The events of a body.
#[derive(Debug)]
pub struct EventStream<B> {
    body: B,
    framing: Framing,
    buffer: Vec<u8>,
    /// Where the next event begins in the buffer.
    start: usize,
    max: usize,
}

/// How events are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each is a line, of JSON.
    Lines,
    /// Each follows its length, in protobuf.
    Lengths,
}

/// Why no event could be read.
#[derive(Debug, thiserror::Error)]
pub enum EventError<E> {
    /// The body broke.
    #[error(transparent)]
    Body(E),
    /// An event is too long.
    #[error("an event of the watch has more than {0} bytes")]
    TooLong(usize),
}

impl<B: HttpBody<Data = Bytes> + Unpin> EventStream<B> {
    /// Returns the events of a body.
    pub const fn new(body: B, framing: Framing) -> Self {
        Self {
            body,
            framing,
            buffer: Vec::new(),
            start: 0,
            max: MAX_EVENT,
        }
    }

    /// Returns how the events are separated.
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// Returns the next event; `None` at the end of the body. If it is dropped while it waits, nothing is lost.
    ///
    /// # Errors
    /// When the body breaks, or the event is too long.
    pub async fn next(&mut self) -> Result<Option<&[u8]>, EventError<B::Error>> {
        let mut searched = self.start;
        loop {
            if let Some((event, next)) = self.find(searched) {
                self.start = next;
                return Ok(Some(&self.buffer[event]));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            searched = self.buffer.len();
            if searched > self.max {
                return Err(EventError::TooLong(self.max));
            }
            let Some(frame) = self.body.frame().await else {
                self.start = searched;
                // Of a line without an end, the parser sees that it was cut.
                let is_line = self.framing == Framing::Lines && searched > 0;
                return Ok(is_line.then_some(&self.buffer));
            };
            if let Ok(data) = frame.map_err(EventError::Body)?.into_data() {
                // A long event is rare: its memory is not kept.
                if self.buffer.is_empty() {
                    self.buffer = Vec::new();
                }
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// Returns where the next event is in the buffer, and where the one after it begins. Lines have no end before `searched`.
    fn find(&self, searched: usize) -> Option<(Range<usize>, usize)> {
        match self.framing {
            Framing::Lines => {
                let length = self.buffer[searched..].iter().position(|byte| *byte == b'\n')?;
                let end = searched + length;
                Some((self.start..end, end + 1))
            }
            Framing::Lengths => {
                let (length, rest) = self.buffer[self.start..].split_first_chunk::<LENGTH>()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                let begin = self.start + LENGTH;
                (rest.len() >= length).then(|| (begin..begin + length, begin + length))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// Returns the events of a body that arrives in these parts, and the error at which it ends.
    async fn events(framing: Framing, parts: &[&str], max: usize) -> (Vec<String>, Option<String>) {
        let frames = parts
            .iter()
            .map(|part| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(part.as_bytes()))));
        let body = StreamBody::new(stream::iter(frames.collect::<Vec<_>>()));
        let mut stream = EventStream {
            max,
            ..EventStream::new(body, framing)
        };
        let mut all = Vec::new();
        loop {
            match stream.next().await {
                Ok(Some(event)) => all.push(String::from_utf8(event.to_vec()).unwrap()),
                Ok(None) => return (all, None),
                Err(error) => return (all, Some(error.to_string())),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_split_wherever_the_parts_of_the_body_end() {
        for parts in [
            &["one\ntwo\n\nthree\n"][..],
            &["one", "\ntwo\n", "", "\nth", "ree\n"],
            &["o", "ne\ntw", "o\n\nthree"],
        ] {
            let expected = ["one", "two", "", "three"].map(String::from);
            assert_eq!(
                events(Framing::Lines, parts, 10).await,
                (expected.into(), None),
                "{parts:?}"
            );
        }
        assert_eq!(events(Framing::Lines, &[], 10).await, (vec![], None));
    }

    #[tokio::test]
    async fn lengths_are_followed_wherever_the_parts_of_the_body_end() {
        for parts in [
            &["\0\0\0\x03one\0\0\0\0\0\0\0\x02t\n"][..],
            &["\0\0", "\0\x03on", "e", "\0\0\0\0\0\0\0", "\x02", "t\n", ""],
            // An event without an end.
            &["\0\0\0\x03one\0\0\0\0\0\0\0\x02t\n\0\0\0\x05four"],
        ] {
            let expected = ["one", "", "t\n"].map(String::from);
            assert_eq!(
                events(Framing::Lengths, parts, 10).await,
                (expected.into(), None),
                "{parts:?}"
            );
        }
        let (all, error) = events(Framing::Lengths, &["\0\0\0\x14", "0123456789", "0123456789"], 10).await;
        assert!(all.is_empty() && error.is_some());
    }

    #[tokio::test]
    async fn line_above_the_limit_is_an_error() {
        let (all, error) = events(Framing::Lines, &["one\n", "0123456789", "0123456789", "\n"], 10).await;
        assert_eq!(all, ["one"]);
        assert_eq!(error.as_deref(), Some("an event of the watch has more than 10 bytes"));
    }
}
