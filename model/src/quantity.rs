//! Amounts of CPU and memory, compared by value.

/// Returns an amount in thousandths, or the text itself if it is not an amount. `0.5` and `500m` are the same, as are `1Gi`
/// and `1024Mi`. Smaller fractions are rounded up, as the API server does with the resources of a container.
pub(crate) fn canonical(text: &str) -> String {
    milli(text).map_or_else(|| text.to_owned(), |n| n.to_string())
}

/// The smallest memory limit with which containers start, in bytes. With 2 MiB, runc is killed.
const SMALLEST_MEMORY: i128 = 4 << 20;

/// Whether an amount of memory is too small to start any container, for example because its unit is missing.
pub(crate) fn is_tiny_memory(text: &str) -> bool {
    // Zero means no limit.
    milli(text).is_some_and(|amount| 0 < amount && amount < SMALLEST_MEMORY * 1000)
}

/// Returns the amount that was probably meant by an amount that is too small.
pub(crate) fn meant_memory(text: &str) -> String {
    match text.parse::<u32>() {
        Ok(number @ 4..) => format!("{number}Mi"),
        _ => "64Mi".to_owned(),
    }
}

/// Returns an amount of memory with its unit, which is bytes by default.
pub(crate) fn with_unit(text: &str) -> String {
    let unit = if text.parse::<u64>().is_ok() { " bytes" } else { "" };
    format!("{text}{unit}")
}

/// Returns an amount in thousandths, rounded up. `None` if the text is not an amount.
pub(crate) fn milli(text: &str) -> Option<i128> {
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let power = |base: i128, exponent: u32| base.checked_pow(exponent);
    let (times, by) = match suffix {
        "n" => (1, power(10, 9)?),
        "u" => (1, power(10, 6)?),
        "m" => (1, power(10, 3)?),
        "" => (1, 1),
        "k" => (power(10, 3)?, 1),
        "M" => (power(10, 6)?, 1),
        "G" => (power(10, 9)?, 1),
        "T" => (power(10, 12)?, 1),
        "P" => (power(10, 15)?, 1),
        "E" => (power(10, 18)?, 1),
        "Ki" => (power(1024, 1)?, 1),
        "Mi" => (power(1024, 2)?, 1),
        "Gi" => (power(1024, 3)?, 1),
        "Ti" => (power(1024, 4)?, 1),
        "Pi" => (power(1024, 5)?, 1),
        "Ei" => (power(1024, 6)?, 1),
        exponent => {
            let exponent: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            match u32::try_from(exponent) {
                Ok(up) => (power(10, up)?, 1),
                Err(_) => (1, power(10, exponent.unsigned_abs())?),
            }
        }
    };
    let above = digits.checked_mul(times)?.checked_mul(1000)?;
    let below = power(10, fraction.len().try_into().ok()?)?.checked_mul(by)?;
    Some(above / below + i128::from(above % below != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_amounts_are_equal() {
        for (a, b) in [
            ("0.5", "500m"),
            ("1Gi", "1024Mi"),
            ("2", "2000m"),
            ("1e3", "1k"),
            ("1500m", "1.5"),
            ("1.5Gi", "1536Mi"),
            ("01", "1"),
            ("0.3333", "334m"),
            ("100u", "1m"),
            ("0.00000000001", "1m"),
        ] {
            assert_eq!(canonical(a), canonical(b), "{a} {b}");
        }
    }

    #[test]
    fn different_amounts_differ() {
        for (a, b) in [("1G", "1Gi"), ("1", "1m"), ("500m", "0.51")] {
            assert_ne!(canonical(a), canonical(b), "{a} {b}");
        }
    }

    #[test]
    fn memory_without_a_unit_is_tiny() {
        for text in ["64", "100Ki", "2Mi", "1.5M", "64m"] {
            assert!(is_tiny_memory(text), "{text}");
        }
        for text in ["0", "4Mi", "64Mi", "67108864", "1G", "lots"] {
            assert!(!is_tiny_memory(text), "{text}");
        }
        assert_eq!(["64", "2", "100Ki"].map(meant_memory), ["64Mi", "64Mi", "64Mi"]);
        assert_eq!(meant_memory("512"), "512Mi");
        assert_eq!(["64", "64Mi"].map(with_unit), ["64 bytes", "64Mi"]);
    }

    #[test]
    fn invalid_amounts_are_not_changed() {
        for text in ["", "lots", "1.2.3", "1Xi", "99999999999999999999999999999999999999999"] {
            assert_eq!(canonical(text), text);
        }
    }
}
