//! Compares sessions in the documentation, the picture and the transcript of the README, with a real node.
//!
//! Ages, addresses, hashes of revisions and pod names differ between runs and count as equal.

/// A command and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The command.
    pub command: String,
    /// Its output, without empty lines.
    pub lines: Vec<String>,
}

/// Returns the commands of a session, each after `$ `.
#[must_use]
pub fn typed(session: &str) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    for line in session.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(command) = line.strip_prefix("$ ") {
            let command = command.trim().to_owned();
            all.push(Typed {
                command,
                lines: Vec::new(),
            });
        } else if let Some(last) = all.last_mut() {
            last.lines.push(line.to_owned());
        }
    }
    all
}

/// Returns the first session of a page: its first block marked as `console`.
#[must_use]
pub fn of_page(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("```console\n")?;
    rest.split_once("```").map(|(session, _)| session)
}

/// Returns the text of a picture of `make picture`, line by line.
#[must_use]
pub fn of_picture(svg: &str) -> String {
    let mut text = String::new();
    let mut at = None;
    for element in svg.lines().filter(|line| line.starts_with("<text ")) {
        let place = attribute(element, "y");
        if at.is_some() {
            text.push(if place == at { ' ' } else { '\n' });
        }
        at = place;
        let inner = element
            .split_once('>')
            .and_then(|(_, rest)| rest.rsplit_once("</text>"));
        let inner = inner.map_or("", |(inner, _)| inner);
        let plain = inner.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        // The prompt and the command are two elements.
        text.push_str(plain.trim_end());
    }
    text
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = element.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// Returns the first documented line that is not among the printed lines, in their order. Other lines, such as warnings,
/// may be between them.
#[must_use]
pub fn missing<'a>(shown: &'a [String], written: &[String]) -> Option<&'a str> {
    let mut written = written.iter().map(|line| comparable(line));
    let mut lines = shown.iter();
    lines
        .find(|line| !written.any(|other| other == comparable(line)))
        .map(String::as_str)
}

/// Returns a line without the parts that differ between runs.
#[must_use]
pub fn comparable(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let word = word.trim_start_matches(['├', '└', '─', '│']);
        if is_age(word) {
            "AGE".to_owned()
        } else if is_address(word) {
            "ADDRESS".to_owned()
        } else {
            let parts: Vec<&str> = word.split('-').collect();
            let drawn = parts.iter().skip(1).filter(|part| is_drawn(part)).count();
            if drawn > 0 && parts.len() > drawn && word.contains('/') {
                format!("{}-DRAWN", parts[..parts.len() - drawn].join("-"))
            } else {
                word.to_owned()
            }
        }
    });
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether a word is an age, such as `18s` or `2m3s`.
fn is_age(word: &str) -> bool {
    let unit = |letter: char| matches!(letter, 's' | 'm' | 'h' | 'd');
    word.starts_with(|letter: char| letter.is_ascii_digit())
        && word.ends_with(unit)
        && word.chars().all(|letter| letter.is_ascii_digit() || unit(letter))
}

/// Whether a word is an address of the cluster, with or without a port.
fn is_address(word: &str) -> bool {
    let (address, port) = word.split_once(':').unwrap_or((word, "0"));
    let port_is_one = port.chars().all(|letter| letter.is_ascii_digit());
    port_is_one
        && address
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|address| !address.is_loopback())
}

/// Returns whether Kubernetes generated a part of a name: the hash of a `ReplicaSet`, the suffix of a pod.
fn is_drawn(part: &str) -> bool {
    // Kubernetes' alphabet for generated names has no vowels, and no 0, 1 or 3.
    matches!(part.len(), 5..=10)
        && part
            .chars()
            .all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn session_is_parsed_into_commands_and_output() {
        let page = "# Title\n\n```sh\n$ not this\n```\n```console\n$ list\none\n\n  two\n\n$ quiet\n```\nrest\n";
        let expected = [("list", &["one", "  two"][..]), ("quiet", &[])];
        let expected = expected.map(|(command, lines)| Typed {
            command: command.to_owned(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        });
        assert_eq!(typed(of_page(page).unwrap()), expected);
    }

    #[test]
    fn picture_is_read_line_by_line() {
        let svg = "<svg>\n<rect/>\n<text x=\"16.0\" y=\"30.2\" fill=\"a\">$ </text>\n\
                   <text x=\"32.8\" y=\"30.2\" fill=\"b\">get a &lt; b</text>\n<text x=\"16.0\" y=\"49.2\">NAME  AGE</text>\n</svg>\n";
        let all = typed(&of_picture(svg));
        assert_eq!(
            (all[0].command.as_str(), &all[0].lines[..]),
            ("get a < b", &["NAME  AGE".to_owned()][..])
        );
    }

    #[test]
    fn parts_that_differ_between_runs_are_equal() {
        for (one, other) in [
            ("shop   2/2   3s", "shop 2/2   2m10s"),
            (
                "Service/nginx 3/3 10.215.6.234:80 18s",
                "Service/nginx   3/3   10.96.0.7:80   1s",
            ),
            ("  ├─Pod/nginx-7c74db98c-9m9jc 1/1", "  └─Pod/nginx-5d4f7c9b8-xk2lp 1/1"),
        ] {
            assert_eq!(comparable(one), comparable(other));
        }
        for (one, other) in [
            ("shop   2/2   3s", "shop 1/2   3s"),
            ("Pod/nginx-7c74db98c-9m9jc Running", "Pod/nginx-7c74db98c-9m9jc Pending"),
            ("Service/nginx 10.1.1.1:80", "Service/nginx 10.1.1.1:81 x"),
            ("class traefik at 127.0.0.1", "class traefik at 10.0.0.1"),
        ] {
            assert_ne!(comparable(one), comparable(other));
        }
    }

    #[test]
    fn first_missing_line_is_returned() {
        let written = lines("Warning: no tag\nshop created\nshop is ready: http://shop/\n");
        assert_eq!(
            missing(&lines("shop created\nshop is ready: http://shop/"), &written),
            None
        );
        assert_eq!(
            missing(&lines("shop is ready: http://shop/\nshop created"), &written),
            Some("shop created")
        );
        assert_eq!(missing(&lines("shop deleted"), &written), Some("shop deleted"));
    }

    /// The picture, the transcript and the script of the picture are parsed here as on the real node.
    #[test]
    fn readme_and_its_picture_are_valid_sessions() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
        let picture = typed(&of_picture(&read("docs/session.svg")));
        assert!(
            picture.len() > 3 && picture.iter().all(|typed| !typed.lines.is_empty()),
            "{picture:?}"
        );
        let readme = read("README.md");
        let transcript = typed(of_page(&readme).unwrap());
        assert!(
            transcript.len() > 3 && transcript.iter().all(|typed| !typed.lines.is_empty()),
            "{transcript:?}"
        );
    }
}
