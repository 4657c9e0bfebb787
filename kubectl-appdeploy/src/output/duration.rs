//! Durations as kubectl's flags take them: `30s`, `1m30s`, `2h`, or a number of seconds.

use std::fmt::Write as _;
use std::time::Duration;

/// A week: what kubectl makes of a negative timeout.
const LONG: Duration = Duration::from_secs(7 * 24 * 3600);

/// Reads a duration. A negative one means a week, as in kubectl.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "write it like 30s, 1m30s or 2h".to_owned();
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('-') {
        return parse(rest).map(|_| LONG);
    }
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut total = 0.0_f64;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        total += number.parse::<f64>().map_err(|_| wrong())? * scale;
        rest = tail;
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(total).map_err(|_| wrong())
}

/// Writes a duration as a person would say it: `90s` is `1m30s`.
pub fn text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let parts =
        [(h, "h"), (m, "m"), (s, "s")]
            .iter()
            .filter(|(n, _)| *n > 0)
            .fold(String::new(), |mut text, (n, unit)| {
                let _ = write!(text, "{n}{unit}");
                text
            });
    if !parts.is_empty() {
        parts
    } else if duration.is_zero() {
        "0s".to_owned()
    } else {
        format!("{}ms", duration.as_millis())
    }
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
    fn durations_are_written_as_a_person_says_them() {
        assert_eq!(super::text(Duration::from_secs(90)), "1m30s");
        assert_eq!(super::text(Duration::from_secs(120)), "2m");
        assert_eq!(super::text(Duration::from_millis(200)), "200ms");
    }
}
