//! How an API wants to be asked: the schemes of its document as the authentication of a provider.

use serde_json::{Map, Value};
use toolwright_types::{AuthConfig, AuthType};

use crate::document::Document;
use crate::reference::follow;

/// What was found.
pub(crate) struct Auth {
    pub config: AuthConfig,
    /// Whether it is one to live with only where there is no better one: half of the secret is left to whoever stores it.
    makeshift: bool,
    /// What whoever imports has to do or to know.
    pub todo: Option<String>,
}

/// The first scheme that the document asks for and a provider can speak. `secret` is what the secret is called.
pub(crate) fn of(document: &Document, secret: &str) -> Auth {
    let schemes = document.root.pointer("/components/securitySchemes").and_then(Value::as_object);
    let wanted = wanted(document);
    let schemes = wanted.into_iter().filter_map(|(name, scopes)| {
        let scheme = follow(&document.root, schemes?.get(name)?).ok()?;
        Some((name, scheme.as_object()?, scopes))
    });
    let mut rejected: Vec<&str> = Vec::new();
    let mut makeshift = None;
    for (name, scheme, scopes) in schemes {
        match translate(name, scheme, scopes, secret) {
            Some(auth) if auth.makeshift => makeshift = makeshift.or(Some(auth)),
            Some(auth) => return auth,
            None => rejected.push(name),
        }
    }
    if let Some(auth) = makeshift {
        return auth;
    }
    let todo = match rejected.as_slice() {
        [] => "the document asks for no authentication; if the API does, set the provider's `auth`".to_owned(),
        names => format!(
            "the provider has no `auth`: `{}` cannot be sent as a header; see the provider's fields for what can",
            names.join("`, `")
        ),
    };
    Auth { config: AuthConfig::default(), makeshift: true, todo: Some(todo) }
}

/// The schemes that are asked for, in order: by the whole document, else by its operations, else those that exist.
fn wanted(document: &Document) -> Vec<(&str, Vec<String>)> {
    let root = &document.root;
    let of_document = requirements(root);
    if !of_document.is_empty() {
        return of_document;
    }
    let items = root.get("paths").and_then(Value::as_object).into_iter().flatten();
    let operations = items.flat_map(|(_, item)| item.as_object().into_iter().flatten());
    let of_first = operations.map(|(_, operation)| requirements(operation)).find(|found| !found.is_empty());
    of_first.unwrap_or_else(|| {
        let schemes = root.pointer("/components/securitySchemes").and_then(Value::as_object);
        schemes.into_iter().flatten().map(|(name, _)| (name.as_str(), Vec::new())).take(16).collect()
    })
}

/// The schemes of a holder's `security`. One that needs several at once is taken for its first.
fn requirements(holder: &Value) -> Vec<(&str, Vec<String>)> {
    let all = holder.get("security").and_then(Value::as_array).into_iter().flatten().take(16);
    let first = all.filter_map(|one| one.as_object()?.iter().next());
    let scopes = |value: &Value| {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).take(64).collect()
    };
    first.map(|(name, value)| (name.as_str(), scopes(value))).collect()
}

fn translate(name: &str, scheme: &Map<String, Value>, scopes: Vec<String>, secret: &str) -> Option<Auth> {
    let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let plain = AuthConfig { secret_ref: Some(secret.to_owned()), ..AuthConfig::default() };
    let bearer = |makeshift: bool, todo: String| Auth {
        config: AuthConfig { auth_type: AuthType::Bearer, ..plain.clone() },
        makeshift,
        todo: Some(todo),
    };
    let in_header = |header: &str, makeshift: bool, todo: String| Auth {
        config: AuthConfig { auth_type: AuthType::ApiKey, header_name: Some(header.to_owned()), ..plain.clone() },
        makeshift,
        todo: Some(todo),
    };
    let speaks_bearer = || format!("{name} {}", text("description")).to_ascii_lowercase().contains("bearer");
    Some(match (text("type"), text("scheme").to_ascii_lowercase().as_str(), text("in")) {
        ("http", "bearer", _) => bearer(false, format!("store the token: toolwright secrets set {secret}")),
        ("http", "basic", _) => in_header(
            "Authorization",
            true,
            format!("store `Basic ` and the base64 of `user:password`: toolwright secrets set {secret}"),
        ),
        ("apiKey", _, "header") if text("name").eq_ignore_ascii_case("authorization") && speaks_bearer() => {
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
        ("oauth2", ..) => oauth2(scheme, scopes, plain.clone(), secret)
            .unwrap_or_else(|| bearer(true, format!("`{name}` needs a person to log in; {}", by_hand(secret)))),
        ("openIdConnect", ..) => bearer(true, format!("for `{name}`, {}", by_hand(secret))),
        ("mutualTLS", ..) => Auth {
            config: AuthConfig {
                auth_type: AuthType::Mtls,
                cert_ref: Some(secret.to_owned()),
                ..AuthConfig::default()
            },
            makeshift: false,
            todo: Some(format!("store certificate and key as PEM: toolwright secrets set {secret}")),
        },
        _ => return None,
    })
}

fn by_hand(secret: &str) -> String {
    format!("get a token and store it: toolwright secrets set {secret} (it is not renewed)")
}

/// Client credentials, the one flow without a person.
fn oauth2(scheme: &Map<String, Value>, scopes: Vec<String>, plain: AuthConfig, secret: &str) -> Option<Auth> {
    let flow = scheme.get("flows")?.get("clientCredentials")?;
    let endpoint = flow.get("tokenUrl")?.as_str()?.to_owned();
    let config = AuthConfig {
        auth_type: AuthType::OAuth2,
        token_endpoint: Some(endpoint),
        // Nobody but the operator knows it; a provider cannot be saved without one.
        client_id: Some(secret.to_owned()),
        scopes,
        ..plain
    };
    let todo =
        format!("set the provider's `auth.clientId`, and store the client's secret: toolwright secrets set {secret}");
    Some(Auth { config, makeshift: false, todo: Some(todo) })
}
