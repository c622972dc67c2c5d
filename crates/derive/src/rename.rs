//! The JSON names of fields, from the `rename` and `rename_all` attributes of `serde` and `schemars`.

use syn::parse::ParseStream;
use syn::{Attribute, LitStr, Token};

/// A `rename_all` rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenameRule {
    /// No rule: the JSON name equals the Rust name.
    Same,
    Lower,
    Upper,
    Pascal,
    Camel,
    Screaming,
    Kebab,
    ScreamingKebab,
}

impl RenameRule {
    /// Reads the `rename_all` rule of a struct. An attribute of `schemars` takes precedence over an attribute of
    /// `serde`.
    pub(crate) fn of_struct(attributes: &[Attribute]) -> syn::Result<Self> {
        let Some(rule) = attribute_value(attributes, "rename_all")? else { return Ok(RenameRule::Same) };
        Ok(match rule.as_str() {
            "lowercase" => RenameRule::Lower,
            "UPPERCASE" => RenameRule::Upper,
            "PascalCase" => RenameRule::Pascal,
            "camelCase" => RenameRule::Camel,
            "SCREAMING_SNAKE_CASE" => RenameRule::Screaming,
            "kebab-case" => RenameRule::Kebab,
            "SCREAMING-KEBAB-CASE" => RenameRule::ScreamingKebab,
            // `snake_case` does not change a name. Unknown rules need no error here, because `serde` or `schemars`
            // reports them.
            _ => RenameRule::Same,
        })
    }

    /// Reads the `rename` of a field.
    pub(crate) fn field_rename(attributes: &[Attribute]) -> syn::Result<Option<String>> {
        attribute_value(attributes, "rename")
    }

    /// Converts a snake_case name according to the rule.
    pub(crate) fn apply(self, name: &str) -> String {
        match self {
            RenameRule::Same | RenameRule::Lower => name.to_owned(),
            RenameRule::Upper | RenameRule::Screaming => name.to_ascii_uppercase(),
            RenameRule::Kebab => name.replace('_', "-"),
            RenameRule::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
            RenameRule::Pascal => name.split('_').map(capitalize).collect(),
            RenameRule::Camel => {
                let mut words = name.split('_').filter(|word| !word.is_empty());
                words.next().unwrap_or_default().to_owned() + &words.map(capitalize).collect::<String>()
            }
        }
    }
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the value of `key` in `#[schemars(…)]`, or else in `#[serde(…)]`. The form `key(serialize = "…")` is
/// ignored.
fn attribute_value(attributes: &[Attribute], key: &str) -> syn::Result<Option<String>> {
    for owner in ["schemars", "serde"] {
        let mut found = None;
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(owner)) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident(key) && meta.input.peek(Token![=]) {
                    found = Some(meta.value()?.parse::<LitStr>()?.value());
                    return Ok(());
                }
                skip_value(meta.input)
            })?;
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Skips the value of another key, up to the next comma.
fn skip_value(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rename_rules_give_the_same_names_as_serde() {
        for (rule, expected) in [
            (RenameRule::Same, "sales_rep_id"),
            (RenameRule::Lower, "sales_rep_id"),
            (RenameRule::Upper, "SALES_REP_ID"),
            (RenameRule::Pascal, "SalesRepId"),
            (RenameRule::Camel, "salesRepId"),
            (RenameRule::Screaming, "SALES_REP_ID"),
            (RenameRule::Kebab, "sales-rep-id"),
            (RenameRule::ScreamingKebab, "SALES-REP-ID"),
        ] {
            assert_eq!(rule.apply("sales_rep_id"), expected);
        }
    }
}
