//! The backend of EXTERNAL_REST and HELIX tools: sends one request per attempt and interprets the response.
//!
//! Backends of other protocols over HTTP, such as gRPC, use the public items too.

mod backend;
mod response;

pub use backend::{HttpBackend, OutgoingRequest, prepare_request};
pub(crate) use response::interpret;

pub use crate::http_client::{
    CompiledProvider, DnsResolver, EgressDenied, EgressPolicy, Grant, HttpClient, HttpOptions, HttpRequest,
    HttpResponse, InvalidCertificates, NetworkAccess, RootCertificate, SystemDnsResolver, transport_failure,
};
