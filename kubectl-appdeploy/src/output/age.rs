//! Ages as kubectl prints them: `5d3h`, `12m`, `45s`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Returns the time since `then`, or `<unknown>` without a time.
pub fn age(then: Option<&Time>, now: Timestamp) -> String {
    then.map_or_else(
        || "<unknown>".to_owned(),
        |then| span(now.as_second() - then.0.as_second()),
    )
}

/// Returns a number of seconds in at most two units: the same steps as kubectl's `HumanDuration`.
pub fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |a: i64, unit: char, b: i64, small: char| {
        if b == 0 {
            format!("{a}{unit}")
        } else {
            format!("{a}{unit}{b}{small}")
        }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, 'd', hours % 24, 'h'),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_kubectl_writes_them() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (172_799, "47h"),
            (172_800, "2d"),
            (183_600, "2d3h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (-5, "0s"),
        ];
        for (seconds, text) in table {
            assert_eq!(span(seconds), text, "{seconds}");
        }
    }
}
