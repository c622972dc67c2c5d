//! Security URIs: what is read is written back as the same permission.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolwright_authz::SecurityUri;

fuzz_target!(|path: &str| {
    // What begins otherwise is refused by its first five letters.
    let _ = path.parse::<SecurityUri>();
    let Ok(uri) = format!("ai://{path}").parse::<SecurityUri>() else { return };
    let written = uri.to_string();
    assert_eq!(written.parse::<SecurityUri>().expect("it reads back"), uri, "{written}");
    let _ = (uri.as_tool_execution(), uri.as_agent_execution());
});
