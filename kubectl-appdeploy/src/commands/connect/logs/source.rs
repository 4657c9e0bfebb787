//! The log of one container. It is reopened if the connection ends before the container does.

use std::io;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::LogParams;

use super::read::LogChunk;

/// How long to wait before a log is opened again, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Why a log can't be read.
#[derive(Debug)]
pub enum Failure {
    /// It will not become readable: the right is missing, or the log does not exist.
    Final(kube::Error),
    /// The connection failed.
    Passing,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if matches!(status.code, 400..=428) => Self::Final(error),
            _ => Self::Passing,
        }
    }
}

/// The source of a log.
pub trait Source: Send + 'static {
    /// Opens the log.
    fn open(&mut self, params: LogParams) -> BoxFuture<'_, Result<BoxStream<'static, io::Result<LogChunk>>, Failure>>;

    /// Whether the container still writes this log.
    fn is_writing(&mut self) -> BoxFuture<'_, bool>;
}

/// Returns the pieces of a log until its container has ended, or until it can't be read. Lines begin with a timestamp only if the
/// parameters ask for it.
pub fn follow(source: impl Source, params: LogParams) -> BoxStream<'static, Result<LogChunk, kube::Error>> {
    let log = Log {
        source,
        shows_times: params.timestamps,
        params: LogParams {
            follow: true,
            timestamps: true,
            ..params
        },
        lines: None,
        is_inside_line: false,
        is_known_line: false,
        last: None,
        known: None,
        pause: PAUSE.0,
    };
    stream::unfold(Some(log), |log| async {
        match log?.next().await {
            (Some(Ok(piece)), log) => Some((Ok(piece), Some(log))),
            (Some(Err(error)), _) => Some((Err(error), None)),
            (None, _) => None,
        }
    })
    .boxed()
}

struct Log<S> {
    source: S,
    params: LogParams,
    shows_times: bool,
    lines: Option<BoxStream<'static, io::Result<LogChunk>>>,
    /// Whether the next chunk continues a line.
    is_inside_line: bool,
    /// Whether that line was returned before the connection ended.
    is_known_line: bool,
    /// The time of the newest line.
    last: Option<Timestamp>,
    /// The timestamp of the newest line before the last connection ended. Older lines were already returned.
    known: Option<Timestamp>,
    pause: Duration,
}

impl<S: Source> Log<S> {
    async fn next(mut self) -> (Option<Result<LogChunk, kube::Error>>, Self) {
        loop {
            let Some(lines) = &mut self.lines else {
                match self.source.open(self.params.clone()).await {
                    Ok(lines) => self.lines = Some(lines),
                    Err(Failure::Final(error)) => return (Some(Err(error)), self),
                    Err(Failure::Passing) if self.source.is_writing().await => self.back_off().await,
                    Err(Failure::Passing) => return (None, self),
                }
                continue;
            };
            if let Some(Ok(piece)) = lines.next().await {
                self.pause = PAUSE.0;
                if let Some(piece) = self.take(piece) {
                    return (Some(Ok(piece)), self);
                }
                continue;
            }
            // The container has ended, or only the connection.
            self.lines = None;
            if !self.source.is_writing().await {
                return (None, self);
            }
            self.is_inside_line = false;
            self.params.tail_lines = None;
            if let Some(last) = self.last {
                // The API server rounds the time to seconds, so lines that were already returned are skipped by their timestamps.
                self.params.since_seconds = None;
                self.params.since_time = Some(last);
                self.known = Some(last);
            }
            self.back_off().await;
        }
    }

    async fn back_off(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE.1);
    }

    /// Returns a piece for printing; `None` if it was already returned.
    fn take(&mut self, mut piece: LogChunk) -> Option<LogChunk> {
        let is_start = !self.is_inside_line;
        self.is_inside_line = !piece.ends;
        if is_start {
            self.is_known_line = false;
            if let Some((time, length)) = time_of(&piece.bytes) {
                self.is_known_line = self.known.is_some_and(|known| time <= known);
                self.last = self.last.max(Some(time));
                if !self.shows_times {
                    piece.bytes.drain(..length);
                }
            }
        }
        (!self.is_known_line).then_some(piece)
    }
}

