//! Converts the security schemes of a document into the authentication of a provider.

use serde_json::{Map, Value};
use toolwright_types::{AuthConfig, AuthType};

use crate::document::OpenApiDocument;
use crate::reference::follow;

/// The proposed authentication of a provider.
pub(crate) struct ProposedAuth {
    pub config: AuthConfig,
    /// Whether the user must create or renew the secret by hand. If so, any other supported scheme is preferred.
    is_fallback: bool,
    /// What the user must do to complete the authentication.
    pub hint: Option<String>,
}

/// Returns the authentication for the first required scheme that a provider supports. A scheme that needs manual work
/// is used only if there is no other supported scheme. `secret` is the name of the provider's secret.
pub(crate) fn propose_auth(document: &OpenApiDocument, secret: &str) -> ProposedAuth {
    let schemes = document.root.pointer("/components/securitySchemes").and_then(Value::as_object);
    let required = required_schemes(document);
    let schemes = required.into_iter().filter_map(|(name, scopes)| {
        let scheme = follow(&document.root, schemes?.get(name)?).ok()?;
        Some((name, scheme.as_object()?, scopes))
    });
    let mut unsupported: Vec<&str> = Vec::new();
    let mut fallback = None;
    for (name, scheme, scopes) in schemes {
        match from_scheme(name, scheme, scopes, secret) {
            Some(auth) if auth.is_fallback => fallback = fallback.or(Some(auth)),
            Some(auth) => return auth,
            None => unsupported.push(name),
        }
    }
    if let Some(auth) = fallback {
        return auth;
    }
    let hint = match unsupported.as_slice() {
        [] => "the document declares no authentication; if the API requires it, set the provider's `auth`".to_owned(),
        names => format!(
            "the provider has no `auth`: security scheme `{}` cannot be sent as a header; set the provider's `auth` by hand",
            names.join("`, `")
        ),
    };
    ProposedAuth { config: AuthConfig::default(), is_fallback: true, hint: Some(hint) }
}

/// Returns the required schemes with their scopes. If the document requires none, returns the schemes of the first
/// operation that requires one. If no operation requires one, returns all declared schemes.
fn required_schemes(document: &OpenApiDocument) -> Vec<(&str, Vec<String>)> {
    let root = &document.root;
    let global = security_requirements(root);
    if !global.is_empty() {
        return global;
    }
    let items = root.get("paths").and_then(Value::as_object).into_iter().flatten();
    let operations = items.flat_map(|(_, item)| item.as_object().into_iter().flatten());
    let local = operations.map(|(_, operation)| security_requirements(operation)).find(|found| !found.is_empty());
    local.unwrap_or_else(|| {
        let schemes = root.pointer("/components/securitySchemes").and_then(Value::as_object);
        schemes.into_iter().flatten().map(|(name, _)| (name.as_str(), Vec::new())).take(16).collect()
    })
}

/// The schemes in the `security` of the document or of an operation. If a requirement combines several schemes, only
/// the first one is returned.
fn security_requirements(holder: &Value) -> Vec<(&str, Vec<String>)> {
    let all = holder.get("security").and_then(Value::as_array).into_iter().flatten().take(16);
    let first = all.filter_map(|requirement| requirement.as_object()?.iter().next());
    let scopes = |value: &Value| {
        let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).take(64).collect()
    };
    first.map(|(name, value)| (name.as_str(), scopes(value))).collect()
}

/// Converts a security scheme. Returns `None` if a provider does not support the scheme.
fn from_scheme(name: &str, scheme: &Map<String, Value>, scopes: Vec<String>, secret: &str) -> Option<ProposedAuth> {
    let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let base = AuthConfig { secret_ref: Some(secret.to_owned()), ..AuthConfig::default() };
    let bearer = |is_fallback: bool, hint: String| ProposedAuth {
        config: AuthConfig { auth_type: AuthType::Bearer, ..base.clone() },
        is_fallback,
        hint: Some(hint),
    };
    let in_header = |header: &str, is_fallback: bool, hint: String| ProposedAuth {
        config: AuthConfig { auth_type: AuthType::ApiKey, header_name: Some(header.to_owned()), ..base.clone() },
        is_fallback,
        hint: Some(hint),
    };
    let mentions_bearer = || format!("{name} {}", text("description")).to_ascii_lowercase().contains("bearer");
    Some(match (text("type"), text("scheme").to_ascii_lowercase().as_str(), text("in")) {
        ("http", "bearer", _) => bearer(false, format!("store the token: toolwright secrets set {secret}")),
        ("http", "basic", _) => in_header(
            "Authorization",
            true,
            format!(
                "store `Basic ` followed by the base64 encoding of `user:password`: toolwright secrets set {secret}"
            ),
        ),
        ("apiKey", _, "header") if text("name").eq_ignore_ascii_case("authorization") && mentions_bearer() => {
            bearer(false, format!("store the token, without `Bearer`: toolwright secrets set {secret}"))
        }
        ("apiKey", _, "header") if text("name").eq_ignore_ascii_case("authorization") => in_header(
            "Authorization",
            true,
            format!("store the whole value of the header: toolwright secrets set {secret}"),
        ),
        ("apiKey", _, "header") => {
            in_header(text("name"), false, format!("store the key: toolwright secrets set {secret}"))
        }
        ("oauth2", ..) => client_credentials(scheme, scopes, base.clone(), secret).unwrap_or_else(|| {
            bearer(true, format!("`{name}` requires an interactive login; {}", manual_token_hint(secret)))
        }),
        ("openIdConnect", ..) => bearer(true, format!("for `{name}`, {}", manual_token_hint(secret))),
        ("mutualTLS", ..) => ProposedAuth {
            config: AuthConfig {
                auth_type: AuthType::Mtls,
                cert_ref: Some(secret.to_owned()),
                ..AuthConfig::default()
            },
            is_fallback: false,
            hint: Some(format!("store the certificate and the key as PEM: toolwright secrets set {secret}")),
        },
        _ => return None,
    })
}

fn manual_token_hint(secret: &str) -> String {
    format!("get a token and store it: toolwright secrets set {secret} (the token is not renewed)")
}

/// Converts the client credentials flow, which is the only OAuth flow without an interactive login.
fn client_credentials(
    scheme: &Map<String, Value>,
    scopes: Vec<String>,
    base: AuthConfig,
    secret: &str,
) -> Option<ProposedAuth> {
    let flow = scheme.get("flows")?.get("clientCredentials")?;
    let endpoint = flow.get("tokenUrl")?.as_str()?.to_owned();
    let config = AuthConfig {
        auth_type: AuthType::OAuth2,
        token_endpoint: Some(endpoint),
        // This value is a placeholder. A provider cannot be saved without a client id, and only the operator knows the
        // real id.
        client_id: Some(secret.to_owned()),
        scopes,
        ..base
    };
    let hint =
        format!("set the provider's `auth.clientId`, and store the client secret: toolwright secrets set {secret}");
    Some(ProposedAuth { config, is_fallback: false, hint: Some(hint) })
}
