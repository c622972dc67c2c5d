//! Templates: text and JSON that contain `${…}`.
//!
//! [`Template`] renders text, [`JsonTextTemplate`] renders JSON text, and [`ValueTemplate`] is
//! JSON whose strings are templates. Not here: the escaping of values (`escape`).

mod json_text;
mod scan;
mod text;
mod value;

pub use json_text::JsonTextTemplate;
pub use text::{RenderedText, Template};
pub use value::ValueTemplate;
