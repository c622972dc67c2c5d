//! Detects credentials that are written into a definition instead of a reference to a secret.

use url::Url;

/// If the name of a header or query parameter contains one of these, its value is treated as a credential.
const SENSITIVE_NAMES: [&str; 10] =
    ["authorization", "cookie", "api-key", "api_key", "apikey", "token", "secret", "password", "passwd", "credential"];
/// If the name of a query parameter equals one of these, its value is treated as a credential.
const SENSITIVE_PARAMETERS: [&str; 5] = ["auth", "pwd", "sig", "signature", "jwt"];
/// Prefixes of the API keys of well-known services.
const KEY_PREFIXES: [&str; 9] = ["sk-", "sk_live_", "ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-", "AKIA", "AIza"];

fn is_sensitive_name(name: &str) -> bool {
    SENSITIVE_NAMES.iter().any(|part| name.contains(part))
}

fn looks_like_key(value: &str) -> bool {
    value.len() >= 16 && KEY_PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}

/// Returns an issue if the value of a tool's header is a credential and not a template.
pub(super) fn in_header(name: &str, value: &str) -> Option<String> {
    if value.contains("${") { None } else { in_literal_header(name, value) }
}

/// Returns an issue if the literal value of a header is a credential.
pub(super) fn in_literal_header(name: &str, value: &str) -> Option<String> {
    let scheme = value.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let suspicious = is_sensitive_name(&name.to_ascii_lowercase())
        || looks_like_key(value)
        || (matches!(scheme.as_str(), "bearer" | "basic") && value.split_whitespace().count() == 2);
    suspicious.then(|| {
        format!("header `{name}` holds a credential; store it with `toolwright secrets set` and name it in the provider's auth.secretRef")
    })
}

/// Returns an issue if the value of a query parameter is a credential and not a template.
pub(super) fn in_parameter(name: &str, value: &str) -> Option<String> {
    let name_key = name.to_ascii_lowercase();
    // `key` is a common name, so its value is treated as a credential only if it is long.
    let suspicious = is_sensitive_name(&name_key)
        || SENSITIVE_PARAMETERS.contains(&name_key.as_str())
        || looks_like_key(value)
        || (name_key == "key" && value.len() >= 16);
    (suspicious && !value.is_empty() && !value.contains("${")).then(|| {
        format!("query parameter `{name}` holds a credential; name a secret in the provider's auth.secretRef instead")
    })
}

/// Whether an argument of a command is a credential: the value of a flag with a sensitive name, the key of a well-known
/// service, or a URL with a password. `previous` is the argument before `argument`.
pub(super) fn is_argument(previous: Option<&str>, argument: &str) -> bool {
    let (flag, value) = match argument.split_once('=') {
        Some((flag, value)) if !flag.contains("://") => (Some(flag), value),
        _ => (previous.filter(|flag| flag.starts_with('-') && !flag.contains('=')), argument),
    };
    let is_next_flag = value.starts_with('-') || value.is_empty();
    let is_named = flag.is_some_and(|flag| {
        let flag = flag.to_ascii_lowercase();
        // The value of a flag with a sensitive name is not always a credential, for example `--max-tokens 100` and
        // `--password-file /run/secrets/db`.
        let is_location = ["file", "path", "dir", "env", "url"].iter().any(|end| flag.ends_with(end));
        is_sensitive_name(&flag) && !is_location && value.parse::<f64>().is_err()
    });
    (is_named && !is_next_flag) || looks_like_key(value) || in_url(value).is_some()
}

/// Returns an issue if a URL contains a credential.
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
    fn credentials_in_arguments_are_detected() {
        for (previous, argument, expected) in [
            (Some("--api-key"), "abc", true),
            (Some("--token"), "abc", true),
            (None, "--token=abc", true),
            (None, "API_KEY=abc", true),
            (None, "sk-ant-api03-0123456789", true),
            (Some("--db"), "postgres://u:p@localhost/d", true),
            (None, "--db=postgres://u:p@localhost/d", true),
            (None, "https://example.com/x?api_key=abc", true),
            (Some("--token"), "--verbose", false),
            (Some("--max-tokens"), "100", false),
            (None, "--max-tokens=100", false),
            (Some("--password-file"), "/run/secrets/db", false),
            (Some("-y"), "@modelcontextprotocol/server-memory", false),
            (None, "https://example.com/x?q=1", false),
            (None, "--token=", false),
            (None, "tokenizer.py", false),
        ] {
            assert_eq!(is_argument(previous, argument), expected, "{previous:?} {argument}");
        }
    }

    #[test]
    fn literal_credentials_are_rejected_and_templates_are_accepted() {
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
