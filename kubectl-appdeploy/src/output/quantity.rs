//! Amounts of cpu and memory as numbers, and back as `kubectl top` writes them.

/// Returns an amount like `250m`, `1.5` or `64Mi` in thousandths of its unit; `None` if it is not an amount.
pub fn milli(text: &str) -> Option<i128> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [(&str, i32); 9] = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
    let scale = |value: i128, exponent: i32| {
        let exponent = exponent + 3 - i32::try_from(fraction.len()).unwrap_or(i32::MAX / 2);
        let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
        if exponent >= 0 {
            value.checked_mul(power)
        } else {
            // Kubernetes rounds up, so that the requested amount is available.
            Some((value + power - 1) / power)
        }
    };
    if unit.is_empty() {
        return scale(digits, 0);
    }
    if let Some(index) = BINARY.iter().position(|one| *one == unit) {
        return scale(
            digits.checked_mul(1024_i128.checked_pow(u32::try_from(index).ok()? + 1)?)?,
            0,
        );
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(one, _)| *one == unit) {
        return scale(digits, *exponent);
    }
    let exponent = unit.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    (-18..=18).contains(&exponent).then(|| scale(digits, exponent))?
}

/// Returns an amount of cpu: `250m`.
pub fn cpu(milli: i128) -> String {
    format!("{milli}m")
}

/// Returns an amount of memory: `64Mi`.
pub fn memory(milli: i128) -> String {
    format!("{}Mi", milli / 1000 / 1024 / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("250m", Some(250)),
            ("0.5", Some(500)),
            ("1.5", Some(1500)),
            ("1234567n", Some(2)),
            ("100u", Some(1)),
            ("2k", Some(2_000_000)),
            ("1Ki", Some(1_024_000)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("1e3", Some(1_000_000)),
            ("", None),
            ("x", None),
            ("1Zi", None),
            ("99999999999999999999999999999999999E", None),
        ] {
            assert_eq!(milli(text), expected, "{text}");
        }
        assert_eq!(cpu(250), "250m");
        assert_eq!(memory(64 * 1024 * 1024 * 1000), "64Mi");
    }
}
