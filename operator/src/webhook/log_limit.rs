//! Limits what clients can write into the log: the length of a text, and the lines per second.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// Lines in a burst.
const BURST: f64 = 20.0;

/// Lines per second after that.
const RATE: f64 = 1.0;

/// The most bytes of a text in a log line.
const LENGTH: usize = 512;

/// A rate limit for log lines.
#[derive(Debug)]
pub struct LogLimit(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    suppressed: u64,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self(Mutex::new(Bucket {
            tokens: BURST,
            filled: Instant::now(),
            suppressed: 0,
        }))
    }
}

impl LogLimit {
    /// Takes a permit to write a line. Returns how many lines were suppressed since the last one; `None` if this one must be suppressed,
    /// too.
    pub fn take(&self) -> Option<u64> {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gained = now.duration_since(bucket.filled).as_secs_f64() * RATE;
        bucket.tokens = (bucket.tokens + gained).min(BURST);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            bucket.suppressed += 1;
            return None;
        }
        bucket.tokens -= 1.0;
        Some(std::mem::take(&mut bucket.suppressed))
    }
}

/// Returns the beginning of a text, at most 512 bytes.
#[must_use]
pub fn truncated(text: &str) -> &str {
    let mut end = text.len().min(LENGTH);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_beyond_the_rate_are_counted_and_not_written() {
        let limit = LogLimit::default();
        let written = (0..100).filter(|_| limit.take().is_some()).count();
        assert_eq!(written, 20);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(limit.take(), Some(80));
        assert_eq!(limit.take(), Some(0));
        assert_eq!(limit.take(), None);
    }

    #[test]
    fn text_is_cut_between_characters() {
        let text = format!("{}ä", "x".repeat(511));
        assert_eq!(truncated(&text).len(), 511);
        assert_eq!(truncated("ä"), "ä");
    }
}
