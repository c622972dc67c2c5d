//! Derives the names of types, fields and relations from the names of tables, schemas and columns.

use std::collections::HashSet;

use toolwright_types::RefName;

/// The maximum number of characters of a type name. It is low, because the names of the tools of a type contain the
/// type name.
const MAX_TYPE_NAME_CHARS: usize = 48;

/// Assigns unique names.
#[derive(Debug, Default)]
pub(super) struct UniqueNames(HashSet<String>);

impl UniqueNames {
    /// Creates a set of names in which these names are already taken.
    pub(super) fn reserving(names: &[&str]) -> Self {
        Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Returns `preferred`. If that name is taken, appends a number. Names that differ only in case count as equal.
    pub(super) fn assign(&mut self, preferred: &str) -> String {
        let mut name = preferred.to_owned();
        let mut count = 1;
        while !self.0.insert(name.to_ascii_lowercase()) {
            count += 1;
            name = format!("{preferred}_{count}");
        }
        name
    }
}

/// Converts a plural name such as `sales_orders` to the name of a type, such as `SalesOrder`.
pub(super) fn type_name(plural: &str) -> String {
    let mut words = words(plural);
    if let Some(last) = words.last_mut() {
        *last = singular(last);
    }
    let mut name: String = words.iter().map(|word| capitalized(word)).collect();
    name.truncate(MAX_TYPE_NAME_CHARS);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "Table");
    }
    // Some words cannot be type names, because API routes use them. These words get a suffix.
    if name.parse::<RefName>().is_ok() { name } else { format!("{name}Record") }
}

/// Converts the name of a column to the name of a field. Characters that the query language does not allow become `_`.
pub(super) fn field_name(column: &str) -> String {
    let replace = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = column.chars().map(replace).collect();
    let has_valid_start = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if has_valid_start && name.chars().any(|c| c.is_ascii_alphanumeric()) { name } else { format!("column{name}") }
}

/// Derives the name of a relation from its field: `customer` from `customer_id`.
pub(super) fn relation_name(field: &str) -> String {
    let stem = ["_id", "Id", "_ID", "_uuid", "-id"].iter().find_map(|end| field.strip_suffix(end));
    match stem.filter(|stem| !stem.is_empty()) {
        Some(stem) => stem.to_owned(),
        None => format!("{field}_record"),
    }
}

/// Splits a text into words of ASCII letters and digits. A capital letter after a small letter starts a new word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            let starts_word =
                !before.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && before.is_ascii_lowercase());
            match words.last_mut() {
                Some(word) if !starts_word => word.push(c),
                _ => words.push(c.to_string()),
            }
        }
        before = c;
    }
    words
}

fn capitalized(word: &str) -> String {
    let is_uppercase = word.chars().all(|c| !c.is_ascii_lowercase());
    let word = if is_uppercase { word.to_ascii_lowercase() } else { word.to_owned() };
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Returns the singular of an English noun. Only the ending of the noun is considered.
fn singular(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| lower.ends_with(ending));
    let cut = |count: usize| word.get(..word.len() - count).unwrap_or(word).to_owned();
    if lower.len() > 4 && lower.ends_with("ies") {
        format!("{}y", cut(3))
    } else if ends(&["sses", "shes", "ches", "xes", "zes"]) {
        cut(2)
    } else if lower.len() > 3 && lower.ends_with('s') && !ends(&["ss", "us", "is"]) {
        cut(1)
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_are_singular_and_valid_ref_names() {
        for (table, name) in [
            ("orders", "Order"),
            ("sales_orders", "SalesOrder"),
            ("SalesOrders", "SalesOrder"),
            ("ORDER ITEMS", "OrderItem"),
            ("categories", "Category"),
            ("addresses", "Address"),
            ("boxes", "Box"),
            ("status", "Status"),
            ("analysis", "Analysis"),
            ("news_2024s", "News2024"),
            ("gas", "Gas"),
            ("2024_orders", "Table2024Order"),
            ("größen", "GrEn"),
            ("日本", "Table"),
            ("o'\"; DROP TABLE x", "ODropTableX"),
            ("query", "QueryRecord"),
            ("count", "CountRecord"),
        ] {
            let found = type_name(table);
            assert_eq!(found, name, "{table}");
            assert!(found.parse::<RefName>().is_ok(), "{found}");
        }
        assert!(type_name(&"x".repeat(500)).len() <= MAX_TYPE_NAME_CHARS);
    }

    #[test]
    fn invalid_characters_in_field_names_are_replaced_and_relation_names_lose_the_id_suffix() {
        for (column, field) in [
            ("total", "total"),
            ("größe", "gr__e"),
            ("a b", "a_b"),
            ("a.b", "a_b"),
            ("$x", "_x"),
            ("-", "column-"),
            ("日", "column_"),
        ] {
            assert_eq!(field_name(column), field);
            assert!(toolwright_query::Field::parse(field).is_ok());
        }
        for (field, relation) in [
            ("customer_id", "customer"),
            ("customerId", "customer"),
            ("parent", "parent_record"),
            ("_id", "_id_record"),
        ] {
            assert_eq!(relation_name(field), relation);
        }
        let mut names = UniqueNames::reserving(&["id"]);
        assert_eq!(["a", "A", "id", "a"].map(|name| names.assign(name)), ["a", "A_2", "id_2", "a_3"]);
    }
}
