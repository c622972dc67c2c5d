//! The authentication of the provider.

use serde_json::json;
use toolwright_types::AuthType;

use crate::propose;

#[test]
fn security_scheme_sets_the_provider_authentication_and_its_hint() {
    for (scheme, expected, header, hint) in [
        (json!({ "type": "http", "scheme": "bearer" }), AuthType::Bearer, None, "secrets set shop"),
        (json!({ "type": "http", "scheme": "Basic" }), AuthType::ApiKey, Some("Authorization"), "base64"),
        (
            json!({ "type": "apiKey", "in": "header", "name": "X-Key" }),
            AuthType::ApiKey,
            Some("X-Key"),
            "store the key",
        ),
        (
            json!({ "type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer token" }),
            AuthType::Bearer,
            None,
            "without `Bearer`",
        ),
        (json!({ "type": "apiKey", "in": "query", "name": "key" }), AuthType::None, None, "cannot be sent as a header"),
        (
            json!({ "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": "https://t.example.com" } } }),
            AuthType::OAuth2,
            None,
            "clientId",
        ),
        (json!({ "type": "oauth2", "flows": { "implicit": {} } }), AuthType::Bearer, None, "interactive login"),
        (json!({ "type": "openIdConnect" }), AuthType::Bearer, None, "not renewed"),
        (json!({ "type": "mutualTLS" }), AuthType::Mtls, None, "PEM"),
        (json!({ "type": 7 }), AuthType::None, None, "cannot be sent"),
    ] {
        let document = json!({ "openapi": "3.0.0", "paths": {}, "security": [{ "main": [] }], "components": { "securitySchemes": { "main": scheme } } });
        let proposal = propose(document).unwrap();
        assert_eq!(proposal.provider.auth.auth_type, expected, "{scheme}");
        assert_eq!(proposal.provider.auth.header_name.as_deref(), header, "{scheme}");
        assert!(proposal.auth_hint.as_ref().unwrap().contains(hint), "{scheme}: {:?}", proposal.auth_hint);
    }
    let schemes = json!({ "a": { "type": "http", "scheme": "basic" }, "b": { "type": "http", "scheme": "bearer" } });
    let either = json!({ "openapi": "3.0.0", "paths": {}, "security": [{ "a": [] }, { "b": [] }], "components": { "securitySchemes": schemes } });
    assert_eq!(propose(either).unwrap().provider.auth.auth_type, AuthType::Bearer);
    let open = propose(json!({ "openapi": "3.0.0", "paths": {} })).unwrap();
    assert!(open.auth_hint.unwrap().contains("declares no authentication"));
}
