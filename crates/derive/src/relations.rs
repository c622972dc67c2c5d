//! `#[relation(…)]` on fields, read.

use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Field, Ident, LitStr, Type};

use crate::attributes::text;
use crate::case::Case;

/// A field that holds ids of other records.
pub struct Relation {
    pub name: String,
    pub target: String,
    /// As it is called in JSON.
    pub field: String,
    pub many: bool,
}

/// What one attribute says.
#[derive(Default)]
struct Said {
    name: Option<String>,
    target: Option<String>,
    many: bool,
}

/// The relations of a struct, or where they are wrong.
pub fn read(input: &DeriveInput) -> syn::Result<Vec<Relation>> {
    let Data::Struct(data) = &input.data else { return Ok(Vec::new()) };
    let case = Case::of(&input.attrs)?;
    let mut found: Vec<Relation> = Vec::new();
    for field in &data.fields {
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("relation")) {
            let relation = relation(field, attribute, case)?;
            if found.iter().any(|other| other.name == relation.name) {
                let message = format!("there are two relations `{}`; give one of them another `name`", relation.name);
                return Err(syn::Error::new(attribute.span(), message));
            }
            found.push(relation);
        }
    }
    Ok(found)
}

fn relation(field: &Field, attribute: &Attribute, case: Case) -> syn::Result<Relation> {
    let wrong = |message: &str| syn::Error::new(attribute.span(), message);
    let Some(ident) = &field.ident else { return Err(wrong("a relation is a field with a name")) };
    let mut said = Said::default();
    attribute.parse_nested_meta(|meta| said.take(&meta))?;
    let target = said.target.filter(|target| !target.is_empty());
    let target = target.ok_or_else(|| wrong("say which records it leads to: `#[relation(type = \"Customer\")]`"))?;
    match (is_list(&field.ty), said.many) {
        (Some(true), false) => return Err(wrong("the field is a list of ids; say `many`")),
        (Some(false), true) => return Err(wrong("`many` is for lists, and the field is a single id")),
        _ => {}
    }
    let rust = ident.to_string();
    let rust = rust.trim_start_matches("r#");
    let named = rust.strip_suffix("_id").map(str::to_owned);
    let named = named.or_else(|| rust.strip_suffix("_ids").map(|stem| format!("{stem}s")));
    let own = Case::rename(&field.attrs)?.unwrap_or_else(|| case.apply(rust));
    let name = said.name.or_else(|| named.map(|name| case.apply(&name)));
    let name = name.ok_or_else(|| wrong("the field does not end with `_id` or `_ids`; give the relation a `name`"))?;
    if name == own {
        return Err(wrong("the relation is called like its field; give it another `name`"));
    }
    Ok(Relation { name, target, field: own, many: said.many })
}

impl Said {
    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match key.as_str() {
            "type" => text(meta, &mut self.target),
            "name" => text(meta, &mut self.name),
            "many" if meta.input.peek(syn::Token![=]) => {
                let value: LitStr = meta.value()?.parse()?;
                Err(syn::Error::new(value.span(), "`many` stands alone"))
            }
            "many" if self.many => Err(meta.error("this was said twice")),
            "many" => {
                self.many = true;
                Ok(())
            }
            other => Err(meta.error(format!("there is no `{other}` here; there are type, name and many"))),
        }
    }
}

/// Whether the type is a list, as far as its name tells.
fn is_list(kind: &Type) -> Option<bool> {
    let Type::Path(path) = kind else { return None };
    let last = path.path.segments.last()?;
    match last.ident.to_string().as_str() {
        "Vec" | "HashSet" | "BTreeSet" | "VecDeque" | "IndexSet" => Some(true),
        "String" => Some(false),
        "Option" => match &last.arguments {
            syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
                syn::GenericArgument::Type(inner) => is_list(inner),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
