//! Numbers as text, for the page and its plot.

/// Returns a number with at most as many digits as are significant.
#[must_use]
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Returns a number of apps as text.
#[must_use]
pub fn apps(count: usize) -> String {
    format!("{} apps", grouped(count))
}

/// Returns a number with commas between thousands.
#[must_use]
pub fn grouped(count: usize) -> String {
    if count < 1000 {
        return count.to_string();
    }
    format!("{},{:03}", grouped(count / 1000), count % 1000)
}
