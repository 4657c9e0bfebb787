//! Lines of a log as bytes: an application can write anything, and lines of any length.

use std::io;
use std::pin::Pin;

use futures::stream::BoxStream;
use futures::{AsyncBufRead, AsyncBufReadExt as _, StreamExt as _, stream};

/// The most bytes of a line that are held at a time.
const MOST: usize = 64 * 1024;

/// A line of a log, or a part of a line that is longer than [`MOST`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChunk {
    /// The bytes without the newline.
    pub bytes: Vec<u8>,
    /// Whether the line ends here.
    pub ends: bool,
}

/// Reads a log piece by piece.
pub fn pieces<R>(log: R) -> BoxStream<'static, io::Result<LogChunk>>
where
    R: AsyncBufRead + Send + 'static,
{
    stream::try_unfold(Box::pin(log), |mut log| async move {
        Ok(piece(log.as_mut()).await?.map(|piece| (piece, log)))
    })
    .boxed()
}

async fn piece<R: AsyncBufRead>(mut log: Pin<&mut R>) -> io::Result<Option<LogChunk>> {
    let mut bytes = Vec::new();
    loop {
        let chunk = log.fill_buf().await?;
        if chunk.is_empty() {
            let ends = true;
            return Ok((!bytes.is_empty()).then_some(LogChunk { bytes, ends }));
        }
        let room = chunk.len().min(MOST - bytes.len());
        let end = chunk[..room].iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(room);
        bytes.extend_from_slice(&chunk[..taken]);
        log.as_mut().consume(taken + usize::from(end.is_some()));
        if end.is_some() || bytes.len() == MOST {
            let ends = end.is_some();
            return Ok(Some(LogChunk { bytes, ends }));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::io::{BufReader, Cursor};
    use futures::stream::TryStreamExt as _;

    use super::*;

    fn read(log: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let reader = BufReader::with_capacity(7, Cursor::new(log.to_vec()));
        let read = pieces(reader).try_collect::<Vec<_>>().now_or_never().unwrap();
        let read = read.unwrap().into_iter();
        read.map(|piece| (piece.bytes, piece.ends)).collect()
    }

    #[test]
    fn lines_are_read_as_bytes() {
        let lines: Vec<(Vec<u8>, bool)> = [&b"caf\xe9"[..], b"", b"\xff\xfe", b"no newline"]
            .iter()
            .map(|line| (line.to_vec(), true))
            .collect();
        assert_eq!(read(b"caf\xe9\n\n\xff\xfe\nno newline"), lines);
        assert_eq!(read(b""), []);
    }

    #[test]
    fn long_lines_are_read_in_parts() {
        let mut log = vec![b'x'; 2 * MOST + 3];
        log.push(b'\n');
        let lengths: Vec<(usize, bool)> = read(&log).iter().map(|(bytes, ends)| (bytes.len(), *ends)).collect();
        assert_eq!(lengths, [(MOST, false), (MOST, false), (3, true)]);
    }
}
