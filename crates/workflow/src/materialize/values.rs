//! Finds the earlier output, or the input of the run, that has a value.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use serde_json::Value;
use toolwright_expr::{Scope, ValueTemplate};

use super::paths::{self, Segment};
use super::texts;

/// The name of an item in an expression that reads a field of each item of a list.
pub(super) const ITEM: &str = "each";
/// The maximum number of values that are indexed.
const MAX_VALUES: usize = 500_000;
/// The minimum length of a text that may be recognized by its value alone, in characters.
const MIN_TEXT: usize = 4;
/// The minimum length of a text that may be recognized inside of another text, in bytes.
const WINDOW: usize = 8;
/// The maximum number of texts with the same beginning that are compared with a part of a text.
const MAX_SAME_BEGINNING: usize = 256;
/// The minimum number of scalars of a list or an object that may be recognized although none of them is specific.
const MIN_SCALARS: usize = 3;
/// Numbers below this one are not specific.
const MIN_NUMBER: f64 = 100.0;

/// A value that later calls can refer to: the input of the run, or the output of a call.
pub(super) struct Producer<'a> {
    /// The name in expressions: `input`, or the name of a step.
    pub root: &'a str,
    pub value: &'a Value,
    /// The batch of the call; `None` for the input of the run.
    pub batch: Option<u32>,
}

/// A reference to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The position of the producer.
    pub producer: usize,
    /// The first field of the path; `None` if the whole value of the producer is read.
    pub field: Option<String>,
    /// The expression, without `${` and `}`.
    pub expression: String,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Literal(&'t str),
    Link(Found),
}

/// All values of the producers, by value.
pub(super) struct ValueIndex<'a> {
    producers: Vec<Producer<'a>>,
    hasher: RandomState,
    by_hash: HashMap<u64, Vec<Known<'a>>>,
    /// The texts that may be recognized inside of other texts, by their first bytes.
    by_beginning: HashMap<[u8; WINDOW], Vec<Known<'a>>>,
    values: usize,
}

/// An indexed value.
#[derive(Clone)]
struct Known<'a> {
    producer: usize,
    value: &'a Value,
    path: Vec<Segment<'a>>,
    /// The field that is read from each item of `value`, if this is a list of the values of one field.
    each: Option<&'a str>,
}

/// What decides whether a value may be recognized.
#[derive(Clone, Copy)]
struct Measure {
    hash: u64,
    /// Whether the value is unlikely to be equal by chance.
    specific: bool,
    scalars: usize,
    redacted: bool,
}

