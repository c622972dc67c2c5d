//! The operation that a tool was imported from.

use serde::{Deserialize, Serialize};

/// The maximum length of the name of a document, in characters.
const MAX_NAME_CHARS: usize = 2048;

/// The operation of an OpenAPI document that a tool was imported from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolOrigin {
    /// The URL of the document without user, query and fragment, or the name of its file.
    pub document: String,
    /// The `operationId` in the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// The HTTP method.
    pub method: String,
    /// The path in the document, such as `/orders/{id}`.
    pub path: String,
}

impl ToolOrigin {
    /// Returns the name of a document for a URL or the path of a file. A user, a query and a fragment of a URL may be
    /// credentials, and folders belong to one machine, so the name does not contain them. `None` if no name remains, or if
    /// it is too long or has control characters.
    pub fn document_name(source: &str) -> Option<String> {
        let source = source.split(['?', '#']).next().unwrap_or_default();
        let name = match source.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let host = authority.rsplit('@').next().unwrap_or_default();
                format!("{}://{}{path}", scheme.to_ascii_lowercase(), host.to_ascii_lowercase())
            }
            None => source.rsplit(['/', '\\']).next().unwrap_or_default().to_owned(),
        };
        let name = name.replace(' ', "%20");
        let is_valid =
            !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS && !name.chars().any(char::is_control);
        is_valid.then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_document_has_no_credentials_and_no_folders() {
        for (source, expected) in [
            ("https://api.example.com/v1/openapi.json", Some("https://api.example.com/v1/openapi.json")),
            (
                "HTTPS://me:pass@API.example.com/openapi.json?key=secret#top",
                Some("https://api.example.com/openapi.json"),
            ),
            ("https://me@api.example.com", Some("https://api.example.com")),
            ("/home/me/apis/shop api.yaml", Some("shop%20api.yaml")),
            ("./shop.json", Some("shop.json")),
            (r"C:\apis\shop.json", Some("shop.json")),
            ("-\u{7}", None),
            ("folder/", None),
            ("?key=secret", None),
        ] {
            assert_eq!(ToolOrigin::document_name(source).as_deref(), expected, "{source}");
        }
    }
}
