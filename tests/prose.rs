//! Checks docs, messages, comments and names of functions for the phrases in `prose.txt`.

use std::collections::HashMap;
use std::fmt::Write as _;

use testcluster::checkout::root;

/// The file with the phrases, the checked paths and the exceptions.
const RULES: &str = "prose.txt";

/// A phrase that must not be used.
#[derive(Debug, Default, PartialEq)]
struct Phrase {
    words: Vec<String>,
    /// Longer phrases that contain this one and are allowed.
    allowed: Vec<Vec<String>>,
    instead: String,
}

/// The content of `prose.txt`.
#[derive(Debug, Default)]
struct Rules {
    phrases: Vec<Phrase>,
    checked: Vec<String>,
    skipped: Vec<String>,
    exceptions: Vec<(String, String)>,
}

/// A word of a text, in lower case and without punctuation.
#[derive(Clone, Debug, PartialEq)]
struct Word {
    line: usize,
    text: String,
}

/// A text that is written for people, in pieces that a phrase can't cross.
type Pieces = Vec<Vec<Word>>;

fn words(phrase: &str) -> Vec<String> {
    phrase.split_whitespace().map(str::to_lowercase).collect()
}

impl Rules {
    fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        let mut section = "";
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let invalid = || format!("{RULES}: invalid line in section {section}: {line}");
            match (section, line) {
                (_, "[phrases]" | "[paths]" | "[exceptions]") => section = line,
                ("[phrases]", _) => {
                    let (left, instead) = line.split_once(" => ").ok_or_else(invalid)?;
                    let (phrases, allowed) = left.split_once(" ~ ").unwrap_or((left, ""));
                    let list = |text: &str| text.split(',').map(words).filter(|words| !words.is_empty()).collect();
                    let allowed: Vec<Vec<String>> = list(allowed);
                    let phrases: Vec<Vec<String>> = list(phrases);
                    rules.phrases.extend(phrases.into_iter().map(|words| Phrase {
                        words,
                        allowed: allowed.clone(),
                        instead: instead.to_owned(),
                    }));
                }
                ("[paths]", _) => match line.strip_prefix('!') {
                    Some(skipped) => rules.skipped.push(skipped.to_owned()),
                    None => rules.checked.push(line.to_owned()),
                },
                ("[exceptions]", _) => {
                    let (path, phrase) = line.split_once(": ").ok_or_else(invalid)?;
                    rules.exceptions.push((path.to_owned(), phrase.to_lowercase()));
                }
                _ => return Err(invalid()),
            }
        }
        Ok(rules)
    }

    /// Returns the files to check, as paths relative to the repository.
    fn files(&self) -> Result<Vec<String>, String> {
        let mut files = Vec::new();
        for path in &self.checked {
            self.collect(path, &mut files)?;
        }
        files.sort();
        Ok(files)
    }

    fn collect(&self, path: &str, files: &mut Vec<String>) -> Result<(), String> {
        if self.skipped.iter().any(|skipped| skipped == path) {
            return Ok(());
        }
        let full = root().join(path);
        let failed = |why: std::io::Error| format!("{RULES}: can't read {path}: {why}");
        if !full.is_dir() {
            full.metadata().map_err(failed)?;
            files.push(path.to_owned());
            return Ok(());
        }
        for entry in std::fs::read_dir(full).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            self.collect(&format!("{path}/{name}"), files)?;
        }
        Ok(())
    }
}

/// Returns the pieces of a file, or `None` if its format has no text that is checked.
fn pieces(path: &str, text: &str) -> Option<Pieces> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.').map_or(name, |(_, extension)| extension) {
        "md" => Some(markdown(text)),
        "rs" => Some(rust(text)),
        "yaml" | "toml" | "tpl" | "Makefile" | "Dockerfile" | "go" | "c" | "tape" => Some(split(text, 1)),
        "txt" if name != RULES => Some(split(text, 1)),
        _ => None,
    }
}

/// Splits a text into words. A sentence ends a piece; inline code is one word that matches nothing.
fn split(text: &str, first: usize) -> Pieces {
    let mut pieces = vec![Vec::new()];
    let mut code = false;
    for (offset, line) in text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches(['#', '>', '-', '*']);
        let mut plain = String::new();
        for part in line.chars() {
            match part {
                '`' => {
                    code = !code;
                    plain.push_str(if code { " \u{b7}" } else { "" });
                }
                _ if code => {}
                _ => plain.push(part),
            }
        }
        if line.trim().is_empty() {
            code = false;
            pieces.push(Vec::new());
        }
        for word in plain.split_whitespace() {
            let text = word
                .trim_matches(|c: char| !c.is_alphanumeric() && c != '\u{b7}')
                .to_lowercase();
            if let Some(piece) = pieces.last_mut()
                && !text.is_empty()
            {
                piece.push(Word {
                    line: first + offset,
                    text,
                });
            }
            if word.ends_with(['.', ',', ':', ';', '!', '?', '|', ')', '(']) {
                pieces.push(Vec::new());
            }
        }
    }
    pieces
}

