//! The overview that `toolwright` prints without a command.

/// The commands in groups. A test checks that every command is in a group.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Server", &["serve", "backup", "restore", "doctor", "server", "version"]),
    (
        "Definitions",
        &[
            "apply",
            "diff",
            "tools",
            "agentic-tools",
            "providers",
            "agents",
            "prompt-fragments",
            "types",
            "workflows",
            "step-registrations",
            "condition-bindings",
            "triggers",
            "webhooks",
            "gram",
        ],
    ),
    ("Runs", &["runs", "workflow-instances", "approvals", "effects", "events", "conversations", "trials", "blobs"]),
    ("Data and drift", &["records", "drift"]),
    ("Administration", &["secrets", "keys", "realms", "principals", "models", "mcp", "completions"]),
];

/// Returns the overview of the commands.
pub(crate) fn text(command: &clap::Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut lines = vec![about, String::new(), "Usage: toolwright [OPTIONS] COMMAND".to_owned()];
    for (title, names) in GROUPS {
        lines.extend([String::new(), format!("{title}:")]);
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            lines.push(format!("  {name:<18}  {}", about.map(ToString::to_string).unwrap_or_default()));
        }
    }
    lines.extend([String::new(), "`toolwright help COMMAND` shows the options of a command.".to_owned()]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overview_contains_every_command_once_and_fits_80_columns() {
        let command = crate::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut all: Vec<&str> =
            command.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help").collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
        for line in text(&command).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
