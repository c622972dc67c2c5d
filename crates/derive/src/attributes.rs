//! Parses the `#[tools(…)]` attribute of a struct.

use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Ident, LitStr, Token, parenthesized};

const OPERATIONS: [&str; 6] = ["search", "count", "get", "create", "update", "delete"];

/// The contents of all `#[tools(…)]` attributes of a struct.
#[derive(Default)]
pub(crate) struct ToolsAttribute {
    pub name: Option<String>,
    pub singular: Option<String>,
    pub plural: Option<String>,
    pub category: Option<String>,
    pub tags: Vec<String>,
    pub searchable: Vec<String>,
    pub exclude: Vec<String>,
}

impl ToolsAttribute {
    /// Parses the attributes. An error points to the invalid token.
    pub(crate) fn parse(input: &DeriveInput) -> syn::Result<Self> {
        if !matches!(input.data, Data::Struct(_)) {
            return Err(syn::Error::new(input.ident.span(), "`EntityType` can be derived only for structs"));
        }
        let mut attributes = Self::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("tools")) {
            attribute.parse_nested_meta(|meta| attributes.parse_entry(&meta))?;
        }
        Ok(attributes)
    }

    fn parse_entry(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match key.as_str() {
            "name" => parse_text(meta, &mut self.name),
            "singular" => parse_text(meta, &mut self.singular),
            "plural" => parse_text(meta, &mut self.plural),
            "category" => parse_text(meta, &mut self.category),
            "tags" => {
                let content;
                parenthesized!(content in meta.input);
                let tags = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?;
                self.tags.extend(tags.iter().map(LitStr::value));
                Ok(())
            }
            "searchable" => {
                self.searchable.extend(parse_idents(meta)?.iter().map(Ident::to_string));
                Ok(())
            }
            "exclude" => {
                for ident in parse_idents(meta)? {
                    let operation = ident.to_string();
                    if !OPERATIONS.contains(&operation.as_str()) {
                        let known = OPERATIONS.join(", ");
                        return Err(syn::Error::new(
                            ident.span(),
                            format!("unknown operation `{operation}`; expected one of {known}"),
                        ));
                    }
                    self.exclude.push(operation);
                }
                Ok(())
            }
            other => {
                let known = "name, singular, plural, category, tags, searchable, exclude";
                Err(meta.error(format!("unknown key `{other}`; expected one of {known}")))
            }
        }
    }
}

/// Parses `key = "text"` and stores the text in `target`. Fails if `target` already has a value.
pub(crate) fn parse_text(meta: &ParseNestedMeta<'_>, target: &mut Option<String>) -> syn::Result<()> {
    let value: LitStr = meta.value()?.parse()?;
    match target.replace(value.value()) {
        None => Ok(()),
        Some(_) => Err(meta.error("duplicate key")),
    }
}

/// Parses `key(a, b, …)`.
fn parse_idents(meta: &ParseNestedMeta<'_>) -> syn::Result<Punctuated<Ident, Token![,]>> {
    let content;
    parenthesized!(content in meta.input);
    Punctuated::parse_terminated(&content)
}