/// Returns the prose of a Markdown page: without code blocks and without the targets of links.
fn markdown(text: &str) -> Pieces {
    let mut plain = String::new();
    let mut code = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        if !code && !fence {
            let mut rest = line;
            while let Some((before, target)) = rest.split_once("](") {
                plain.push_str(before);
                rest = target.split_once(')').map_or("", |(_, after)| after);
            }
            plain.push_str(rest);
        }
        plain.push('\n');
        code ^= fence;
    }
    split(&plain, 1)
}

/// Returns the comments, string literals and names of functions of a Rust file.
fn rust(text: &str) -> Pieces {
    let mut pieces = Vec::new();
    let mut comment = (0, String::new());
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let (kind, length) = token(rest);
        let token = &rest[..length];
        match kind {
            Token::Comment => {
                if comment.1.is_empty() {
                    comment.0 = line;
                }
                comment.1.push_str(token.trim_start_matches(['/', '!']));
            }
            Token::Space if token.matches('\n').count() < 2 => {
                comment.1.push_str(if token.contains('\n') { "\n" } else { "" });
            }
            _ => {
                pieces.extend(split(&comment.1, comment.0));
                comment.1.clear();
            }
        }
        match kind {
            Token::Text => pieces.extend(split(&literal(token), line)),
            Token::Name if token.contains('_') => pieces.extend(split(&token.replace('_', " "), line)),
            _ => {}
        }
        line += token.matches('\n').count();
        rest = &rest[length..];
    }
    pieces.extend(split(&comment.1, comment.0));
    pieces
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    Comment,
    Text,
    /// A name after `fn`, with the keyword.
    Name,
    Space,
    Other,
}

/// Returns the kind and the length of the first token of `code`.
fn token(code: &str) -> (Token, usize) {
    let first = code.chars().next().unwrap_or_default();
    let until = |end: &str, from: usize| code[from..].find(end).map_or(code.len(), |at| from + at + end.len());
    if code.starts_with("//") {
        return (Token::Comment, code.find('\n').unwrap_or(code.len()));
    }
    if code.starts_with("/*") {
        return (Token::Comment, until("*/", 2));
    }
    if first.is_whitespace() {
        return (
            Token::Space,
            code.find(|c: char| !c.is_whitespace()).unwrap_or(code.len()),
        );
    }
    if first == '"' {
        return (Token::Text, quoted(code));
    }
    if first == '\'' {
        return (Token::Other, character(code));
    }
    if first.is_alphabetic() || first == '_' {
        let end = |text: &str| {
            text.find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(text.len())
        };
        let length = end(code);
        let after = &code[length..];
        if matches!(&code[..length], "r" | "br" | "cr") {
            let hashes = after.chars().take_while(|c| *c == '#').count();
            if after[hashes..].starts_with('"') {
                return (
                    Token::Text,
                    until(&format!("\"{}", "#".repeat(hashes)), length + hashes + 1),
                );
            }
        }
        if matches!(&code[..length], "b" | "c") && after.starts_with('"') {
            return (Token::Text, length + quoted(after));
        }
        if &code[..length] == "fn" && after.starts_with(' ') {
            return (Token::Name, length + 1 + end(&after[1..]));
        }
        return (Token::Other, length);
    }
    (Token::Other, first.len_utf8())
}

