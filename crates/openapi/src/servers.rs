//! Where an API lives.

use serde_json::Value;
use url::Url;

use crate::document::Refused;

const GIVE: &str = "say where the API lives with `baseUrl`";

/// The URL of a document's first server: relative ones against where the document came from.
pub(crate) fn base_url(root: &Value, came_from: Option<&Url>) -> Result<String, Refused> {
    let template = match first(root) {
        Some(server) => filled(server)?,
        // The standard's default.
        None => "/".to_owned(),
    };
    let url = match Url::parse(&template) {
        Ok(url) => Ok(url),
        Err(url::ParseError::RelativeUrlWithoutBase) => match came_from.map(|base| base.join(&template)) {
            Some(Ok(url)) => Ok(url),
            _ if first(root).is_none() => {
                return Err(Refused::at("/servers", format!("the document names no server; {GIVE}")));
            }
            _ => {
                return Err(Refused::at(
                    "/servers/0/url",
                    format!("`{template}` is relative to a place that is not known; {GIVE}"),
                ));
            }
        },
        Err(error) => Err(error),
    };
    match url {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url.as_str().trim_end_matches('/').to_owned()),
        _ => Err(Refused::at("/servers/0/url", format!("`{template}` is no http or https URL; {GIVE}"))),
    }
}

/// Whether a path or an operation lives elsewhere than the document says.
pub(crate) fn elsewhere(root: &Value, holder: &Value) -> Option<String> {
    let own = first(holder)?.get("url")?.as_str()?;
    let common = first(root).and_then(|server| server.get("url")?.as_str()).unwrap_or("/");
    (own.trim_end_matches('/') != common.trim_end_matches('/')).then(|| own.to_owned())
}

fn first(holder: &Value) -> Option<&Value> {
    holder.get("servers")?.as_array()?.first()
}

/// A server's URL with the defaults of its variables.
fn filled(server: &Value) -> Result<String, Refused> {
    let wrong = |message: String| Refused::at("/servers/0/url", message);
    let mut rest =
        server.get("url").and_then(Value::as_str).ok_or_else(|| wrong(format!("the server has no `url`; {GIVE}")))?;
    let mut url = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or_else(|| wrong(format!("a `{{` is not closed; {GIVE}")))?;
        let default = server.get("variables").and_then(|all| all.get(name)?.get("default")?.as_str());
        let default = default.ok_or_else(|| wrong(format!("`{{{name}}}` has no default; {GIVE}")))?;
        url.push_str(before);
        url.push_str(default);
        rest = behind;
    }
    url.push_str(rest);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_becomes_a_base_url_or_is_asked_for() {
        let from: Url = "https://docs.example.com/api/openapi.yaml".parse().unwrap();
        for (servers, came_from, expected) in [
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
            (json!(null), None, Err("names no server")),
            (json!([{ "url": "https://{r}.example.com" }]), None, Err("`{r}` has no default")),
            (json!([{ "url": "ftp://example.com" }]), None, Err("http or https")),
            (json!([{ "url": 7 }]), None, Err("no `url`")),
            (json!([{ "url": "https://{r" }]), None, Err("not closed")),
        ] {
            let found = base_url(&json!({ "servers": servers }), came_from);
            match expected {
                Ok(url) => assert_eq!(found.as_deref(), Ok(url), "{servers}"),
                Err(part) => {
                    let refused = found.unwrap_err();
                    assert!(refused.message.contains(part) && refused.message.contains("baseUrl"), "{refused}");
                }
            }
        }
    }
}
