//! The HTTP client of tools, which applies the egress rules, and the parts of its requests: providers, templates and
//! credentials.

mod client;
mod credentials;
mod egress;
mod explode;
mod grant;
pub(crate) mod oauth;
mod provider;
mod request_template;

pub(crate) use client::over_limit;
pub use client::{
    HttpClient, HttpOptions, HttpRequest, HttpResponse, InvalidCertificates, NetworkAccess, RootCertificate,
    transport_failure,
};
pub use egress::{DnsResolver, EgressDenied, EgressPolicy, SystemDnsResolver};
pub use grant::Grant;
pub use provider::CompiledProvider;

pub(crate) use request_template::RequestTemplate;
