//! `#[derive(EntityType)]`: defines an entity type with a Rust struct.
//!
//! The derive generates one `impl` of `toolwright_tools::EntityType` with the names, operations and relations of the
//! type. The fields come from the JSON Schema of the struct, so the struct must also derive `schemars::JsonSchema`.

mod attributes;
mod relations;
mod rename;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

use attributes::ToolsAttribute;
use relations::RelationField;

/// Derives `toolwright_tools::EntityType` for a struct.
///
/// ```
/// use schemars::JsonSchema;
/// use toolwright_derive::EntityType;
/// use toolwright_tools::EntityType as _;
///
/// /// Purchase orders of our customers.
/// #[derive(JsonSchema, EntityType)]
/// #[schemars(rename_all = "camelCase")]
/// #[tools(exclude(delete), searchable(status, customerId), category = "order_management", tags("oms"))]
/// struct Order {
///     status: String,
///     #[relation(type = "Customer")]
///     customer_id: String,
///     #[relation(type = "Product", many, name = "goods")]
///     product_ids: Vec<String>,
/// }
///
/// let definition = Order::type_definition().unwrap();
/// assert_eq!(definition.ref_name.as_str(), "Order");
/// assert_eq!(definition.searchable_fields, ["status", "customerId"]);
/// assert_eq!((definition.relations[0].name.as_str(), definition.relations[0].field.as_str()), ("customer", "customerId"));
/// ```
///
/// | in `#[tools(…)]` | meaning |
/// |---|---|
/// | `name = "Order"` | the name of the type; defaults to the name of the struct |
/// | `singular = "order"`, `plural = "orders"` | the nouns in the names of its tools |
/// | `category = "sales"`, `tags("a", "b")` | the category and tags of its tools |
/// | `searchable(status, customerId)` | the JSON names of fields with an index |
/// | `exclude(delete, update)` | the operations without a tool |
///
/// | in `#[relation(…)]` on a field | meaning |
/// |---|---|
/// | `type = "Customer"` | the type of the related records, whose ids the field contains |
/// | `many` | the field is a list of ids |
/// | `name = "buyer"` | the name of the relation; the default for `customer_id` is `customer`, and for `order_ids` it is `orders` |
///
/// The JSON name of a field is determined by the `rename_all` and `rename` attributes of `schemars`. If there are none,
/// the attributes of `serde` apply.
///
/// ```compile_fail
/// # use schemars::JsonSchema;
/// # use toolwright_derive::EntityType;
/// #[derive(JsonSchema, EntityType)]
/// struct Order {
///     #[relation]
///     customer_id: String,
/// }
/// ```
#[proc_macro_derive(EntityType, attributes(tools, relation))]
pub fn entity_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> syn::Result<Tokens> {
    let attributes = ToolsAttribute::parse(input)?;
    let relations = relations::parse(input)?.into_iter().map(|RelationField { name, target, field, many }| {
        quote!(::toolwright_tools::EntityRelation { name: #name, target: #target, field: #field, many: #many })
    });
    let ident = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    let ToolsAttribute { name, singular, plural, category, tags, searchable, exclude } = attributes;
    let name = name.unwrap_or_else(|| ident.to_string());
    let optional = |text: Option<String>| match text {
        Some(text) => quote!(::core::option::Option::Some(#text)),
        None => quote!(::core::option::Option::None),
    };
    let (singular, plural, category) = (optional(singular), optional(plural), optional(category));
    Ok(quote! {
        impl #generics ::toolwright_tools::EntityType for #ident #arguments #conditions {
            const SPEC: ::toolwright_tools::EntitySpec = ::toolwright_tools::EntitySpec {
                name: #name,
                singular: #singular,
                plural: #plural,
                category: #category,
                tags: &[#(#tags),*],
                searchable: &[#(#searchable),*],
                exclude: &[#(#exclude),*],
                relations: &[#(#relations),*],
            };
        }
    })
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn invalid_derive_attribute_is_rejected_with_an_explanation() {
        for (input, expected) in [
            (
                parse_quote!(
                    #[tools(exclude(drop))]
                    struct A;
                ),
                "unknown operation `drop`; expected one of search",
            ),
            (
                parse_quote!(
                    #[tools(colour = "red")]
                    struct A;
                ),
                "unknown key `colour`",
            ),
            (
                parse_quote!(
                    #[tools(name = 7)]
                    struct A;
                ),
                "string literal",
            ),
            (
                parse_quote!(
                    #[tools(name = "A", name = "B")]
                    struct A;
                ),
                "duplicate key",
            ),
            (
                parse_quote!(
                    enum A {
                        B,
                    }
                ),
                "only for structs",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(many)]
                        b_ids: Vec<String>,
                    }
                ),
                "`type` is required",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B")]
                        b_ids: Option<Vec<String>>,
                    }
                ),
                "add `many`",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B", many)]
                        b_id: Option<String>,
                    }
                ),
                "`many` requires a list of ids",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B", many = "yes")]
                        b_ids: Vec<String>,
                    }
                ),
                "`many` takes no value",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(to = "B")]
                        b_id: String,
                    }
                ),
                "unknown key `to`; expected one of type, name, many",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B")]
                        owner: String,
                    }
                ),
                "set `name`",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B", name = "owner")]
                        owner: String,
                    }
                ),
                "must differ from the name of its field",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B")]
                        b_id: String,
                        #[relation(type = "B", name = "b")]
                        other: String,
                    }
                ),
                "duplicate relation `b`",
            ),
            (
                parse_quote!(
                    struct A(#[relation(type = "B")] String);
                ),
                "a named field",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation]
                        b_id: String,
                    }
                ),
                "expected attribute arguments",
            ),
        ] {
            let error = expand(&input).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
