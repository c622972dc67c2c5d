//! Names of types and fields, made of names that others gave.

use std::collections::HashSet;

use toolwright_types::RefName;

/// Characters of a name of a type: tools are named after it.
const LONGEST: usize = 48;

/// Gives names, each once.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// That are taken from the beginning.
    pub fn taken(names: &[&str]) -> Self {
        Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// The name, or with a number after it if it is taken. Case does not make a difference.
    pub fn give(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut count = 1;
        while !self.0.insert(name.to_ascii_lowercase()) {
            count += 1;
            name = format!("{wanted}_{count}");
        }
        name
    }
}

/// `sales_orders` as the name of one: `SalesOrder`.
pub(super) fn of_type(plural: &str) -> String {
    let mut words = words(plural);
    if let Some(last) = words.last_mut() {
        *last = singular(last);
    }
    let mut name: String = words.iter().map(|word| capitalized(word)).collect();
    name.truncate(LONGEST);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "Table");
    }
    // Some names are routes.
    if name.parse::<RefName>().is_ok() { name } else { format!("{name}Record") }
}

/// A column as the name of a field: what the query language cannot write is `_`.
pub(super) fn of_field(column: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = column.chars().map(plain).collect();
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if begins && name.chars().any(|c| c.is_ascii_alphanumeric()) { name } else { format!("column{name}") }
}

/// What a field that refers to another record is called without saying that it does: `customer_id` is `customer`.
pub(super) fn of_relation(field: &str) -> String {
    let stem = ["_id", "Id", "_ID", "_uuid", "-id"].iter().find_map(|end| field.strip_suffix(end));
    match stem.filter(|stem| !stem.is_empty()) {
        Some(stem) => stem.to_owned(),
        None => format!("{field}_record"),
    }
}

/// Runs of ASCII letters and digits, also where a capital begins one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            let begins = !before.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && before.is_ascii_lowercase());
            match words.last_mut() {
                Some(word) if !begins => word.push(c),
                _ => words.push(c.to_string()),
            }
        }
        before = c;
    }
    words
}

fn capitalized(word: &str) -> String {
    let shouted = word.chars().all(|c| !c.is_ascii_lowercase());
    let word = if shouted { word.to_ascii_lowercase() } else { word.to_owned() };
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// One of several: English, by its endings.
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
    fn a_table_gives_its_type_a_name() {
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
            let found = of_type(table);
            assert_eq!(found, name, "{table}");
            assert!(found.parse::<RefName>().is_ok(), "{found}");
        }
        assert!(of_type(&"x".repeat(500)).len() <= LONGEST);
    }

    #[test]
    fn fields_and_relations_have_names_of_the_language() {
        for (column, field) in [
            ("total", "total"),
            ("größe", "gr__e"),
            ("a b", "a_b"),
            ("a.b", "a_b"),
            ("$x", "_x"),
            ("-", "column-"),
            ("日", "column_"),
        ] {
            assert_eq!(of_field(column), field);
            assert!(toolwright_query::Field::parse(field).is_ok());
        }
        for (field, relation) in [
            ("customer_id", "customer"),
            ("customerId", "customer"),
            ("parent", "parent_record"),
            ("_id", "_id_record"),
        ] {
            assert_eq!(of_relation(field), relation);
        }
        let mut names = Names::taken(&["id"]);
        assert_eq!(["a", "A", "id", "a"].map(|name| names.give(name)), ["a", "A_2", "id_2", "a_3"]);
    }
}
