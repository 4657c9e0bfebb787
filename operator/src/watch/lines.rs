//! Splits the body of a response into lines, of which only one is in memory at a time.

use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes};

/// The most bytes of a line. An object has at most 1.5 MiB in etcd, and up to six times as many as JSON, where `<` is six bytes.
const MAX_LINE: usize = 12 << 20;

/// The lines of a body.
#[derive(Debug)]
pub struct Lines<B> {
    body: B,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    start: usize,
    max: usize,
}

/// Why no line could be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError<E> {
    /// The body broke.
    #[error(transparent)]
    Body(E),
    /// A line is too long.
    #[error("a line of the watch has more than {0} bytes")]
    TooLong(usize),
}

impl<B: HttpBody<Data = Bytes> + Unpin> Lines<B> {
    /// Returns the lines of a body.
    pub const fn new(body: B) -> Self {
        Self {
            body,
            buffer: Vec::new(),
            start: 0,
            max: MAX_LINE,
        }
    }

    /// Returns the next line without its end; `None` at the end of the body. If it is dropped while it waits, nothing is lost.
    ///
    /// # Errors
    /// When the body breaks, or the line is too long.
    pub async fn next(&mut self) -> Result<Option<&[u8]>, LineError<B::Error>> {
        let mut searched = self.start;
        loop {
            if let Some(length) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let end = searched + length;
                let line = self.start..end;
                self.start = end + 1;
                return Ok(Some(&self.buffer[line]));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            searched = self.buffer.len();
            if searched > self.max {
                return Err(LineError::TooLong(self.max));
            }
            let Some(frame) = self.body.frame().await else {
                self.start = searched;
                return Ok((searched > 0).then_some(&self.buffer));
            };
            if let Ok(data) = frame.map_err(LineError::Body)?.into_data() {
                // A long line is rare: its memory is not kept.
                if self.buffer.is_empty() {
                    self.buffer = Vec::new();
                }
                self.buffer.extend_from_slice(&data);
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

    /// Returns the lines of a body that arrives in these parts, and the error at which it ends.
    async fn lines(parts: &[&str], max: usize) -> (Vec<String>, Option<String>) {
        let frames = parts
            .iter()
            .map(|part| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(part.as_bytes()))));
        let body = StreamBody::new(stream::iter(frames.collect::<Vec<_>>()));
        let mut lines = Lines {
            max,
            ..Lines::new(body)
        };
        let mut all = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => all.push(String::from_utf8(line.to_vec()).unwrap()),
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
            assert_eq!(lines(parts, 10).await, (expected.into(), None), "{parts:?}");
        }
        assert_eq!(lines(&[], 10).await, (vec![], None));
    }

    #[tokio::test]
    async fn line_above_the_limit_is_an_error() {
        let (all, error) = lines(&["one\n", "0123456789", "0123456789", "\n"], 10).await;
        assert_eq!(all, ["one"]);
        assert_eq!(error.as_deref(), Some("a line of the watch has more than 10 bytes"));
    }
}
