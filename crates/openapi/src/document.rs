//! A description of an API, as far as it can be read at all.

use serde_json::{Map, Value};
use toolwright_types::RefName;

use crate::read::read;
use crate::{names, text};

/// A document that nothing can be made of, or not in the way that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// A JSON pointer into the document; empty for the whole.
    pub place: String,
    /// What is wrong there, and what would help.
    pub message: String,
}

impl Refused {
    pub(crate) fn at(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

/// Which rules its schemas follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAPI 3.0: nearly draft 5, with words of its own.
    V30,
    /// OpenAPI 3.1 and 3.2: JSON Schema 2020-12.
    V31,
}

/// An OpenAPI document.
#[derive(Debug)]
pub struct Document {
    pub(crate) root: Value,
    pub(crate) dialect: Dialect,
}

impl Document {
    /// Reads a text, JSON or YAML.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        Self::from_value(read(text).map_err(|message| Refused::at("", message))?)
    }

    /// Takes a document that was read already.
    pub fn from_value(root: Value) -> Result<Self, Refused> {
        let Value::Object(fields) = &root else {
            return Err(Refused::at("", "an OpenAPI document is an object"));
        };
        let dialect = dialect(fields)?;
        if !fields.get("paths").is_some_and(Value::is_object) {
            return Err(Refused::at("/paths", "the document has no `paths`, so there is nothing to import"));
        }
        Ok(Self { root, dialect })
    }

    /// Reads a text, JSON or YAML, of which only the schemas matter.
    pub fn parse_schemas(text: &str) -> Result<Self, Refused> {
        Self::of_schemas(read(text).map_err(|message| Refused::at("", message))?)
    }

    /// Takes a document that was read already, of which only the schemas matter.
    pub fn of_schemas(root: Value) -> Result<Self, Refused> {
        let Value::Object(fields) = &root else {
            return Err(Refused::at("", "an OpenAPI document is an object"));
        };
        let dialect = dialect(fields)?;
        if !root.pointer("/components/schemas").is_some_and(Value::is_object) {
            let message = "the document has no `components.schemas`, so there is nothing to import";
            return Err(Refused::at("/components/schemas", message));
        }
        Ok(Self { root, dialect })
    }

    /// A name for the provider, from the title of the API.
    pub fn suggested_name(&self) -> Option<RefName> {
        let title = self.root.pointer("/info/title")?.as_str()?;
        names::slug(title).parse().ok()
    }

    /// What the API is, in a few sentences.
    pub(crate) fn about(&self) -> Option<String> {
        let of = |field: &str| self.root.pointer(&format!("/info/{field}")).and_then(Value::as_str);
        text::described(of("title"), of("summary").or_else(|| of("description")), 400)
    }
}

fn dialect(fields: &Map<String, Value>) -> Result<Dialect, Refused> {
    if fields.contains_key("swagger") {
        return Err(Refused::at(
            "/swagger",
            "this is Swagger 2.0; convert it to OpenAPI 3 first, for example with `npx swagger2openapi`",
        ));
    }
    let version = match fields.get("openapi") {
        Some(Value::String(version)) => version.clone(),
        // YAML takes `3.1` for a number.
        Some(Value::Number(version)) => version.to_string(),
        _ => {
            return Err(Refused::at(
                "/openapi",
                "the document does not say `openapi: 3.x`; is it an OpenAPI document?",
            ));
        }
    };
    let mut parts = version.split('.');
    match (parts.next(), parts.next()) {
        (Some("3"), Some("0")) => Ok(Dialect::V30),
        (Some("3"), Some("1" | "2")) => Ok(Dialect::V31),
        _ => Err(Refused::at("/openapi", format!("OpenAPI `{version}` is not known; 3.0 and 3.1 are"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_what_it_is_or_is_refused_with_a_remedy() {
        for (text, place, because) in [
            ("[]", "", "object"),
            ("text", "", "object"),
            ("{\"paths\": {}}", "/openapi", "does not say"),
            ("{\"swagger\": \"2.0\", \"paths\": {}}", "/swagger", "convert"),
            ("{\"openapi\": \"4.0.0\", \"paths\": {}}", "/openapi", "`4.0.0`"),
            ("{\"openapi\": [], \"paths\": {}}", "/openapi", "does not say"),
            ("{\"openapi\": \"3.1.0\"}", "/paths", "nothing to import"),
            ("{\"openapi\": \"3.0.0\", \"paths\": []}", "/paths", "nothing to import"),
        ] {
            let refused = Document::parse(text).unwrap_err();
            assert_eq!(refused.place, place, "{text}");
            assert!(refused.message.contains(because), "{text}: {refused}");
        }
        assert_eq!(Document::parse("openapi: 3.1\npaths: {}\n").unwrap().dialect, Dialect::V31);
    }

    #[test]
    fn a_title_becomes_a_name() {
        let named = |title: &str| {
            let document = serde_json::json!({ "openapi": "3.0.0", "info": { "title": title }, "paths": {} });
            Document::from_value(document).unwrap().suggested_name().map(String::from)
        };
        assert_eq!(named("GitHub v3 REST API").as_deref(), Some("github-v3-rest-api"));
        assert_eq!(named("  Ünï — cöde! "), Some("n-c-de".into()));
        assert_eq!(named("…"), None);
        assert_eq!(named("Query"), None);
    }
}
