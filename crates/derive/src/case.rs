//! What fields are called in JSON, as `serde` and `schemars` are told.

use syn::parse::ParseStream;
use syn::{Attribute, LitStr, Token};

/// How names of fields are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// As in Rust.
    Same,
    Lower,
    Upper,
    Pascal,
    Camel,
    Screaming,
    Kebab,
    ScreamingKebab,
}

impl Case {
    /// The `rename_all` of a struct. What `schemars` is told comes before what `serde` is told.
    pub fn of(attributes: &[Attribute]) -> syn::Result<Self> {
        let Some(rule) = said(attributes, "rename_all")? else { return Ok(Case::Same) };
        Ok(match rule.as_str() {
            "lowercase" => Case::Lower,
            "UPPERCASE" => Case::Upper,
            "PascalCase" => Case::Pascal,
            "camelCase" => Case::Camel,
            "SCREAMING_SNAKE_CASE" => Case::Screaming,
            "kebab-case" => Case::Kebab,
            "SCREAMING-KEBAB-CASE" => Case::ScreamingKebab,
            // What is no rule is told by whoever it was said to.
            _ => Case::Same,
        })
    }

    /// The `rename` of a field.
    pub fn rename(attributes: &[Attribute]) -> syn::Result<Option<String>> {
        said(attributes, "rename")
    }

    /// A name in snake_case, written so.
    pub fn apply(self, name: &str) -> String {
        match self {
            Case::Same | Case::Lower => name.to_owned(),
            Case::Upper | Case::Screaming => name.to_ascii_uppercase(),
            Case::Kebab => name.replace('_', "-"),
            Case::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
            Case::Pascal => name.split('_').map(capital).collect(),
            Case::Camel => {
                let mut words = name.split('_').filter(|word| !word.is_empty());
                words.next().unwrap_or_default().to_owned() + &words.map(capital).collect::<String>()
            }
        }
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// What `schemars` is told under a key, or else `serde`. Of `rename(serialize = "…")` nothing is taken.
fn said(attributes: &[Attribute], key: &str) -> syn::Result<Option<String>> {
    for owner in ["schemars", "serde"] {
        let mut found = None;
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(owner)) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident(key) && meta.input.peek(Token![=]) {
                    found = Some(meta.value()?.parse::<LitStr>()?.value());
                    return Ok(());
                }
                skip(meta.input)
            })?;
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Passes over what is not ours, up to the next comma.
fn skip(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_serde_writes_them() {
        for (case, expected) in [
            (Case::Same, "sales_rep_id"),
            (Case::Lower, "sales_rep_id"),
            (Case::Upper, "SALES_REP_ID"),
            (Case::Pascal, "SalesRepId"),
            (Case::Camel, "salesRepId"),
            (Case::Screaming, "SALES_REP_ID"),
            (Case::Kebab, "sales-rep-id"),
            (Case::ScreamingKebab, "SALES-REP-ID"),
        ] {
            assert_eq!(case.apply("sales_rep_id"), expected);
        }
    }
}
