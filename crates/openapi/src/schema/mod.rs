//! Converts the schemas of a document into self-contained JSON Schema 2020-12.
//!
//! References are inlined while the result is small. Recursive schemas, and all schemas after the limit for inlining is
//! reached, are written once under `$defs`. So the conversion ends for every graph of references.

mod cycles;
mod keywords;
mod nullable;
mod pattern;

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::document::{OpenApiDocument, OpenApiVersion};
use crate::error::ConversionError;
use crate::reference::{follow, resolve};

pub(crate) use keywords::is_small;

/// The maximum nesting depth of schemas. A definition has at most 100 levels of JSON, and each nested schema uses two.
const MAX_DEPTH: usize = 40;
/// The maximum number of `allOf` parts that are searched for hidden properties.
const MAX_PARTS: usize = 64;
/// The maximum depth at which references are inlined.
const MAX_INLINE_DEPTH: usize = 24;

/// Whether the values that a schema describes are sent to the API or received from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The values are sent to the API. The schema has no `readOnly` properties, and has descriptions for the model.
    Input,
    /// The values are received from the API. The schema has no `writeOnly` properties and no descriptions.
    Output,
    /// The values are sent and received. The schema has all properties and descriptions.
    Both,
}

impl Direction {
    /// The keyword that marks properties as hidden in this direction.
    fn hiding_flag(self) -> Option<&'static str> {
        match self {
            Direction::Input => Some("readOnly"),
            Direction::Output => Some("writeOnly"),
            Direction::Both => None,
        }
    }

    /// The size of the output, in bytes, up to which references are inlined.
    fn inline_budget(self) -> usize {
        match self {
            Direction::Input | Direction::Both => 16 << 10,
            Direction::Output => 4 << 10,
        }
    }

    /// The maximum size of a schema, in bytes. Parts beyond the limit accept any value.
    fn max_bytes(self) -> usize {
        match self {
            Direction::Input => 256 << 10,
            Direction::Output => 32 << 10,
            // The schema of an entity type may have 256 KiB of JSON. The size that is compared here is only an estimate
            // and may be too low, so the limit is 128 KiB.
            Direction::Both => 128 << 10,
        }
    }
}

/// Converts the schemas of one tool in one direction.
pub(crate) struct Converter<'d> {
    document: &'d OpenApiDocument,
    direction: Direction,
    /// The approximate size of the output so far, in bytes.
    estimated_bytes: usize,
    /// The references that are being expanded, outermost first.
    expanding: Vec<&'d str>,
    /// The names of the definitions under `$defs`, by reference.
    definition_names: HashMap<&'d str, String>,
    used_names: HashSet<String>,
    /// References whose definitions are not written yet.
    pending: VecDeque<&'d str>,
    definitions: Map<String, Value>,
    /// Whether a subschema exceeded the limits and was replaced with one that accepts any value.
    pub truncated: bool,
    /// Whether a pattern was removed because the validator does not support it.
    pub dropped_patterns: bool,
}

impl<'d> Converter<'d> {
    pub(crate) fn new(document: &'d OpenApiDocument, direction: Direction) -> Self {
        Self {
            document,
            direction,
            estimated_bytes: 0,
            expanding: Vec::new(),
            definition_names: HashMap::new(),
            used_names: HashSet::new(),
            pending: VecDeque::new(),
            definitions: Map::new(),
            truncated: false,
            dropped_patterns: false,
        }
    }

    /// Converts one schema. The result may refer to `$defs`, which [`Converter::finish`] adds to the root.
    pub(crate) fn convert(&mut self, schema: &'d Value) -> Result<Value, ConversionError> {
        self.convert_schema(schema, 0, &HashSet::new())
    }

    /// Returns whether a property is hidden in this direction.
    pub(crate) fn is_hidden(&self, property: &Value) -> bool {
        let Some(flag) = self.direction.hiding_flag() else { return false };
        let flagged = |schema: &Value| schema.get(flag) == Some(&Value::Bool(true));
        flagged(property) || follow(&self.document.root, property).is_ok_and(flagged)
    }

    /// The approximate size of the output so far, in bytes.
    pub(crate) fn estimated_bytes(&self) -> usize {
        self.estimated_bytes
    }

    /// Writes the pending definitions and adds them to the root as `$defs`.
    pub(crate) fn finish(&mut self, root: &mut Map<String, Value>) -> Result<(), ConversionError> {
        while let Some(reference) = self.pending.pop_front() {
            let target = resolve(&self.document.root, reference)?;
            self.expanding.push(reference);
            let definition = self.convert_schema(target, 2, &HashSet::new())?;
            self.expanding.pop();
            if let Some(name) = self.definition_names.get(reference) {
                self.definitions.insert(name.clone(), definition);
            }
        }
        let mut definitions = std::mem::take(&mut self.definitions);
        self.truncated |= cycles::break_cycles(&mut definitions);
        if !definitions.is_empty() {
            root.insert("$defs".into(), Value::Object(definitions));
        }
        Ok(())
    }