/// Returns the time before a line, and how long it is with the space behind it.
pub(super) fn time_of(line: &[u8]) -> Option<(Timestamp, usize)> {
    let end = line.iter().take(64).position(|byte| *byte == b' ')?;
    let time = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    Some((time, end + 1))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What each opening of the log returns, and whether the container writes more after that.
    type Script = VecDeque<(Result<Vec<&'static str>, Failure>, bool)>;

    struct Scripted {
        script: Script,
        is_writing: bool,
        asked: Arc<Mutex<Vec<LogParams>>>,
    }

    impl Source for Scripted {
        fn open(
            &mut self,
            params: LogParams,
        ) -> BoxFuture<'_, Result<BoxStream<'static, io::Result<LogChunk>>, Failure>> {
            self.asked.lock().unwrap().push(params);
            let (lines, is_writing) = self.script.pop_front().unwrap();
            self.is_writing = is_writing;
            let lines = lines.map(|lines| {
                let pieces = lines.into_iter().map(|line| {
                    let bytes = line.as_bytes().to_vec();
                    Ok(LogChunk { bytes, ends: true })
                });
                stream::iter(pieces.collect::<Vec<_>>()).boxed()
            });
            Box::pin(std::future::ready(lines))
        }

        fn is_writing(&mut self) -> BoxFuture<'_, bool> {
            Box::pin(std::future::ready(self.is_writing))
        }
    }

    fn forbidden() -> Failure {
        let status = serde_json::json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
        kube::Error::Api(serde_json::from_value(status).unwrap()).into()
    }

    /// Returns the output and the requests.
    async fn followed(params: LogParams, script: Script) -> (Vec<Result<String, ()>>, Vec<LogParams>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let source = Scripted {
            script,
            is_writing: true,
            asked: asked.clone(),
        };
        let printed = follow(source, params).map(|piece| {
            let piece = piece.map_err(drop)?;
            Ok(String::from_utf8(piece.bytes).unwrap())
        });
        let printed = printed.collect().await;
        let asked = asked.lock().unwrap().clone();
        (printed, asked)
    }

    fn lines(lines: &[&str]) -> Vec<Result<String, ()>> {
        lines.iter().map(|line| Ok((*line).to_owned())).collect()
    }

    const A: &str = "2026-01-01T00:00:01.1Z a";
    const B: &str = "2026-01-01T00:00:01.2Z b";
    const C: &str = "2026-01-01T00:00:02Z c";

    #[tokio::test(start_paused = true)]
    async fn log_is_read_on_where_its_connection_ended() {
        let script = [
            (Ok(vec![A, B]), true),
            (Err(Failure::Passing), true),
            (Ok(vec![A, B, C]), false),
        ];
        let params = LogParams {
            tail_lines: Some(10),
            ..LogParams::default()
        };
        let (printed, asked) = followed(params, script.into()).await;
        assert_eq!(printed, lines(&["a", "b", "c"]));
        assert_eq!(asked.len(), 3);
        assert_eq!((asked[0].tail_lines, asked[2].tail_lines), (Some(10), None));
        assert_eq!(asked[2].since_time, Some("2026-01-01T00:00:01.2Z".parse().unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn log_of_a_container_that_ended_is_read_once() {
        let (printed, asked) = followed(LogParams::default(), [(Ok(vec![A]), false)].into()).await;
        assert_eq!((printed, asked.len()), (lines(&["a"]), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_log_is_an_error() {
        let (printed, _) = followed(LogParams::default(), [(Err(forbidden()), true)].into()).await;
        assert_eq!(printed, [Err(())]);
    }

    #[tokio::test(start_paused = true)]
    async fn times_are_shown_where_they_were_asked_for() {
        let params = LogParams {
            timestamps: true,
            ..LogParams::default()
        };
        let (printed, _) = followed(params, [(Ok(vec![A, "no time"]), false)].into()).await;
        assert_eq!(printed, lines(&[A, "no time"]));
    }
}
