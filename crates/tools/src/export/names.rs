//! Tool names for providers. Providers accept `[A-Za-z0-9_-]{1,64}` only, while a refName also has `/`, `.` and up to
//! 128 characters.
//!
//! A name is encoded in the first of these three forms that can represent it:
//!
//! | form | for | example |
//! |---|---|---|
//! | readable: `/` is `__`, `.` is `_-` | names that start with a letter and contain neither `__` nor `_-` | `hubspot/search-deals` → `hubspot__search-deals` |
//! | escaped: `_`, then `/` is `-s`, `.` is `-d`, `-` is `--` | all other names | `a__b` → `_a__b`, `9/x.y` → `_9-sx-dy` |
//! | hashed: `_`, a prefix, `-x`, 20 digits of SHA-256 | names that would exceed 64 characters | `_very_long…-x0f3a…` |
//!
//! Two different forms never produce the same text, because no refName starts with `_`, and `-x` is not an escape. The
//! readable form of a name without special characters is the name itself.

use serde_json::Value;
use toolwright_types::{RefName, json::hex_digest};

const MAX_LEN: usize = 64;
const HASH_DIGITS: usize = 20;
const HASHED_PREFIX_LEN: usize = MAX_LEN - HASH_DIGITS - "_-x".len();

/// Returns the name of a tool for providers and MCP clients. Different tools get different names, unless two long names
/// have the same hash.
pub fn mangle(name: &RefName) -> String {
    let wire = readable(name.as_str()).unwrap_or_else(|| escaped(name.as_str()));
    if wire.len() <= MAX_LEN { wire } else { hashed(name.as_str()) }
}

/// Returns the name that `wire` encodes, or `None` for a hashed name and for a text that [`mangle`] does not produce.
pub fn unmangle(wire: &str) -> Option<RefName> {
    let name = match wire.strip_prefix('_') {
        Some(body) => decode_escaped(body)?,
        None => decode_readable(wire),
    };
    // INVARIANT: accepts only texts that `mangle` produces. So two different texts never decode to the
    // same name.
    name.parse().ok().filter(|name| mangle(name) == wire)
}

/// Returns `name` in snake case: `^[a-z][a-z0-9_]*$`, at most 64 characters. Not reversible: `a-b` and `a_b` become
/// equal.
pub fn snake_case(name: &RefName) -> String {
    let mut snake = words(name.as_str()).join("_");
    if !snake.starts_with(|first: char| first.is_ascii_lowercase()) {
        snake.insert_str(0, "tool_");
    }
    if snake.len() > MAX_LEN {
        let digits = 12;
        let prefix: String = snake.chars().take(MAX_LEN - digits - 1).collect();
        snake = format!("{}_{}", prefix.trim_end_matches('_'), hash(name.as_str(), digits));
    }
    snake
}

/// Splits `name` into lower-case words at separators and camel-case boundaries. Keeps letters and digits only.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    let mut rest = name.chars().peekable();
    while let Some(letter) = rest.next() {
        let starts_word = letter.is_uppercase()
            && (previous.is_lowercase()
                || previous.is_numeric()
                || previous.is_uppercase() && rest.peek().is_some_and(|next| next.is_lowercase()));
        if starts_word || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
        previous = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn readable(name: &str) -> Option<String> {
    let plain = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let free = !name.contains("__") && !name.contains("_-");
    (plain && free).then(|| name.replace('/', "__").replace('.', "_-"))
}

/// Decodes a readable form. `__` encodes a slash only if a letter or digit follows, because every segment of a refName
/// starts with one. Otherwise the first `_` is an underscore in the name.
fn decode_readable(wire: &str) -> String {
    let mut name = String::with_capacity(wire.len());
    let mut rest = wire;
    while let Some(first) = rest.chars().next() {
        let slash = rest.strip_prefix("__").filter(|tail| tail.starts_with(|c: char| c.is_ascii_alphanumeric()));
        rest = if let Some(tail) = slash {
            name.push('/');
            tail
        } else if let Some(tail) = rest.strip_prefix("_-") {
            name.push('.');
            tail
        } else {
            name.push(first);
            rest.strip_prefix(first).unwrap_or_default()
        };
    }
    name
}

fn escaped(name: &str) -> String {
    format!("_{}", name.replace('-', "--").replace('/', "-s").replace('.', "-d"))
}

fn decode_escaped(body: &str) -> Option<String> {
    let mut name = String::with_capacity(body.len());
    let mut letters = body.chars();
    while let Some(letter) = letters.next() {
        name.push(match letter {
            '-' => match letters.next()? {
                's' => '/',
                'd' => '.',
                '-' => '-',
                _ => return None,
            },
            other => other,
        });
    }
    Some(name)
}

fn hashed(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let prefix: String = plain.take(HASHED_PREFIX_LEN).collect();
    format!("_{prefix}-x{}", hash(name, HASH_DIGITS))
}

fn hash(name: &str, digits: usize) -> String {
    hex_digest(&Value::from(name)).chars().take(digits).collect()
}
