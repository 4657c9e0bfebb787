//! Mutations of inputs.

use std::ops::Range;

/// Boundary values of most formats.
const EDGES: [&str; 34] = [
    "0",
    "-1",
    "1",
    "65535",
    "65536",
    "2147483648",
    "-9223372036854775809",
    "1e309",
    "1.5",
    "NaN",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "[[",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{1b}[2J",
    "\u{202e}",
    "\u{feff}",
    "ß",
    "İ",
    "🦀",
    "..",
    ":",
    "@",
    "/",
    "*",
    "&a",
    "*a",
    "---\n",
    "!!binary ",
];

/// The maximum length of a mutated input.
const LONGEST: usize = 64 * 1024;

/// Mutates inputs by random numbers from a seed.
pub(super) struct Mutator {
    draw: Draw,
    tokens: Vec<Vec<u8>>,
}

impl Mutator {
    /// Returns a mutator that uses the tokens of these inputs.
    pub(super) fn new(seed: u64, inputs: &[Vec<u8>]) -> Self {
        let edges = EDGES.iter().map(|edge| edge.as_bytes().to_vec());
        let mut tokens: Vec<Vec<u8>> = inputs
            .iter()
            .flat_map(|input| tokens(input).into_iter().map(|token| input[token].to_vec()))
            .chain(edges)
            .collect();
        tokens.sort();
        tokens.dedup();
        Self {
            draw: Draw(seed),
            tokens,
        }
    }

    /// Returns one of `inputs`, changed in a few places.
    pub(super) fn change(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut input = inputs[self.draw.below(inputs.len())].clone();
        for _ in 0..=self.draw.below(4) {
            self.step(&mut input, inputs);
        }
        input.truncate(LONGEST);
        input
    }

    fn step(&mut self, input: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        match self.draw.below(9) {
            0 => {
                let bit = 1 << self.draw.below(8);
                let place = self.draw.below(input.len().max(1));
                if let Some(byte) = input.get_mut(place) {
                    *byte ^= bit;
                }
            }
            1 => {
                let range = self.draw.range(input.len());
                input.drain(range);
            }
            2 => {
                let range = self.draw.range(input.len());
                let again = input[range.clone()].to_vec();
                let times = 1 + self.draw.below(8);
                input.splice(range.end..range.end, again.repeat(times));
            }
            3 => {
                // The head of one and the tail of another.
                let other = &inputs[self.draw.below(inputs.len())];
                input.truncate(self.draw.below(input.len() + 1));
                input.extend_from_slice(&other[self.draw.below(other.len() + 1)..]);
            }
            4 => {
                let place = self.draw.below(input.len() + 1);
                let token = self.token();
                input.splice(place..place, token);
            }
            5 => {
                // Swap two tokens.
                let all = tokens(input);
                let (Some(one), Some(other)) = (self.draw.of(&all), self.draw.of(&all)) else {
                    return;
                };
                let (first, second) = if one.start <= other.start {
                    (one, other)
                } else {
                    (other, one)
                };
                if first.end <= second.start {
                    let (head, tail) = (input[first.clone()].to_vec(), input[second.clone()].to_vec());
                    input.splice(second, head);
                    input.splice(first, tail);
                }
            }
            // The mutation whose result is most often valid.
            _ => {
                let all = tokens(input);
                if let Some(place) = self.draw.of(&all) {
                    let token = self.token();
                    input.splice(place, token);
                }
            }
        }
    }

    fn token(&mut self) -> Vec<u8> {
        let token = self.draw.below(self.tokens.len());
        self.tokens[token].clone()
    }
}

/// Returns the words, numbers and signs of an input.
fn tokens(input: &[u8]) -> Vec<Range<usize>> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80 || byte == b'_';
    let mut all: Vec<Range<usize>> = Vec::new();
    for (place, byte) in input.iter().enumerate() {
        match all.last_mut() {
            Some(last) if is_word(*byte) && last.end == place && is_word(input[place - 1]) => last.end += 1,
            _ => all.push(place..place + 1),
        }
    }
    all
}

/// A small random number generator (`SplitMix64`), so that a seed gives the same numbers everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// Returns a short range within `length`.
    fn range(&mut self, length: usize) -> Range<usize> {
        let start = self.below(length + 1);
        let most = (length - start).min(32);
        start..start + self.below(most + 1)
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.below(all.len())).cloned()
    }
}
