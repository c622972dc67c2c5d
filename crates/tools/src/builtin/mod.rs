//! The functions that come with the binary, written the way any author would write one.

mod calculator;
mod current_time;
mod echo;
mod http_request;
mod json_query;
mod say_hello;
pub mod search_tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{CompiledTool, Library};

/// What the library of the built-in functions is called.
pub(crate) const LIBRARY: &str = "builtin";

/// All built-in functions.
pub fn library() -> Library {
    Library::new(LIBRARY)
        .with_dyn(echo::tool())
        .with::<say_hello::SayHello>()
        .with::<calculator::Calculator>()
        .with::<http_request::HttpRequestTool>()
        .with::<current_time::CurrentTime>()
        .with::<json_query::JsonQuery>()
        .with::<search_tools::SearchTools>()
}

/// A tool for each function of `library`, callable without anyone defining it; by the key of its name.
pub fn tools(library: &Library) -> BTreeMap<String, Arc<CompiledTool>> {
    library
        .newest()
        .into_iter()
        .filter_map(|function| crate::compiled::definition_of(function.spec()))
        .filter_map(|(name, definition)| {
            let compiled = CompiledTool::compile(crate::compiled::built_in(definition), None, library).ok()?;
            Some((name.key(), Arc::new(compiled)))
        })
        .collect()
}