    /// Converts a schema at a nesting depth. `hidden` contains the properties of the same object that are hidden in
    /// this direction, including those that other `allOf` parts declare. No part may require a hidden property.
    fn convert_schema(
        &mut self,
        schema: &'d Value,
        depth: usize,
        hidden: &HashSet<&'d str>,
    ) -> Result<Value, ConversionError> {
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(false) => return Ok(json!({ "not": {} })),
            _ => return Ok(json!({})),
        };
        if depth > MAX_DEPTH || self.estimated_bytes > self.direction.max_bytes() {
            self.truncated = true;
            return Ok(json!({}));
        }
        self.estimated_bytes += 16;
        match fields.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.convert_reference(reference, fields, depth),
            None => self.convert_keywords(fields, depth, hidden),
        }
    }

    /// Converts a reference and its sibling keywords.
    fn convert_reference(
        &mut self,
        reference: &'d str,
        fields: &'d Map<String, Value>,
        depth: usize,
    ) -> Result<Value, ConversionError> {
        let mut siblings = Map::new();
        for (keyword, value) in fields.iter().filter(|(keyword, _)| *keyword != "$ref") {
            // OpenAPI 3.0 ignores all siblings of a reference. Annotations are kept, because many documents rely on
            // them.
            if self.document.version == OpenApiVersion::V31 || matches!(keyword.as_str(), "description" | "deprecated")
            {
                self.convert_keyword(&mut siblings, keyword, value, depth, &HashSet::new())?;
            }
        }
        let target = self.inline_or_define(reference, depth)?;
        let only_annotations = siblings.keys().all(|keyword| is_annotation(keyword));
        match target {
            Value::Object(mut target) if only_annotations => {
                target.extend(siblings);
                Ok(Value::Object(target))
            }
            target => {
                let parts = siblings.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(parts) = parts {
                    parts.push(target);
                }
                Ok(Value::Object(siblings))
            }
        }
    }

    /// Returns the converted target of a reference, or a reference to the target's definition under `$defs`.
    fn inline_or_define(&mut self, reference: &'d str, depth: usize) -> Result<Value, ConversionError> {
        let target = resolve(&self.document.root, reference)?;
        let can_inline = !self.definition_names.contains_key(reference)
            && !self.expanding.contains(&reference)
            && self.estimated_bytes < self.direction.inline_budget()
            && depth < MAX_INLINE_DEPTH;
        if can_inline {
            self.expanding.push(reference);
            let inlined = self.convert_schema(target, depth + 1, &HashSet::new())?;
            self.expanding.pop();
            // If the schema is recursive, its conversion has created a definition under `$defs`. Then a reference to
            // this definition replaces the inlined copy.
            if !self.definition_names.contains_key(reference) {
                return Ok(inlined);
            }
        }
        let name = self.definition_name(reference);
        Ok(json!({ "$ref": format!("#/$defs/{name}") }))
    }

    /// Returns the name of the definition for a reference: the last segment of the reference, made unique. Schedules
    /// the conversion of the definition on first use.
    fn definition_name(&mut self, reference: &'d str) -> String {
        if let Some(name) = self.definition_names.get(reference) {
            return name.clone();
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let sanitize = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' };
        let base: String = last.chars().take(80).map(sanitize).collect();
        let base = if base.is_empty() { "schema".to_owned() } else { base };
        let mut name = base.clone();
        let mut count = 1;
        while !self.used_names.insert(name.clone()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        self.estimated_bytes += 32 + 2 * name.len();
        self.definition_names.insert(reference, name.clone());
        self.pending.push_back(reference);
        name
    }

    /// Collects the hidden properties of a schema and of its `allOf` parts.
    fn hidden_properties(&mut self, fields: &'d Map<String, Value>) -> HashSet<&'d str> {
        let mut hidden = HashSet::new();
        let mut parts = vec![fields];
        // The search counts against the size limit, because thousands of schemas may refer to the same parts.
        for _ in 0..MAX_PARTS {
            let Some(fields) = parts.pop() else { break };
            if let Some(Value::Object(properties)) = fields.get("properties") {
                self.estimated_bytes += properties.len();
                hidden.extend(
                    properties.iter().filter(|(_, property)| self.is_hidden(property)).map(|(name, _)| name.as_str()),
                );
            }
            let more = fields.get("allOf").and_then(Value::as_array).into_iter().flatten();
            let more = more.take(MAX_PARTS).filter_map(|part| follow(&self.document.root, part).ok()?.as_object());
            parts.extend(more);
        }
        hidden
    }
}

/// Returns whether a keyword only describes the schema and does not constrain values.
fn is_annotation(keyword: &str) -> bool {
    matches!(keyword, "description" | "deprecated" | "default" | "examples")
}
