//! Parses as much of `PromQL` as is needed to find the metrics of a query.

/// Words in the position of a metric.
const WORDS: [&str; 8] = ["and", "or", "unless", "bool", "offset", "by", "without", "on"];

/// Returns the metrics of a query: the words that are not functions, operators or labels. `label_values` of Grafana has a
/// metric first, and then a label.
pub fn metrics(query: &str) -> Vec<&str> {
    let mut metrics = Vec::new();
    let mut rest = query;
    while let Some(start) =
        rest.find(|c: char| c.is_alphabetic() || matches!(c, '{' | '[' | '"' | '_') || c.is_numeric())
    {
        rest = &rest[start..];
        let end = match rest.as_bytes()[0] {
            b'{' => past(rest, '}'),
            b'[' => past(rest, ']'),
            b'"' => 1 + past(&rest[1..], '"'),
            _ => rest
                .find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':' | '.'))
                .unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        let follows = after.trim_start();
        if !word.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            continue;
        }
        if matches!(
            word,
            "by" | "without" | "on" | "ignoring" | "group_left" | "group_right"
        ) {
            // The words in the following parentheses are labels.
            rest = &follows[past(follows, ')')..];
        } else if word == "label_values" {
            let inside = &follows[1..past(follows, ')') - 1];
            let asked = inside.rsplit_once(',').map_or(inside, |(asked, _)| asked);
            metrics.extend(asked.split('{').next());
            rest = &follows[past(follows, ')')..];
        } else if !["(", "by ", "without "].iter().any(|call| follows.starts_with(call)) && !WORDS.contains(&word) {
            metrics.push(word);
        }
    }
    metrics
}

/// Returns the position after this character.
fn past(text: &str, end: char) -> usize {
    text.find(end).map_or(text.len(), |at| at + end.len_utf8())
}

#[test]
fn functions_labels_and_times_are_not_metrics() {
    for (query, expected) in [
        ("up", vec!["up"]),
        (
            "sum by (pod) (rate(a_total{job=~\"x|b_total\"}[5m])) > 0.05",
            vec!["a_total"],
        ),
        ("min_over_time(a[10m]) and on (namespace, pod) b == 1", vec!["a", "b"]),
        ("min(a{}) - time() < 7 * 86400", vec!["a"]),
        (
            "label_replace(a, \"class\", \"timeout\", \"\", \"\") or absent(b == 1)",
            vec!["a", "b"],
        ),
        (
            "histogram_quantile(0.99, sum by (le, name) (rate(a_bucket{}[$__rate_interval])))",
            vec!["a_bucket"],
        ),
        ("label_values(a{namespace=~\"$namespace\"}, job)", vec!["a"]),
        ("a offset 5m unless b", vec!["a", "b"]),
    ] {
        assert_eq!(metrics(query), expected, "{query}");
    }
}
