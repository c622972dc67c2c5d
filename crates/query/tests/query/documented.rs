//! Checks the examples and limits in `docs/queries.md`.

use toolwright_query::{MAX_CONDITIONS, MAX_ELEMENTS, MAX_LENGTH, MAX_NESTING, MAX_PATTERN, MAX_SEGMENTS, Query};

const PAGE: &str = include_str!("../../../../docs/queries.md");

fn section(title: &str) -> &'static str {
    let from = PAGE.split(&format!("\n## {title}\n")).nth(1).unwrap();
    from.split("\n## ").next().unwrap()
}

/// Returns the texts in backticks in the first cell of each table row.
fn first_cells(section: &'static str) -> impl Iterator<Item = &'static str> {
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

#[test]
fn conditions_in_the_documentation_parse() {
    let whole = first_cells(section("Conditions")).filter(|shown| !shown.starts_with(':'));
    let queries: Vec<String> = whole.map(|shown| shown.replace("{…}", "{a:b}")).collect();
    assert!(queries.len() > 20, "{queries:?}");
    for source in queries {
        let query = Query::parse(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(Query::parse(&query.to_string()).unwrap(), query);
    }
}

#[test]
fn values_in_the_documentation_parse() {
    let values: Vec<&str> = first_cells(section("Values")).collect();
    assert_eq!(values.len(), 12, "{values:?}");
    for value in values {
        Query::parse(&format!("field:{value}")).unwrap_or_else(|error| panic!("{value}: {error}"));
    }
}

#[test]
fn documented_query_parses_and_documented_error_equals_the_actual_error() {
    let fenced: Vec<&str> = PAGE.split("```").skip(1).step_by(2).map(str::trim).collect();
    Query::parse(fenced[0]).unwrap();
    assert_eq!(Query::parse("status:[a]").unwrap_err().to_string(), fenced[1]);
}

#[test]
fn limits_in_the_documentation_match_the_constants() {
    let limits = section("Limits");
    let shown = [
        format!("{} KiB", MAX_LENGTH / 1024),
        format!("{MAX_CONDITIONS};"),
        format!("{MAX_NESTING}, of which {MAX_ELEMENTS} elements"),
        format!("| {MAX_SEGMENTS} |"),
        format!("| {MAX_PATTERN} |"),
    ];
    for limit in shown {
        assert!(limits.contains(&limit), "{limit}");
    }
}
