//! EXTERNAL_REST and HELIX: tools that live behind HTTP. What other protocols over HTTP need of it is public.

mod backend;
mod client;
mod credentials;
mod egress;
mod grant;
mod oauth;
mod plan;
mod provider;
mod response;
mod spread;

pub use backend::{HttpBackend, Outgoing, outgoing};
pub use client::{Access, HttpClient, HttpOptions, HttpRequest, HttpResponse, InvalidRoots, Root, failure};
pub use egress::{Egress, Lookup, Refused, SystemLookup};
pub use grant::Grant;
pub use provider::CompiledProvider;

pub(crate) use plan::HttpPlan;
pub(crate) use response::interpret;
