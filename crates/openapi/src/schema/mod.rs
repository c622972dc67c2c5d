//! Schemas of a document as JSON Schema 2020-12 that stands alone.
//!
//! What a reference points at is written in its place while that is cheap. What refers to itself, and what comes after the
//! budget for copies is spent, is kept once under `$defs`. So every schema ends, however its parts refer to each other.

mod keywords;
mod loops;
mod nullable;
mod pattern;

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::document::{Dialect, Document};
use crate::reference::{Lost, follow, resolve};

pub(crate) use keywords::is_small;

/// Schemas nested deeper are cut off: a definition has 100 levels, and a level of schemas takes two.
const DEEPEST: usize = 40;
/// How many parts of one whole are asked what they hide.
const MOST_PARTS: usize = 64;
/// References nested deeper are not written out.
const DEEPEST_COPY: usize = 24;

/// Which way values go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the API: without what only it can set, with texts that help a model.
    Input,
    /// From the API: without what it never tells, and without texts.
    Output,
    /// Both ways: with all properties, and with texts.
    Both,
}

impl Direction {
    /// The flag of properties that do not go this way.
    fn hides(self) -> Option<&'static str> {
        match self {
            Direction::Input => Some("readOnly"),
            Direction::Output => Some("writeOnly"),
            Direction::Both => None,
        }
    }

    /// How many bytes may be written before references are no longer written out.
    fn copies(self) -> usize {
        match self {
            Direction::Input | Direction::Both => 16 << 10,
            Direction::Output => 4 << 10,
        }
    }

    /// How many bytes a schema has at most; what does not fit is left open.
    fn most(self) -> usize {
        match self {
            Direction::Input => 256 << 10,
            Direction::Output => 32 << 10,
            // A type's schema has 256 KiB as it is written, which is more than what is counted here.
            Direction::Both => 128 << 10,
        }
    }
}

/// Converts the schemas of one tool in one direction.
pub(crate) struct Converter<'d> {
    document: &'d Document,
    direction: Direction,
    /// About how many bytes were written.
    spent: usize,
    /// The references that are being written out.
    open: Vec<&'d str>,
    /// References that have a definition, by the name of it.
    named: HashMap<&'d str, String>,
    names: HashSet<String>,
    pending: VecDeque<&'d str>,
    definitions: Map<String, Value>,
    /// Whether something did not fit and was left open.
    pub cut: bool,
    /// Whether a pattern was left out because nobody here could hold a text against it.
    pub patterns_lost: bool,
}

impl<'d> Converter<'d> {
    pub fn new(document: &'d Document, direction: Direction) -> Self {
        Self {
            document,
            direction,
            spent: 0,
            open: Vec::new(),
            named: HashMap::new(),
            names: HashSet::new(),
            pending: VecDeque::new(),
            definitions: Map::new(),
            cut: false,
            patterns_lost: false,
        }
    }

    /// One schema. It may refer to `$defs`, which [`Converter::finish`] adds to the root.
    pub fn convert(&mut self, schema: &'d Value) -> Result<Value, Lost> {
        self.schema(schema, 0, &HashSet::new())
    }

    /// Whether a property does not go this way.
    pub fn hides(&self, property: &Value) -> bool {
        let Some(flag) = self.direction.hides() else { return false };
        let flagged = |schema: &Value| schema.get(flag) == Some(&Value::Bool(true));
        flagged(property) || follow(&self.document.root, property).is_ok_and(flagged)
    }

    /// About how many bytes were written.
    pub fn spent(&self) -> usize {
        self.spent
    }

    /// Adds the definitions that the root needs.
    pub fn finish(&mut self, root: &mut Map<String, Value>) -> Result<(), Lost> {
        while let Some(reference) = self.pending.pop_front() {
            let target = resolve(&self.document.root, reference)?;
            self.open.push(reference);
            let definition = self.schema(target, 2, &HashSet::new())?;
            self.open.pop();
            if let Some(name) = self.named.get(reference) {
                self.definitions.insert(name.clone(), definition);
            }
        }
        let mut definitions = std::mem::take(&mut self.definitions);
        self.cut |= loops::open(&mut definitions);
        if !definitions.is_empty() {
            root.insert("$defs".into(), Value::Object(definitions));
        }
        Ok(())
    }

