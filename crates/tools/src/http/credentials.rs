//! Finds credentials that were written into a definition, where a reference to a secret belongs.

use url::Url;

/// Parts of a name that give a credential away.
const TELLING: [&str; 10] =
    ["authorization", "cookie", "api-key", "api_key", "apikey", "token", "secret", "password", "passwd", "credential"];
/// Names of query parameters that do so only as a whole.
const PARAMETERS: [&str; 5] = ["auth", "pwd", "sig", "signature", "jwt"];
/// How the keys of well-known services begin.
const PREFIXES: [&str; 9] = ["sk-", "sk_live_", "ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-", "AKIA", "AIza"];

fn tells(name: &str) -> bool {
    TELLING.iter().any(|part| name.contains(part))
}

fn looks_like_a_key(value: &str) -> bool {
    value.len() >= 16 && PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}

/// What is wrong with a header of a tool, if its value is a credential and not a template.
pub(super) fn in_header(name: &str, value: &str) -> Option<String> {
    if value.contains("${") { None } else { in_literal_header(name, value) }
}

/// What is wrong with a header whose value is sent as it stands, if it is a credential.
pub(super) fn in_literal_header(name: &str, value: &str) -> Option<String> {
    let scheme = value.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let suspicious = tells(&name.to_ascii_lowercase())
        || looks_like_a_key(value)
        || (matches!(scheme.as_str(), "bearer" | "basic") && value.split_whitespace().count() == 2);
    suspicious.then(|| {
        format!("header `{name}` holds a credential; store it with `toolwright secrets set` and name it in the provider's auth.secretRef")
    })
}

/// What is wrong with a query parameter, if its value is a credential and not a template.
pub(super) fn in_parameter(name: &str, value: &str) -> Option<String> {
    let name_key = name.to_ascii_lowercase();
    // A `key` may be anything; one as long as a credential is taken for one.
    let suspicious = tells(&name_key)
        || PARAMETERS.contains(&name_key.as_str())
        || looks_like_a_key(value)
        || (name_key == "key" && value.len() >= 16);
    (suspicious && !value.is_empty() && !value.contains("${")).then(|| {
        format!("query parameter `{name}` holds a credential; name a secret in the provider's auth.secretRef instead")
    })
}

/// What is wrong with a URL, if it holds a credential.
pub(super) fn in_url(text: &str) -> Option<String> {
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let has_userinfo = Url::parse(address).is_ok_and(|url| !url.username().is_empty() || url.password().is_some());
    if has_userinfo {
        return Some(
            "the URL holds a user name or password; name a secret in the provider's auth.secretRef instead".into(),
        );
    }
    query.split('&').filter_map(|pair| pair.split_once('=')).find_map(|(name, value)| in_parameter(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_and_templates_are_not() {
        assert!(in_header("Authorization", "Bearer abc").is_some());
        assert!(in_header("X-Api-Key", "abc").is_some());
        assert!(in_header("X-Custom", "Bearer abc").is_some());
        assert!(in_header("X-GitHub-Token", "abc").is_some());
        assert!(in_header("X-Custom", "sk-ant-api03-0123456789").is_some());
        assert!(in_header("X-Custom", "bearer of news and more").is_none());
        assert!(in_header("X-Api-Key", "${param.key}").is_none());
        assert!(in_header("Accept", "application/json").is_none());
        assert!(in_url("https://u:p@example.com/x").is_some());
        assert!(in_url("/x?api_key=abc&y=1").is_some());
        assert!(in_url("/x?api_key=${param.k}").is_none());
        assert!(in_url("/x?key=AIzaSyD-0123456789abcdef").is_some());
        assert!(in_url("/x?key=PROJ-17").is_none());
        assert!(in_url("https://example.com/x?q=1").is_none());
    }
}