/// Returns the length of the string literal at the start of `code`, with its quotes.
fn quoted(code: &str) -> usize {
    let mut escaped = false;
    for (index, part) in code.char_indices().skip(1) {
        match part {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return index + 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns the length of the character literal or the start of the lifetime at the start of `code`.
fn character(code: &str) -> usize {
    let mut parts = code.char_indices().skip(1);
    let (_, first) = parts.next().unwrap_or_default();
    if first == '\\' {
        return code[3.min(code.len())..].find('\'').map_or(code.len(), |at| 3 + at + 1);
    }
    match parts.next() {
        Some((at, '\'')) => at + 1,
        _ => 1,
    }
}

/// Returns the text of a string literal: without line continuations, escapes and placeholders.
fn literal(token: &str) -> String {
    let (_, text) = token.split_once('"').unwrap_or_default();
    let text = text.replace("\\n", " . ").replace("\\\"", "\"").replace("\\\n", "\n");
    let mut plain = String::new();
    let mut depth = 0_usize;
    for part in text.chars() {
        match part {
            '{' => {
                plain.push('\u{b7}');
                depth += 1;
            }
            '}' => depth = depth.saturating_sub(1),
            '\n' => {
                depth = 0;
                plain.push(part);
            }
            _ if depth > 0 => {}
            _ => plain.push(part),
        }
    }
    plain
}

/// Returns the line and the phrase of each finding.
fn findings<'rules>(phrases: &'rules [Phrase], pieces: &Pieces) -> Vec<(usize, &'rules Phrase)> {
    let mut by_first: HashMap<&str, Vec<&Phrase>> = HashMap::new();
    for phrase in phrases {
        by_first.entry(phrase.words[0].as_str()).or_default().push(phrase);
    }
    let is_at = |piece: &[Word], at: usize, words: &[String]| {
        piece.len() >= at + words.len() && piece[at..].iter().zip(words).all(|(one, other)| one.text == *other)
    };
    let mut found = Vec::new();
    for piece in pieces {
        for (at, word) in piece.iter().enumerate() {
            let candidates = by_first.get(word.text.as_str()).into_iter().flatten().copied();
            for phrase in candidates.filter(|phrase| is_at(piece, at, &phrase.words)) {
                let is_allowed = phrase.allowed.iter().any(|allowed| {
                    let earliest = at.saturating_sub(allowed.len().saturating_sub(1));
                    (earliest..=at)
                        .any(|start| start + allowed.len() >= at + phrase.words.len() && is_at(piece, start, allowed))
                });
                if !is_allowed {
                    found.push((word.line, phrase));
                }
            }
        }
    }
    found
}

#[test]
fn text_is_written_in_plain_english() -> Result<(), String> {
    let read = |path: &str| std::fs::read(root().join(path)).map_err(|why| format!("can't read {path}: {why}"));
    let rules = Rules::parse(&String::from_utf8_lossy(&read(RULES)?))?;
    let files = rules.files()?;
    let mut used = vec![false; rules.exceptions.len()];
    let mut report = String::new();
    let mut checked = 0;
    for path in &files {
        let text = read(path)?;
        let Some(pieces) = pieces(path, &String::from_utf8_lossy(&text)) else {
            continue;
        };
        checked += 1;
        for (line, phrase) in findings(&rules.phrases, &pieces) {
            let words = phrase.words.join(" ");
            let exception = rules
                .exceptions
                .iter()
                .position(|(file, except)| file == path && *except == words);
            match exception {
                Some(index) => used[index] = true,
                None => {
                    let _ = writeln!(report, "{path}:{line}: \"{words}\": write {}", phrase.instead);
                }
            }
        }
    }
    for (_, (path, phrase)) in used.iter().zip(&rules.exceptions).filter(|(used, _)| !**used) {
        let _ = writeln!(
            report,
            "{RULES}: remove the exception \"{path}: {phrase}\", which matches nothing"
        );
    }
    assert!(
        report.is_empty(),
        "\n{report}{RULES} has the phrases and the exceptions"
    );
    assert!(
        rules.phrases.len() > 50 && checked > 30,
        "{} phrases, {checked} files",
        rules.phrases.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "[phrases]\nis told, at once => is reported\nis no ~ there is no, is no longer => is not a\n";

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let rules = Rules::parse(RULES).unwrap();
        let pieces = pieces(path, text).unwrap();
        let found = findings(&rules.phrases, &pieces);
        found
            .into_iter()
            .map(|(line, phrase)| (line, phrase.words.join(" ")))
            .collect()
    }

    #[test]
    fn phrases_are_found_in_prose_across_lines_and_not_in_code() {
        let page =
            "A port is\ntold At once, is. Told.\n```sh\nis told\n```\n`is told` [is told](is told) is `x` told\n";
        assert_eq!(
            found("a.md", page),
            [
                (1, "is told".to_owned()),
                (2, "at once".to_owned()),
                (6, "is told".to_owned())
            ]
        );
    }

    #[test]
    fn comments_literals_and_names_of_functions_are_checked() {
        let code = "/// A port is\n/// told.\nfn who_is_told<'a>(x: &'a str) { let is = told; '\"'; }\nlet a = \"is {x} told, is told\";\n\
                    let b = r#\"is \"told\" at once\"#; // is\n// told\n";
        assert_eq!(
            found("a.rs", code),
            [
                (1, "is told".to_owned()),
                (3, "is told".to_owned()),
                (4, "is told".to_owned()),
                (5, "is told".to_owned()),
                (5, "at once".to_owned()),
                (5, "is told".to_owned()),
            ]
        );
    }

    #[test]
    fn allowed_phrases_are_not_found() {
        let page = "There is no pod. It is no longer used. That is no port.";
        assert_eq!(found("a.md", page), [(1, "is no".to_owned())]);
    }

    #[test]
    fn invalid_rules_are_reported() {
        assert!(Rules::parse("[phrases]\nis told\n").unwrap_err().contains("is told"));
        assert!(Rules::parse("is told => is reported").is_err());
        assert!(Rules::parse("[exceptions]\nREADME.md").is_err());
    }
}
