//! References between the parts of a schema.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use url::Url;

/// The rules for references and identifiers at a place in a schema.
#[derive(Clone)]
pub(super) struct Scope {
    pub base: Url,
    /// Whether keywords beside `$ref` are ignored, as in drafts before 2019-09.
    pub ignores_siblings: bool,
    pub id_keyword: &'static str,
}

impl Scope {
    /// Returns the rules that apply inside of a schema with these `fields`.
    pub(super) fn enter(&self, fields: &Map<String, Value>) -> Self {
        let mut scope = self.clone();
        if let Some(dialect) = fields.get("$schema").and_then(Value::as_str) {
            scope.ignores_siblings =
                ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|d| dialect.contains(d));
            scope.id_keyword = if dialect.contains("draft-03") || dialect.contains("draft-04") { "id" } else { "$id" };
        }
        let id = fields.get(scope.id_keyword).and_then(Value::as_str);
        if let Some(mut base) = id.and_then(|id| scope.base.join(id).ok())
            && !scope.keeps_identifier(fields)
        {
            base.set_fragment(None);
            scope.base = base;
        }
        scope
    }

    /// Whether the schema with these fields has the base URI of its parent, because the draft ignores keywords beside a
    /// `$ref`, including `$id`.
    pub(super) fn keeps_identifier(&self, fields: &Map<String, Value>) -> bool {
        self.ignores_siblings && fields.contains_key("$ref")
    }
}

/// A `$ref` that names a schema by its path.
#[derive(Clone, Copy)]
pub(super) struct Reference<'s> {
    pub text: &'s str,
    /// The schema that contains the target.
    pub resource: &'s Value,
}

impl<'s> Reference<'s> {
    /// The names and indexes on the path to the target.
    pub(super) fn tokens(&self) -> impl Iterator<Item = String> {
        let path = self.text.split_once('#').map_or("", |(_, fragment)| fragment);
        path.split('/').skip(1).map(decode)
    }

    pub(super) fn target(&self) -> Option<&'s Value> {
        self.tokens().try_fold(self.resource, |node, token| child(node, &token))
    }
}

/// Decodes a segment of a JSON pointer in a URI fragment.
pub(super) fn decode(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().replace("~1", "/").replace("~0", "~")
}

pub(super) fn child<'v>(node: &'v Value, token: &str) -> Option<&'v Value> {
    match node {
        Value::Object(fields) => fields.get(token),
        Value::Array(items) => items.get(token.parse::<usize>().ok()?),
        _ => None,
    }
}
