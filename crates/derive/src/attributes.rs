//! `#[tools(…)]`, read.

use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Ident, LitStr, Token, parenthesized};

const OPERATIONS: [&str; 6] = ["search", "count", "get", "create", "update", "delete"];

/// What a struct says about its tools.
#[derive(Default)]
pub struct Attributes {
    pub name: Option<String>,
    pub singular: Option<String>,
    pub plural: Option<String>,
    pub category: Option<String>,
    pub tags: Vec<String>,
    pub searchable: Vec<String>,
    pub exclude: Vec<String>,
}

impl Attributes {
    /// Reads them, or says where they are wrong.
    pub fn read(input: &DeriveInput) -> syn::Result<Self> {
        if !matches!(input.data, Data::Struct(_)) {
            return Err(syn::Error::new(input.ident.span(), "a record is an object, so a type of records is a struct"));
        }
        let mut found = Self::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("tools")) {
            attribute.parse_nested_meta(|meta| found.take(&meta))?;
        }
        Ok(found)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match key.as_str() {
            "name" => text(meta, &mut self.name),
            "singular" => text(meta, &mut self.singular),
            "plural" => text(meta, &mut self.plural),
            "category" => text(meta, &mut self.category),
            "tags" => {
                let content;
                parenthesized!(content in meta.input);
                let tags = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?;
                self.tags.extend(tags.iter().map(LitStr::value));
                Ok(())
            }
            "searchable" => {
                self.searchable.extend(words(meta)?.iter().map(Ident::to_string));
                Ok(())
            }
            "exclude" => {
                for word in words(meta)? {
                    let operation = word.to_string();
                    if !OPERATIONS.contains(&operation.as_str()) {
                        let known = OPERATIONS.join(", ");
                        return Err(syn::Error::new(
                            word.span(),
                            format!("`{operation}` is no operation; there are {known}"),
                        ));
                    }
                    self.exclude.push(operation);
                }
                Ok(())
            }
            other => {
                let known = "name, singular, plural, category, tags, searchable and exclude";
                Err(meta.error(format!("there is no `{other}` here; there are {known}")))
            }
        }
    }
}

pub fn text(meta: &ParseNestedMeta<'_>, target: &mut Option<String>) -> syn::Result<()> {
    let value: LitStr = meta.value()?.parse()?;
    match target.replace(value.value()) {
        None => Ok(()),
        Some(_) => Err(meta.error("this was said twice")),
    }
}

fn words(meta: &ParseNestedMeta<'_>) -> syn::Result<Punctuated<Ident, Token![,]>> {
    let content;
    parenthesized!(content in meta.input);
    Punctuated::parse_terminated(&content)
}
