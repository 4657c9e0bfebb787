//! Text that is safe to print on a terminal: without control characters, escape sequences and invisible characters.

use std::borrow::Cow;

/// Replaces a character that is not printable.
pub const REPLACEMENT: char = '\u{fffd}';

/// Whether a character is invisible although it is not a control character: it has no width, changes the direction of the
/// text or separates lines. With such characters, different texts can look the same.
#[must_use]
pub const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a terminal only shows a character.
#[must_use]
pub fn is_printable(c: char) -> bool {
    !c.is_control() && !is_invisible(c)
}

/// Returns the text with a replacement character for each one that is not printable.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|c| if is_printable(c) { c } else { REPLACEMENT });
    Cow::Owned(shown.collect())
}

/// Returns the text without escape sequences (ECMA-48) and invisible characters. Tabs and other white space become
/// spaces.
#[must_use]
pub fn stripped(text: &str) -> String {
    without_sequences(text, |_| false)
}

/// As [`stripped`], but with escape sequences that select colors. Colors are reset at the end.
#[must_use]
pub fn with_colors(text: &str) -> String {
    const RESET: &str = "\u{1b}[0m";
    let mut out = without_sequences(text, is_color);
    if out.contains('\u{1b}') && !out.ends_with(RESET) {
        out.push_str(RESET);
    }
    out
}

/// Whether a sequence is SELECT GRAPHIC RENDITION.
fn is_color(sequence: &str) -> bool {
    let parameters = sequence.strip_prefix("\u{1b}[").and_then(|rest| rest.strip_suffix('m'));
    parameters.is_some_and(|text| text.chars().all(|c| c.is_ascii_digit() || c == ';' || c == ':'))
}

fn without_sequences(text: &str, is_kept: fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    loop {
        let begin = rest.as_str();
        let Some(next) = rest.next() else { return out };
        match next {
            '\u{1b}' => {
                skip_sequence(&mut rest);
                let sequence = &begin[..begin.len() - rest.as_str().len()];
                if is_kept(sequence) {
                    out.push_str(sequence);
                }
            }
            next if is_invisible(next) => {}
            next if next.is_whitespace() => out.push(' '),
            next if next.is_control() => {}
            next => out.push(next),
        }
    }
}

fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        // A control sequence, such as a color.
        Some('[') => drop(rest.find(|c| ('@'..='~').contains(c))),
        // A string that ends with BEL or ST, such as a title or a link.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let mut before = ' ';
            for c in rest.by_ref() {
                if c == '\u{7}' || (before, c) == ('\u{1b}', '\\') {
                    break;
                }
                before = c;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_is_not_changed() {
        for text in ["", "nginx:1.27", "größer 😀", "日本"] {
            assert_eq!((&*printable(text), &*stripped(text)), (text, text));
        }
    }

    #[test]
    fn colors_are_kept_and_reset_at_the_end() {
        for (text, shown) in [
            ("plain", "plain"),
            ("\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[1;31mred\u{1b}[0m"),
            ("\u{1b}[38:5:1mred", "\u{1b}[38:5:1mred\u{1b}[0m"),
            ("\u{1b}[2J\u{1b}[1;1H\u{1b}[?25lx", "x"),
            ("\u{1b}[\u{202e}mx", "x"),
            ("\u{1b}[>4;2mx\u{1b}[", "x"),
        ] {
            assert_eq!(with_colors(text), shown);
        }
    }

    #[test]
    fn hidden_characters_are_replaced_or_removed() {
        for (text, replaced, removed) in [
            ("a\u{1b}[31mb", "a\u{fffd}[31mb", "ab"),
            ("a\u{1b}]0;title\u{7}b", "a\u{fffd}]0;title\u{fffd}b", "ab"),
            ("a\u{1b}Pq\u{1b}\\b", "a\u{fffd}Pq\u{fffd}\\b", "ab"),
            ("a\u{202e}b\u{200d}c\u{2028}d", "a\u{fffd}b\u{fffd}c\u{fffd}d", "abcd"),
            ("a\tb\u{9b}c", "a\u{fffd}b\u{fffd}c", "a bc"),
            ("a\u{e0041}b", "a\u{fffd}b", "ab"),
        ] {
            assert_eq!((&*printable(text), &*stripped(text)), (replaced, removed));
        }
    }
}