impl<'a> ValueIndex<'a> {
    /// Indexes all values. Producers are in the order of the calls.
    pub(super) fn new(producers: Vec<Producer<'a>>) -> Self {
        let roots: Vec<(usize, &'a Value)> = producers.iter().map(|producer| producer.value).enumerate().collect();
        let mut index = Self {
            producers,
            hasher: RandomState::new(),
            by_hash: HashMap::new(),
            by_beginning: HashMap::new(),
            values: 0,
        };
        for (producer, value) in roots {
            index.add(producer, value, &mut Vec::new());
        }
        index
    }

    /// Whether all values are indexed. Otherwise there were too many of them.
    pub(super) fn is_complete(&self) -> bool {
        self.values <= MAX_VALUES
    }

    /// Finds the value at `path` of the input of a call of this batch. `batch` is `None` for the output of the run.
    ///
    /// A value that is equal by chance easily, such as `true`, a small number or a short text, is found only at the same
    /// path. The latest call is preferred, then the shortest path.
    pub(super) fn find(&self, value: &Value, path: &[Segment<'_>], batch: Option<u32>) -> Option<Found> {
        let measure = self.measure(value);
        if measure.redacted {
            return None;
        }
        if !is_recognizable(measure) {
            return self.find_at_same_path(value, path, batch);
        }
        let known = self.by_hash.get(&measure.hash).into_iter().flatten();
        let mut known: Vec<&Known<'_>> =
            known.filter(|known| self.is_earlier(known.producer, batch) && known.equals(value)).collect();
        known.sort_by_key(|known| (std::cmp::Reverse(known.producer), known.length()));
        known.into_iter().find_map(|known| self.found(known, value))
    }

    fn find_at_same_path(&self, value: &Value, path: &[Segment<'_>], batch: Option<u32>) -> Option<Found> {
        if path.is_empty() {
            return None;
        }
        let producers = self.producers.iter().enumerate().rev();
        let mut same = producers
            .filter(|(at, producer)| self.is_earlier(*at, batch) && paths::lookup(producer.value, path) == Some(value));
        same.find_map(|(producer, _)| {
            let expression = paths::expression(self.producers.get(producer)?.root, path);
            self.checked(Found { producer, field: first_field(path), expression }, value)
        })
    }

    /// Splits a text into literal parts and texts of earlier outputs. Only a long text that stands for itself is
    /// recognized: the characters before and after it are neither letters nor digits.
    pub(super) fn pieces<'t>(&self, text: &'t str, batch: Option<u32>) -> Vec<Piece<'t>> {
        let (mut pieces, mut literal, mut at) = (Vec::new(), 0, 0);
        let mut before: Option<char> = None;
        while let Some(rest) = text.get(at..)
            && let Some(next) = rest.chars().next()
        {
            let starts = before.is_none_or(|c| !c.is_alphanumeric());
            let found = starts.then(|| self.longest_at(rest, batch)).flatten();
            let Some((length, found)) = found else {
                before = Some(next);
                at += next.len_utf8();
                continue;
            };
            pieces.extend(text.get(literal..at).filter(|text| !text.is_empty()).map(Piece::Literal));
            pieces.push(Piece::Link(found));
            before = rest.get(..length).and_then(|text| text.chars().next_back());
            at += length;
            literal = at;
        }
        pieces.extend(text.get(literal..).filter(|text| !text.is_empty()).map(Piece::Literal));
        pieces
    }

    /// The longest known text at the start of a text, with its length.
    fn longest_at(&self, text: &str, batch: Option<u32>) -> Option<(usize, Found)> {
        let beginning: [u8; WINDOW] = text.as_bytes().get(..WINDOW)?.try_into().ok()?;
        let known = self.by_beginning.get(&beginning)?.iter().filter(|known| self.is_earlier(known.producer, batch));
        let mut fitting: Vec<(usize, &Known<'_>)> = known
            .filter_map(|known| {
                let rest = text.strip_prefix(known.value.as_str()?)?;
                let stands_alone = !rest.starts_with(char::is_alphanumeric);
                stands_alone.then_some((text.len() - rest.len(), known))
            })
            .collect();
        fitting.sort_by_key(|(length, known)| {
            (std::cmp::Reverse(*length), std::cmp::Reverse(known.producer), known.length())
        });
        fitting.into_iter().find_map(|(length, known)| Some((length, self.found(known, known.value)?)))
    }

    /// Whether a call of this batch can have seen the output of a producer.
    fn is_earlier(&self, producer: usize, batch: Option<u32>) -> bool {
        let Some(producer) = self.producers.get(producer) else { return false };
        match (producer.batch, batch) {
            (Some(produced), Some(batch)) => produced < batch,
            (None, _) | (_, None) => true,
        }
    }

    fn found(&self, known: &Known<'_>, value: &Value) -> Option<Found> {
        let mut expression = paths::expression(self.producers.get(known.producer)?.root, &known.path);
        if let Some(field) = known.each {
            expression.push_str(&format!(".map({ITEM}, {ITEM}{})", paths::field(field)));
        }
        self.checked(Found { producer: known.producer, field: first_field(&known.path), expression }, value)
    }

    /// Returns the reference if its expression can be evaluated and has the value.
    fn checked(&self, found: Found, value: &Value) -> Option<Found> {
        let producer = self.producers.get(found.producer)?;
        let template = ValueTemplate::compile(&Value::String(texts::reference(&found.expression))).ok()?;
        let scope = match producer.batch {
            None => Scope::new(producer.value),
            Some(_) => Scope::new(&Value::Null).with(producer.root, producer.value),
        };
        (template.render(&scope).ok()?.value == *value).then_some(found)
    }

    fn add(&mut self, producer: usize, value: &'a Value, path: &mut Vec<Segment<'a>>) -> Measure {
        self.values += 1;
        let mut parts = Vec::new();
        if self.is_complete() {
            match value {
                Value::Array(items) => {
                    for (at, item) in items.iter().enumerate() {
                        path.push(Segment::Index(at));
                        parts.push(self.add(producer, item, path));
                        path.pop();
                    }
                    self.add_fields_of_items(producer, value, items, path);
                }
                Value::Object(fields) => {
                    for (name, field) in fields {
                        path.push(Segment::Field(name));
                        parts.push(self.add(producer, field, path));
                        path.pop();
                    }
                }
                _ => {}
            }
        }
        let measure = self.combine(value, &parts);
        if self.is_complete() && is_recognizable(measure) && !measure.redacted {
            let known = Known { producer, value, path: path.clone(), each: None };
            if let Some(beginning) = value.as_str().and_then(beginning_of) {
                let same = self.by_beginning.entry(beginning).or_default();
                insert(same, known.clone());
                if same.len() > MAX_SAME_BEGINNING {
                    same.remove(0);
                }
            }
            insert(self.by_hash.entry(measure.hash).or_default(), known);
        }
        measure
    }

    /// Indexes the lists of the values that the items of a list have in one field.
    fn add_fields_of_items(&mut self, producer: usize, list: &'a Value, items: &'a [Value], path: &[Segment<'a>]) {
        let Some(Value::Object(first)) = items.first().filter(|_| items.len() > 1) else { return };
        for name in first.keys() {
            let field = |item: &Value| item.get(name).filter(|field| !field.is_object() && !field.is_array()).cloned();
            let Some(values) = items.iter().map(field).collect::<Option<Vec<Value>>>() else { continue };
            self.values += values.len();
            if !self.is_complete() {
                return;
            }
            let measure = self.measure(&Value::Array(values));
            if is_recognizable(measure) && !measure.redacted {
                let known = Known { producer, value: list, path: path.to_vec(), each: Some(name) };
                insert(self.by_hash.entry(measure.hash).or_default(), known);
            }
        }
    }

    fn measure(&self, value: &Value) -> Measure {
        let parts: Vec<Measure> = match value {
            Value::Array(items) => items.iter().map(|item| self.measure(item)).collect(),
            Value::Object(fields) => fields.values().map(|field| self.measure(field)).collect(),
            _ => Vec::new(),
        };
        self.combine(value, &parts)
    }

    /// Measures a value from the measures of its items or fields.
    fn combine(&self, value: &Value, parts: &[Measure]) -> Measure {
        let redacted_key = value.as_object().is_some_and(|fields| fields.keys().any(|name| texts::is_redacted(name)));
        let redacted = redacted_key || parts.iter().any(|part| part.redacted);
        let scalars = parts.iter().map(|part| part.scalars).sum();
        let hash = match value {
            Value::Array(_) => self.hasher.hash_one((0_u8, parts.iter().map(|part| part.hash).collect::<Vec<_>>())),
            // The order of the fields has no meaning.
            Value::Object(fields) => {
                let fields = fields.keys().zip(parts).map(|(name, part)| self.hasher.hash_one((name, part.hash)));
                self.hasher.hash_one((1_u8, fields.fold(0_u64, u64::wrapping_add)))
            }
            scalar => {
                let specific = is_specific(scalar);
                let redacted = scalar.as_str().is_some_and(texts::is_redacted);
                return Measure { hash: self.hasher.hash_one(scalar.to_string()), specific, scalars: 1, redacted };
            }
        };
        Measure { hash, specific: parts.iter().any(|part| part.specific), scalars, redacted }
    }
}

impl Known<'_> {
    fn length(&self) -> usize {
        self.path.len() + usize::from(self.each.is_some()) * 2
    }

    fn equals(&self, value: &Value) -> bool {
        let Some(field) = self.each else { return self.value == value };
        let (Some(items), Some(values)) = (self.value.as_array(), value.as_array()) else { return false };
        items.len() == values.len() && items.iter().zip(values).all(|(item, value)| item.get(field) == Some(value))
    }
}

/// Adds a value, unless the same producer has an equal value at a path that is not longer.
fn insert<'a>(list: &mut Vec<Known<'a>>, new: Known<'a>) {
    let same_producer = list.iter_mut().rev().take_while(|known| known.producer == new.producer);
    let equal = same_producer.into_iter().find(|known| known.each == new.each && known.value == new.value);
    match equal {
        Some(known) if new.length() < known.length() => *known = new,
        Some(_) => {}
        None => list.push(new),
    }
}

fn first_field(path: &[Segment<'_>]) -> Option<String> {
    match path.first()? {
        Segment::Field(name) => Some((*name).to_owned()),
        Segment::Index(_) => None,
    }
}

fn is_recognizable(measure: Measure) -> bool {
    measure.specific || measure.scalars >= MIN_SCALARS
}

/// Whether a scalar is unlikely to be equal by chance.
pub(super) fn is_specific(scalar: &Value) -> bool {
    match scalar {
        Value::String(text) => text.chars().nth(MIN_TEXT - 1).is_some(),
        Value::Number(number) => {
            number.as_f64().is_some_and(|number| number.abs() >= MIN_NUMBER || number.fract() != 0.0)
        }
        _ => false,
    }
}

fn beginning_of(text: &str) -> Option<[u8; WINDOW]> {
    text.as_bytes().get(..WINDOW)?.try_into().ok()
}
