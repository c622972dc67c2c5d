//! OpenAPI 3.0 and 3.1 as tools and as types: a document goes in, a plan comes out.
//!
//! [`Document::parse`] reads JSON or YAML within limits; [`plan`] proposes one provider and an EXTERNAL_REST tool for each
//! operation, and says which operations it leaves out and why; [`components`] gives the objects that it describes. No IO happens here: nothing is fetched, nothing is written,
//! and references leave the document never. What a plan proposes is checked by whoever saves it.

mod auth;
mod body;
mod components;
mod document;
mod examples;
mod expression;
mod filter;
mod names;
mod operation;
mod parameters;
mod plan;
mod read;
mod reference;
mod schema;
mod servers;
mod text;

pub use components::{Component, NoObject, Object, components};
pub use document::{Document, Refused};
pub use filter::{Filter, InvalidFilter, fits};
pub use plan::{Options, Plan, Planned, Skipped, plan};
pub use read::LARGEST_TEXT;
