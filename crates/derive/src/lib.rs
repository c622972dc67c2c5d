//! `#[derive(EntityType)]`: a Rust struct as a type of records.
//!
//! The derived code is one `impl` of `toolwright_tools::EntityType`, which says what cannot be read off the struct. Everything else
//! comes from the struct's JSON Schema, so `schemars::JsonSchema` is derived beside it.

mod attributes;
mod case;
mod relations;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

use attributes::Attributes;
use relations::Relation;

/// Makes a struct a type of records.
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
/// | in `#[tools(…)]` | says |
/// |---|---|
/// | `name = "Order"` | what the type is called; the struct's name when absent |
/// | `singular = "order"`, `plural = "orders"` | what its tools are named after |
/// | `category = "sales"`, `tags("a", "b")` | where its tools are listed |
/// | `searchable(status, customerId)` | fields that an index serves, as they are called in JSON |
/// | `exclude(delete, update)` | operations without a tool |
///
/// | in `#[relation(…)]` on a field | says |
/// |---|---|
/// | `type = "Customer"` | the type of the records whose ids the field holds |
/// | `many` | that the field is a list of them |
/// | `name = "buyer"` | what the relation is called; without it the field's name without `_id`, and `orders` for `order_ids` |
///
/// A field is called in JSON as `rename_all` and `rename` say, to `schemars` or else to `serde`.
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
    let attributes = Attributes::read(input)?;
    let relations = relations::read(input)?.into_iter().map(|Relation { name, target, field, many }| {
        quote!(::toolwright_tools::EntityRelation { name: #name, target: #target, field: #field, many: #many })
    });
    let ident = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    let Attributes { name, singular, plural, category, tags, searchable, exclude } = attributes;
    let name = name.unwrap_or_else(|| ident.to_string());
    let optional = |text: Option<String>| match text {
        Some(text) => quote!(::core::option::Option::Some(#text)),
        None => quote!(::core::option::Option::None),
    };
    let (singular, plural, category) = (optional(singular), optional(plural), optional(category));
    Ok(quote! {
        impl #generics ::toolwright_tools::EntityType for #ident #arguments #conditions {
            const NAMING: ::toolwright_tools::EntityNaming = ::toolwright_tools::EntityNaming {
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
    fn what_is_wrong_is_said() {
        for (input, because) in [
            (
                parse_quote!(
                    #[tools(exclude(drop))]
                    struct A;
                ),
                "`drop` is no operation",
            ),
            (
                parse_quote!(
                    #[tools(colour = "red")]
                    struct A;
                ),
                "there is no `colour`",
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
                "said twice",
            ),
            (
                parse_quote!(
                    enum A {
                        B,
                    }
                ),
                "a record is an object",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(many)]
                        b_ids: Vec<String>,
                    }
                ),
                "say which records it leads to",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B")]
                        b_ids: Option<Vec<String>>,
                    }
                ),
                "say `many`",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B", many)]
                        b_id: Option<String>,
                    }
                ),
                "the field is a single id",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B", many = "yes")]
                        b_ids: Vec<String>,
                    }
                ),
                "`many` stands alone",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(to = "B")]
                        b_id: String,
                    }
                ),
                "there is no `to` here; there are type, name and many",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B")]
                        owner: String,
                    }
                ),
                "give the relation a `name`",
            ),
            (
                parse_quote!(
                    struct A {
                        #[relation(type = "B", name = "owner")]
                        owner: String,
                    }
                ),
                "called like its field",
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
                "there are two relations `b`",
            ),
            (
                parse_quote!(
                    struct A(#[relation(type = "B")] String);
                ),
                "a field with a name",
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
            assert!(error.contains(because), "{error}");
        }
    }
}
