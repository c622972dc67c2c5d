//! Names on the way out: providers take `[A-Za-z0-9_-]{1,64}` only, a refName also has `/`, `.` and up to 128
//! characters.
//!
//! A name takes the first of three forms that can hold it:
//!
//! | form | for | example |
//! |---|---|---|
//! | readable: `/` is `__`, `.` is `_-` | names that begin with a letter and have no `__` or `_-` of their own | `hubspot/search-deals` → `hubspot__search-deals` |
//! | marked: `_`, then `/` is `-s`, `.` is `-d`, `-` is `--` | the rest | `a__b` → `_a__b`, `9/x.y` → `_9-sx-dy` |
//! | hashed: `_`, a beginning, `-x`, 20 digits of SHA-256 | what would be longer than 64 characters | `_very_long…-x0f3a…` |
//!
//! No refName begins with `_`, and `-x` means nothing in a marked name, so the forms cannot meet. A name without
//! special characters is its own readable form.

use std::collections::HashMap;

use serde_json::Value;
use toolwright_types::{RefName, json::hex_digest};

const LONGEST: usize = 64;
const HASH_DIGITS: usize = 20;
const HASHED_BEGINNING: usize = LONGEST - HASH_DIGITS - "_-x".len();

/// The name under which providers and MCP clients know `name`. Two names never share one, but for two long names with
/// the same hash, which a [`NameTable`] would notice.
pub fn mangle(name: &RefName) -> String {
    let wire = readable(name.as_str()).unwrap_or_else(|| marked(name.as_str()));
    if wire.len() <= LONGEST { wire } else { hashed(name.as_str()) }
}

/// The name that `wire` stands for; None for a hashed name and for what [`mangle`] does not produce.
pub fn unmangle(wire: &str) -> Option<RefName> {
    let name = match wire.strip_prefix('_') {
        Some(body) => unmark(body)?,
        None => unread(wire),
    };
    // INVARIANT: only images of `mangle` are accepted, so `mangle` is injective wherever this is its inverse.
    name.parse().ok().filter(|name| mangle(name) == wire)
}

/// `name` in snake case, `^[a-z][a-z0-9_]*$` and at most 64 characters. Not reversible: `a-b` and `a_b` are one.
pub fn snake_case(name: &RefName) -> String {
    let mut snake = words(name.as_str()).join("_");
    if !snake.starts_with(|first: char| first.is_ascii_lowercase()) {
        snake.insert_str(0, "tool_");
    }
    if snake.len() > LONGEST {
        let digits = 12;
        let beginning: String = snake.chars().take(LONGEST - digits - 1).collect();
        snake = format!("{}_{}", beginning.trim_end_matches('_'), hash(name.as_str(), digits));
    }
    snake
}

/// The names of one context, such as a request to a model, in both directions. Here hashed names can be read back.
#[derive(Debug, Clone, Default)]
pub struct NameTable {
    wires: HashMap<RefName, String>,
    names: HashMap<String, RefName>,
}

/// Two names that would be known under one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{first}` and `{second}` would both be called `{wire}`; rename one of them")]
pub struct Collision {
    /// The name that came first.
    pub first: RefName,
    /// The name that came later.
    pub second: RefName,
    /// What both would be called.
    pub wire: String,
}

impl NameTable {
    /// A table of `names`; the same name may come twice.
    pub fn new(names: impl IntoIterator<Item = RefName>) -> Result<Self, Collision> {
        let mut table = Self::default();
        for name in names {
            let wire = mangle(&name);
            match table.names.get(&wire) {
                Some(first) if *first != name => {
                    return Err(Collision { first: first.clone(), second: name, wire });
                }
                _ => {}
            }
            table.names.insert(wire.clone(), name.clone());
            table.wires.insert(name, wire);
        }
        Ok(table)
    }

    /// What `name` is called on the wire; None when it is not in the table.
    pub fn to_wire(&self, name: &RefName) -> Option<&str> {
        self.wires.get(name).map(String::as_str)
    }

    /// The name that is called `wire`; None when it is none of the table's.
    pub fn from_wire(&self, wire: &str) -> Option<&RefName> {
        self.names.get(wire)
    }
}

/// The words of `name` in lower case: parts between separators and humps, letters and digits only.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    let mut rest = name.chars().peekable();
    while let Some(letter) = rest.next() {
        let hump = letter.is_uppercase()
            && (previous.is_lowercase()
                || previous.is_numeric()
                || previous.is_uppercase() && rest.peek().is_some_and(|next| next.is_lowercase()));
        if hump || !letter.is_alphanumeric() {
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

/// Reads a readable form. `__` is a slash only before a letter or digit, because a part of a refName begins with one;
/// elsewhere its first half is an underscore of the name.
fn unread(wire: &str) -> String {
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

fn marked(name: &str) -> String {
    format!("_{}", name.replace('-', "--").replace('/', "-s").replace('.', "-d"))
}

fn unmark(body: &str) -> Option<String> {
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
    let beginning: String = plain.take(HASHED_BEGINNING).collect();
    format!("_{beginning}-x{}", hash(name, HASH_DIGITS))
}

fn hash(name: &str, digits: usize) -> String {
    hex_digest(&Value::from(name)).chars().take(digits).collect()
}
