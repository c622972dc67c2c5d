//! `#[derive(EntityType)]`: a Rust struct as a type of records.
//!
//! What the struct says goes into code that `toolwright-tools` understands; what is wrong is told where it is written, when it is
//! compiled.

mod declared;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a type of records of a struct that derives `schemars::JsonSchema`.
///
/// The doc comment is the description. `#[tools(…)]` takes `singular = "…"`, `plural = "…"`, `category = "…"`, `tags("…")`,
/// `exclude(delete, update)`, `searchable(status, customerId)` by the names that fields have in JSON, and
/// `relation(name = "…", type = "…", field = "…", many)`.
#[proc_macro_derive(EntityType, attributes(tools))]
pub fn entity_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    declared::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
