//! The base URL of an API, from the `servers` of its document.

use serde_json::Value;
use url::Url;

use crate::error::DocumentError;

const HINT: &str = "set `baseUrl` to the URL of the API";

/// Returns the URL of the document's first server. A relative URL is resolved against the URL of the document.
pub(crate) fn base_url(root: &Value, source_url: Option<&Url>) -> Result<String, DocumentError> {
    let template = match first_server(root) {
        Some(server) => expand_variables(server)?,
        // The OpenAPI specification defines this default.
        None => "/".to_owned(),
    };
    let url = match Url::parse(&template) {
        Ok(url) => Ok(url),
        Err(url::ParseError::RelativeUrlWithoutBase) => match source_url.map(|base| base.join(&template)) {
            Some(Ok(url)) => Ok(url),
            _ if first_server(root).is_none() => {
                return Err(DocumentError::at("/servers", format!("`servers` is empty or missing; {HINT}")));
            }
            _ => {
                return Err(DocumentError::at(
                    "/servers/0/url",
                    format!(
                        "the server URL `{template}` is relative, and the URL of the document is not known; {HINT}"
                    ),
                ));
            }
        },
        Err(error) => Err(error),
    };
    match url {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url.as_str().trim_end_matches('/').to_owned()),
        _ => Err(DocumentError::at(
            "/servers/0/url",
            format!("the server URL must be an http or https URL, got `{template}`; {HINT}"),
        )),
    }
}

/// Returns the server URL of a path item or an operation if it differs from the server URL of the document.
pub(crate) fn differing_server(root: &Value, holder: &Value) -> Option<String> {
    let own = first_server(holder)?.get("url")?.as_str()?;
    let common = first_server(root).and_then(|server| server.get("url")?.as_str()).unwrap_or("/");
    (own.trim_end_matches('/') != common.trim_end_matches('/')).then(|| own.to_owned())
}

fn first_server(holder: &Value) -> Option<&Value> {
    holder.get("servers")?.as_array()?.first()
}

/// Returns the URL of a server, with each variable replaced by its default.
fn expand_variables(server: &Value) -> Result<String, DocumentError> {
    let invalid = |message: String| DocumentError::at("/servers/0/url", message);
    let mut rest = server
        .get("url")
        .and_then(Value::as_str)
        .ok_or_else(|| invalid(format!("`url` of the server must be a string; {HINT}")))?;
    let mut url = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        let (name, tail) =
            after.split_once('}').ok_or_else(|| invalid(format!("the `{{` of a variable is not closed; {HINT}")))?;
        let default = server.get("variables").and_then(|variables| variables.get(name)?.get("default")?.as_str());
        let default = default.ok_or_else(|| invalid(format!("variable `{{{name}}}` has no default; {HINT}")))?;
        url.push_str(before);
        url.push_str(default);
        rest = tail;
    }
    url.push_str(rest);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn base_url_is_the_url_of_the_first_server_and_is_required() {
        let from: Url = "https://docs.example.com/api/openapi.yaml".parse().unwrap();
        for (servers, source_url, expected) in [
            (json!([{ "url": "https://api.example.com/v1/" }]), None, Ok("https://api.example.com/v1")),
            (
                json!([{ "url": "https://{r}.example.com", "variables": { "r": { "default": "eu" } } }]),
                None,
                Ok("https://eu.example.com"),
            ),
            (json!([{ "url": "/v1" }]), Some(&from), Ok("https://docs.example.com/v1")),
            (json!([{ "url": "v1" }]), Some(&from), Ok("https://docs.example.com/api/v1")),
            (json!(null), Some(&from), Ok("https://docs.example.com")),
            (json!([{ "url": "/v1" }]), None, Err("relative")),
            (json!(null), None, Err("`servers` is empty")),
            (json!([{ "url": "https://{r}.example.com" }]), None, Err("`{r}` has no default")),
            (json!([{ "url": "ftp://example.com" }]), None, Err("http or https")),
            (json!([{ "url": 7 }]), None, Err("`url` of the server")),
            (json!([{ "url": "https://{r" }]), None, Err("not closed")),
        ] {
            let found = base_url(&json!({ "servers": servers }), source_url);
            match expected {
                Ok(url) => assert_eq!(found.as_deref(), Ok(url), "{servers}"),
                Err(expected) => {
                    let error = found.unwrap_err();
                    assert!(error.message.contains(expected) && error.message.contains("baseUrl"), "{error}");
                }
            }
        }
    }
}
