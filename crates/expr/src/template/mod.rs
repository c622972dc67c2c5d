//! Text and JSON with `${…}` in them.
//!
//! [`Template`] is text, [`JsonTextTemplate`] is text that must become JSON, [`ValueTemplate`] is
//! JSON whose strings are templates. Not here: how a value is written (`escape`).

mod json_text;
mod scan;
mod text;
mod value;

pub use json_text::JsonTextTemplate;
pub use text::{Rendered, Template};
pub use value::ValueTemplate;
