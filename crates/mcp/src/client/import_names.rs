//! Gives the tools of an MCP server their names in a realm.

use std::collections::HashMap;

use toolwright_types::RefName;

use super::SkippedMcpTool;
use super::import::RemoteTool;

/// Gives each tool of a server its name in the realm. Also returns the tools that get no name, with the reason.
pub(super) fn assign_names(
    prefix: &str,
    described: Vec<RemoteTool>,
) -> (Vec<(RefName, RemoteTool)>, Vec<SkippedMcpTool>) {
    let with_names = described.into_iter().map(|tool| (local_name(prefix, &tool.name), tool));
    // Tools whose name does not change come first, so that no other tool can take their name.
    let (kept, changed): (Vec<_>, Vec<_>) =
        with_names.partition(|(name, tool)| name.strip_prefix(prefix) == Some(tool.name.as_str()));
    let (mut named, mut skipped) = (Vec::new(), Vec::new());
    // The names of tools on the server, by the keys of their names in the realm. Names that differ only in case have
    // the same key.
    let mut assigned: HashMap<String, String> = HashMap::new();
    for (ref_name, tool) in kept.into_iter().chain(changed) {
        let upstream = &tool.name;
        let reason = match ref_name.parse::<RefName>() {
            Err(error) => format!("tool `{upstream}` of the server cannot get a name: {error}"),
            Ok(name) => match assigned.get(&name.key()) {
                Some(other) => format!(
                    "tools `{other}` and `{upstream}` of the server would have the same name; import again with another prefix"
                ),
                None => {
                    assigned.insert(name.key(), upstream.clone());
                    named.push((name, tool));
                    continue;
                }
            },
        };
        skipped.push(SkippedMcpTool { ref_name, reason });
    }
    (named, skipped)
}

/// Converts the server's name of a tool to a `refName` with this prefix. Illegal characters become `_`, and so does a
/// second `/`. Characters that are not letters or digits are removed at the start of the name and after the `/`.
fn local_name(prefix: &str, name: &str) -> String {
    let mut local = prefix.to_owned();
    for c in name.chars() {
        let is_part_start = local.is_empty() || local.ends_with('/');
        match c {
            c if c.is_ascii_alphanumeric() => local.push(c),
            _ if is_part_start => {}
            '_' | '.' | '-' => local.push(c),
            '/' if !local.contains('/') => local.push('/'),
            _ => local.push('_'),
        }
    }
    if local.len() > prefix.len() && local.ends_with('/') {
        local.pop();
        local.push('_');
    }
    local
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn characters_that_a_ref_name_does_not_permit_are_replaced_in_imported_names() {
        for (prefix, name, expected) in [
            ("", "get-sum", "get-sum"),
            ("", "files/read.all", "files/read.all"),
            ("", "files/read/all", "files/read_all"),
            ("x_", "files/read", "x_files/read"),
            ("x/", "files/read.all", "x/files_read.all"),
            ("", "_hidden", "hidden"),
            ("x_", "_hidden", "x__hidden"),
            ("", "/files", "files"),
            ("", "files/", "files_"),
            ("", "files//read", "files/read"),
            ("", "files/.read", "files/read"),
            ("", "größe", "gr__e"),
        ] {
            let local = local_name(prefix, name);
            assert_eq!(local, expected, "{prefix} {name}");
            assert!(local.parse::<RefName>().is_ok(), "{local}");
        }
        for (prefix, name) in [("", "ß"), ("", "import"), ("x/", "_")] {
            assert!(local_name(prefix, name).parse::<RefName>().is_err(), "{prefix} {name}");
        }
    }

    #[test]
    fn tool_whose_converted_name_equals_another_name_is_skipped() {
        let tool = |name: &str| serde_json::from_value(json!({ "name": name, "fingerprint": "f" })).unwrap();
        let described = ["a/b", "a_b", "A_B", "ß"].map(tool).into();
        let (named, skipped) = assign_names("x/", described);
        let named: Vec<_> = named.iter().map(|(name, tool)| (name.as_str(), tool.name.as_str())).collect();
        assert_eq!(named, [("x/a_b", "a_b")]);
        let skipped: Vec<_> = skipped.iter().map(|one| (one.ref_name.as_str(), one.reason.as_str())).collect();
        assert_eq!(skipped.len(), 3);
        for ((ref_name, reason), (expected, part)) in
            skipped.iter().zip([("x/A_B", "`a_b` and `A_B`"), ("x/a_b", "`a_b` and `a/b`"), ("x/", "`ß`")])
        {
            assert_eq!(*ref_name, expected);
            assert!(reason.contains(part), "{reason}");
        }
    }
}
