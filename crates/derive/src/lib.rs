//! `#[derive(EntityType)]`: a Rust struct as a type of records.
//!
//! The derived code is one `impl` of `toolwright_tools::EntityType`, which says what cannot be read off the struct. Everything else
//! comes from the struct's JSON Schema, so `schemars::JsonSchema` is derived beside it.

mod attributes;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

use attributes::Attributes;

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
///     customer_id: String,
/// }
///
/// let definition = Order::type_definition().unwrap();
/// assert_eq!(definition.ref_name.as_str(), "Order");
/// assert_eq!(definition.searchable_fields, ["status", "customerId"]);
/// ```
///
/// | in `#[tools(…)]` | says |
/// |---|---|
/// | `name = "Order"` | what the type is called; the struct's name when absent |
/// | `singular = "order"`, `plural = "orders"` | what its tools are named after |
/// | `category = "sales"`, `tags("a", "b")` | where its tools are listed |
/// | `searchable(status, customerId)` | fields that an index serves, as they are called in JSON |
/// | `exclude(delete, update)` | operations without a tool |
#[proc_macro_derive(EntityType, attributes(tools))]
pub fn entity_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> syn::Result<Tokens> {
    let attributes = Attributes::read(input)?;
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
        ] {
            let error = expand(&input).unwrap_err().to_string();
            assert!(error.contains(because), "{error}");
        }
    }
}
