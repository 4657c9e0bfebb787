//! Durations as kubectl's flags take them: `30s`, `1m30s`, `2h`, or a number of seconds.

use std::time::Duration;

use jiff::SignedDuration;
use jiff::fmt::friendly::{Spacing, SpanPrinter};

/// A week: kubectl's meaning of a negative timeout.
const LONG: Duration = Duration::from_secs(7 * 24 * 3600);

/// Parses a duration. A negative one is a week, as in kubectl.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || "write it like 30s, 1m30s or 2h".to_owned();
    let text = text.trim();
    let duration = if let Ok(seconds) = text.parse() {
        SignedDuration::from_secs(seconds)
    } else if text.contains(char::is_whitespace) {
        return Err(invalid());
    } else {
        text.parse().map_err(|_| invalid())?
    };
    Ok(if duration.is_negative() {
        LONG
    } else {
        duration.unsigned_abs()
    })
}

/// Formats a duration, such as `1m30s`.
pub fn text(duration: Duration) -> String {
    const PRINTER: SpanPrinter = SpanPrinter::new().spacing(Spacing::None);
    let precise = if duration.as_secs() > 0 {
        Duration::from_secs(duration.as_secs())
    } else {
        duration
    };
    SignedDuration::try_from(precise).map_or_else(
        |_| format!("{}s", precise.as_secs()),
        |duration| PRINTER.duration_to_string(&duration),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_kubectl_reads_them() {
        for (text, seconds) in [
            ("30s", 30.0),
            ("1m30s", 90.0),
            ("2h", 7200.0),
            ("45", 45.0),
            ("0", 0.0),
            ("1.5s", 1.5),
            ("250ms", 0.25),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        assert_eq!(parse("-1s"), Ok(LONG));
        for text in ["", "soon", "5 m", "1d", "s", "1m30"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_printed_with_units() {
        assert_eq!(super::text(Duration::from_secs(90)), "1m30s");
        assert_eq!(super::text(Duration::from_secs(120)), "2m");
        assert_eq!(super::text(Duration::from_millis(200)), "200ms");
    }
}
