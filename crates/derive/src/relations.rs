//! Parses the `#[relation(…)]` attributes of fields.

use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Field, Ident, LitStr, Type};

use crate::attributes::parse_text;
use crate::rename::RenameRule;

/// A field that contains ids of related records.
pub(crate) struct RelationField {
    pub name: String,
    pub target: String,
    /// The JSON name of the field.
    pub field: String,
    pub many: bool,
}

/// The contents of one `#[relation(…)]` attribute.
#[derive(Default)]
struct RelationAttribute {
    name: Option<String>,
    target: Option<String>,
    many: bool,
}

/// Parses the relations of a struct. An error points to the invalid attribute.
pub(crate) fn parse(input: &DeriveInput) -> syn::Result<Vec<RelationField>> {
    let Data::Struct(data) = &input.data else { return Ok(Vec::new()) };
    let rule = RenameRule::of_struct(&input.attrs)?;
    let mut relations: Vec<RelationField> = Vec::new();
    for field in &data.fields {
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("relation")) {
            let relation = parse_relation(field, attribute, rule)?;
            if relations.iter().any(|other| other.name == relation.name) {
                let message = format!("duplicate relation `{}`; set a different `name`", relation.name);
                return Err(syn::Error::new(attribute.span(), message));
            }
            relations.push(relation);
        }
    }
    Ok(relations)
}

fn parse_relation(field: &Field, attribute: &Attribute, rule: RenameRule) -> syn::Result<RelationField> {
    let error = |message: &str| syn::Error::new(attribute.span(), message);
    let Some(ident) = &field.ident else { return Err(error("a relation must be a named field")) };
    let mut parsed = RelationAttribute::default();
    attribute.parse_nested_meta(|meta| parsed.parse_entry(&meta))?;
    let target = parsed.target.filter(|target| !target.is_empty());
    let target = target.ok_or_else(|| error("`type` is required: `#[relation(type = \"Customer\")]`"))?;
    match (is_list(&field.ty), parsed.many) {
        (Some(true), false) => return Err(error("the field is a list of ids; add `many`")),
        (Some(false), true) => return Err(error("`many` requires a list of ids, got a single id")),
        _ => {}
    }
    let rust_name = ident.to_string();
    let rust_name = rust_name.trim_start_matches("r#");
    let default_name = rust_name.strip_suffix("_id").map(str::to_owned);
    let default_name = default_name.or_else(|| rust_name.strip_suffix("_ids").map(|stem| format!("{stem}s")));
    let field_name = RenameRule::field_rename(&field.attrs)?.unwrap_or_else(|| rule.apply(rust_name));
    let name = parsed.name.or_else(|| default_name.map(|name| rule.apply(&name)));
    let name = name.ok_or_else(|| error("the field name must end with `_id` or `_ids`; otherwise set `name`"))?;
    if name == field_name {
        return Err(error("the name of a relation must differ from the name of its field; set `name`"));
    }
    Ok(RelationField { name, target, field: field_name, many: parsed.many })
}

impl RelationAttribute {
    fn parse_entry(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match key.as_str() {
            "type" => parse_text(meta, &mut self.target),
            "name" => parse_text(meta, &mut self.name),
            "many" if meta.input.peek(syn::Token![=]) => {
                let value: LitStr = meta.value()?.parse()?;
                Err(syn::Error::new(value.span(), "`many` takes no value"))
            }
            "many" if self.many => Err(meta.error("duplicate key")),
            "many" => {
                self.many = true;
                Ok(())
            }
            other => Err(meta.error(format!("unknown key `{other}`; expected one of type, name, many"))),
        }
    }
}

/// Returns whether the type is a list, or `None` if the name of the type is unknown.
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
