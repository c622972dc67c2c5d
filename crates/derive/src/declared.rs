//! What a struct declares, and the code that says so.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Error, Expr, ExprLit, Ident, Lit, LitStr, Meta, Result, Token, parenthesized};

const OPERATIONS: [&str; 6] = ["search", "count", "get", "create", "update", "delete"];

#[derive(Default)]
struct Declared {
    singular: Option<LitStr>,
    plural: Option<LitStr>,
    category: Option<LitStr>,
    tags: Vec<LitStr>,
    exclude: Vec<String>,
    searchable: Vec<String>,
    relations: Vec<TokenStream>,
}

/// The implementation for a struct.
pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !matches!(input.data, Data::Struct(_)) {
        return Err(Error::new_spanned(&input.ident, "records are structs; derive EntityType for one"));
    }
    let ident = &input.ident;
    let name = ident.to_string();
    if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) || !name.is_ascii() {
        return Err(Error::new_spanned(ident, "the name of a type begins with a letter of ASCII, and has no others"));
    }
    let mut declared = Declared::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("tools")) {
        attribute.parse_nested_meta(|meta| declared.read(&meta))?;
    }
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let description = option(description(input).as_deref().map(|text| quote!(#text)));
    let Declared { singular, plural, category, tags, exclude, searchable, relations } = declared;
    let [singular, plural, category] = [singular, plural, category].map(|text| option(text.map(|text| quote!(#text))));
    Ok(quote! {
        impl #generics ::toolwright_tools::EntityType for #ident #arguments #bounds {
            fn entity_type() -> ::toolwright_tools::entity::TypeDefinition {
                ::toolwright_tools::entity::Declared {
                    name: #name,
                    description: #description,
                    singular: #singular,
                    plural: #plural,
                    category: #category,
                    tags: &[#(#tags),*],
                    exclude: &[#(#exclude),*],
                    searchable: &[#(#searchable),*],
                    relations: &[#(#relations),*],
                }
                .define::<Self>()
            }
        }
    })
}

impl Declared {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(name) = meta.path.get_ident().map(Ident::to_string) else {
            return Err(meta.error(UNKNOWN));
        };
        match name.as_str() {
            "singular" => self.singular = Some(meta.value()?.parse()?),
            "plural" => self.plural = Some(meta.value()?.parse()?),
            "category" => self.category = Some(meta.value()?.parse()?),
            "tags" => self.tags = texts(meta)?,
            "exclude" => {
                for (word, span) in words(meta)? {
                    if !OPERATIONS.contains(&word.as_str()) {
                        let known = OPERATIONS.join(", ");
                        return Err(Error::new(span, format!("`{word}` is no operation; there are {known}")));
                    }
                    self.exclude.push(word);
                }
            }
            "searchable" => self.searchable.extend(words(meta)?.into_iter().map(|(word, _)| word)),
            "relation" => self.relations.push(relation(meta)?),
            _ => return Err(meta.error(UNKNOWN)),
        }
        Ok(())
    }
}

const UNKNOWN: &str = "there are singular, plural, category, tags, exclude, searchable and relation";

/// `("a", "b")`.
fn texts(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>> {
    let inner;
    parenthesized!(inner in meta.input);
    Ok(Punctuated::<LitStr, Token![,]>::parse_terminated(&inner)?.into_iter().collect())
}

/// `(a, "b.c")`: names, in quotes where they are none of Rust's.
fn words(meta: &ParseNestedMeta<'_>) -> Result<Vec<(String, Span)>> {
    let inner;
    parenthesized!(inner in meta.input);
    let mut words = Vec::new();
    while !inner.is_empty() {
        words.push(if inner.peek(LitStr) {
            let text: LitStr = inner.parse()?;
            (text.value(), text.span())
        } else {
            let word: Ident = inner.parse()?;
            (word.to_string(), word.span())
        });
        if !inner.is_empty() {
            inner.parse::<Token![,]>()?;
        }
    }
    Ok(words)
}

/// `(name = "customer", type = "Customer", field = "customerId", many)`.
fn relation(meta: &ParseNestedMeta<'_>) -> Result<TokenStream> {
    let inner;
    parenthesized!(inner in meta.input);
    let (mut name, mut target, mut field, mut many) = (None, None, None, false);
    while !inner.is_empty() {
        if inner.peek(Token![type]) {
            inner.parse::<Token![type]>()?;
            inner.parse::<Token![=]>()?;
            target = Some(inner.parse::<LitStr>()?);
        } else {
            let word: Ident = inner.parse()?;
            let place = match word.to_string().as_str() {
                "many" => {
                    many = true;
                    None
                }
                "name" => Some(&mut name),
                "field" => Some(&mut field),
                _ => return Err(Error::new(word.span(), "a relation has name, type, field and perhaps many")),
            };
            if let Some(place) = place {
                inner.parse::<Token![=]>()?;
                *place = Some(inner.parse::<LitStr>()?);
            }
        }
        if !inner.is_empty() {
            inner.parse::<Token![,]>()?;
        }
    }
    let (Some(name), Some(target), Some(field)) = (name, target, field) else {
        return Err(meta.error("a relation has name, type and field"));
    };
    Ok(quote! {
        ::toolwright_tools::entity::DeclaredRelation { name: #name, target: #target, field: #field, many: #many }
    })
}

/// The doc comment, as one text.
fn description(input: &DeriveInput) -> Option<String> {
    let lines = input.attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    let text = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

fn option(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