    /// `hidden` are properties that a part of the same object hides, and that no other part may ask for.
    fn schema(&mut self, schema: &'d Value, depth: usize, hidden: &HashSet<&'d str>) -> Result<Value, Lost> {
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(false) => return Ok(json!({ "not": {} })),
            _ => return Ok(json!({})),
        };
        if depth > DEEPEST || self.spent > self.direction.most() {
            self.cut = true;
            return Ok(json!({}));
        }
        self.spent += 16;
        match fields.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.reference(reference, fields, depth),
            None => self.keywords(fields, depth, hidden),
        }
    }

    /// A reference, and what stands beside it.
    fn reference(&mut self, reference: &'d str, fields: &'d Map<String, Value>, depth: usize) -> Result<Value, Lost> {
        let mut beside = Map::new();
        for (keyword, value) in fields.iter().filter(|(keyword, _)| *keyword != "$ref") {
            // In 3.0 only texts may stand there, and strictly not even they.
            if self.document.dialect == Dialect::V31 || matches!(keyword.as_str(), "description" | "deprecated") {
                self.keyword(&mut beside, keyword, value, depth, &HashSet::new())?;
            }
        }
        let target = self.target(reference, depth)?;
        let says_more = |beside: &Map<String, Value>| beside.keys().any(|keyword| !is_annotation(keyword));
        match target {
            Value::Object(mut target) if !says_more(&beside) => {
                target.extend(beside);
                Ok(Value::Object(target))
            }
            target => {
                let parts = beside.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(parts) = parts {
                    parts.push(target);
                }
                Ok(Value::Object(beside))
            }
        }
    }

    /// What a reference points at, written out or named.
    fn target(&mut self, reference: &'d str, depth: usize) -> Result<Value, Lost> {
        let target = resolve(&self.document.root, reference)?;
        let copied = !self.named.contains_key(reference)
            && !self.open.contains(&reference)
            && self.spent < self.direction.copies()
            && depth < DEEPEST_COPY;
        if copied {
            self.open.push(reference);
            let copy = self.schema(target, depth + 1, &HashSet::new())?;
            self.open.pop();
            // It turned out to refer to itself: then it has a definition, and needs no copy beside that.
            if !self.named.contains_key(reference) {
                return Ok(copy);
            }
        }
        let name = self.name(reference);
        Ok(json!({ "$ref": format!("#/$defs/{name}") }))
    }

    /// The name of a definition: the last part of its reference, unlike all others.
    fn name(&mut self, reference: &'d str) -> String {
        if let Some(name) = self.named.get(reference) {
            return name.clone();
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' };
        let base: String = last.chars().take(80).map(plain).collect();
        let base = if base.is_empty() { "schema".to_owned() } else { base };
        let mut name = base.clone();
        let mut count = 1;
        while !self.names.insert(name.clone()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        self.spent += 32 + 2 * name.len();
        self.named.insert(reference, name.clone());
        self.pending.push_back(reference);
        name
    }

    /// Names of properties that do not go this way, in a schema and in the parts that it is made of.
    fn hidden(&mut self, fields: &'d Map<String, Value>) -> HashSet<&'d str> {
        let mut hidden = HashSet::new();
        let mut parts = vec![fields];
        // Each look is paid for: parts may be shared by thousands of wholes.
        for _ in 0..MOST_PARTS {
            let Some(fields) = parts.pop() else { break };
            if let Some(Value::Object(properties)) = fields.get("properties") {
                self.spent += properties.len();
                hidden.extend(
                    properties.iter().filter(|(_, property)| self.hides(property)).map(|(name, _)| name.as_str()),
                );
            }
            let more = fields.get("allOf").and_then(Value::as_array).into_iter().flatten();
            let more = more.take(MOST_PARTS).filter_map(|part| follow(&self.document.root, part).ok()?.as_object());
            parts.extend(more);
        }
        hidden
    }
}

/// What a schema says about itself and not about values.
fn is_annotation(keyword: &str) -> bool {
    matches!(keyword, "description" | "deprecated" | "default" | "examples")
}
