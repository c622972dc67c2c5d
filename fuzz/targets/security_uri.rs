//! Parses security URIs. A printed URI must parse to the same permission.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolwright_authz::SecurityUri;

fuzz_target!(|path: &str| {
    // Texts with another prefix are rejected early, so the target adds the prefix itself.
    let _ = path.parse::<SecurityUri>();
    let Ok(uri) = format!("ai://{path}").parse::<SecurityUri>() else { return };
    let written = uri.to_string();
    assert_eq!(written.parse::<SecurityUri>().expect("a printed URI must parse"), uri, "{written}");
    let _ = (uri.as_tool_execution(), uri.as_agent_execution());
});
