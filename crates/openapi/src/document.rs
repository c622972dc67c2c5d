//! A parsed OpenAPI document. Only its version and the presence of its main sections are checked here.

use serde_json::{Map, Value};
use toolwright_types::RefName;

use crate::error::DocumentError;
use crate::parse::parse_value;
use crate::{names, text};

/// The OpenAPI version, as far as it changes the meaning of schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenApiVersion {
    /// OpenAPI 3.0: a variant of JSON Schema draft 5 with its own keywords.
    V30,
    /// OpenAPI 3.1 and 3.2: JSON Schema 2020-12.
    V31,
}

/// An OpenAPI document.
#[derive(Debug)]
pub struct OpenApiDocument {
    pub(crate) root: Value,
    pub(crate) version: OpenApiVersion,
}

impl OpenApiDocument {
    /// Parses JSON or YAML. `paths` is required.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        Self::from_value(parse_value(text).map_err(|message| DocumentError::at("", message))?)
    }

    /// Creates a document from a parsed value. `paths` is required.
    pub fn from_value(root: Value) -> Result<Self, DocumentError> {
        let Value::Object(fields) = &root else {
            return Err(DocumentError::at("", "an OpenAPI document must be an object"));
        };
        let version = detect_version(fields)?;
        if !fields.get("paths").is_some_and(Value::is_object) {
            return Err(DocumentError::at(
                "/paths",
                "`paths` must be an object; without it there is nothing to import",
            ));
        }
        Ok(Self { root, version })
    }

    /// Parses JSON or YAML for an import of schemas: `components.schemas` is required, `paths` is not.
    pub fn parse_for_schemas(text: &str) -> Result<Self, DocumentError> {
        Self::from_value_for_schemas(parse_value(text).map_err(|message| DocumentError::at("", message))?)
    }

    /// Creates a document from a parsed value for an import of schemas: `components.schemas` is required, `paths` is
    /// not.
    pub fn from_value_for_schemas(root: Value) -> Result<Self, DocumentError> {
        let Value::Object(fields) = &root else {
            return Err(DocumentError::at("", "an OpenAPI document must be an object"));
        };
        let version = detect_version(fields)?;
        if !root.pointer("/components/schemas").is_some_and(Value::is_object) {
            let message = "`components.schemas` must be an object; without it there is nothing to import";
            return Err(DocumentError::at("/components/schemas", message));
        }
        Ok(Self { root, version })
    }

    /// Derives a name for the provider from the title of the API.
    pub fn suggested_name(&self) -> Option<RefName> {
        let title = self.root.pointer("/info/title")?.as_str()?;
        names::slug(title).parse().ok()
    }

    /// The description of the API, from the document's title, summary and description.
    pub(crate) fn description(&self) -> Option<String> {
        let info = |field: &str| self.root.pointer(&format!("/info/{field}")).and_then(Value::as_str);
        text::merge_description(info("title"), info("summary").or_else(|| info("description")), 400)
    }
}

fn detect_version(fields: &Map<String, Value>) -> Result<OpenApiVersion, DocumentError> {
    if fields.contains_key("swagger") {
        return Err(DocumentError::at(
            "/swagger",
            "Swagger 2.0 is not supported; convert the document to OpenAPI 3, for example with `npx swagger2openapi`",
        ));
    }
    let version = match fields.get("openapi") {
        Some(Value::String(version)) => version.clone(),
        // YAML parses `3.1` as a number.
        Some(Value::Number(version)) => version.to_string(),
        _ => {
            return Err(DocumentError::at(
                "/openapi",
                "`openapi` must be a version such as `3.1.0`; is this an OpenAPI document?",
            ));
        }
    };
    let mut parts = version.split('.');
    match (parts.next(), parts.next()) {
        (Some("3"), Some("0")) => Ok(OpenApiVersion::V30),
        (Some("3"), Some("1" | "2")) => Ok(OpenApiVersion::V31),
        _ => {
            Err(DocumentError::at("/openapi", format!("the OpenAPI version must be 3.0, 3.1 or 3.2, got `{version}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_without_version_or_paths_is_rejected_with_a_json_pointer() {
        for (text, pointer, expected) in [
            ("[]", "", "object"),
            ("text", "", "object"),
            ("{\"paths\": {}}", "/openapi", "must be a version"),
            ("{\"swagger\": \"2.0\", \"paths\": {}}", "/swagger", "convert"),
            ("{\"openapi\": \"4.0.0\", \"paths\": {}}", "/openapi", "`4.0.0`"),
            ("{\"openapi\": [], \"paths\": {}}", "/openapi", "must be a version"),
            ("{\"openapi\": \"3.1.0\"}", "/paths", "nothing to import"),
            ("{\"openapi\": \"3.0.0\", \"paths\": []}", "/paths", "nothing to import"),
        ] {
            let error = OpenApiDocument::parse(text).unwrap_err();
            assert_eq!(error.pointer, pointer, "{text}");
            assert!(error.message.contains(expected), "{text}: {error}");
        }
        assert_eq!(OpenApiDocument::parse("openapi: 3.1\npaths: {}\n").unwrap().version, OpenApiVersion::V31);
    }

    #[test]
    fn provider_name_is_derived_from_the_title() {
        let suggest = |title: &str| {
            let document = serde_json::json!({ "openapi": "3.0.0", "info": { "title": title }, "paths": {} });
            OpenApiDocument::from_value(document).unwrap().suggested_name().map(String::from)
        };
        assert_eq!(suggest("GitHub v3 REST API").as_deref(), Some("github-v3-rest-api"));
        assert_eq!(suggest("  Ünï — cöde! "), Some("n-c-de".into()));
        assert_eq!(suggest("…"), None);
        assert_eq!(suggest("Query"), None);
    }
}
