//! Executes one attempt of a gRPC tool. The request is built as for an HTTP tool, and its JSON body is encoded as a
//! message.

use base64::Engine;
use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use http::Uri;
use http::uri::PathAndQuery;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions};
use serde_json::Value;
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};
use toolwright_tools::executor::{Attempt, Backend, BackendReply};
use toolwright_tools::http::{HttpClient, OutgoingRequest, prepare_request};
use toolwright_tools::{CallProgress, ToolFailure};
use toolwright_types::ErrorCode;
use url::Url;

use crate::channel::Channel;
use crate::codec::DynamicCodec;
use crate::descriptors::DescriptorCache;
use crate::reflection::{self, Server};
use crate::status::to_failure;

/// The maximum size of a message, in bytes. A decoded message takes up to a hundred times as much memory, because an
/// encoded list item may take only one byte.
const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// The maximum number of messages of a server stream.
const MAX_MESSAGES: usize = 10_000;

/// The `invocation.path` of a tool that returns the descriptor set of the gRPC server, in base64.
pub const REFLECTION_METHOD: &str = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// The backend of GRPC tools.
pub struct GrpcBackend {
    http: HttpClient,
    descriptors: DescriptorCache,
}

impl GrpcBackend {
    /// Creates a backend that connects through `http`.
    pub fn new(http: HttpClient) -> Self {
        Self { http, descriptors: DescriptorCache::default() }
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<BackendReply, ToolFailure> {
        let OutgoingRequest { request, access, token, warnings } = prepare_request(&self.http, &attempt).await?;
        let metadata = MetadataMap::from_headers(request.origin_headers);
        let server = Server {
            channel: Channel::new(self.http.http2_client(&request.url, &access)?),
            origin: origin(&request.url)?,
            metadata: metadata.clone(),
        };
        let output = match attempt.tool.definition.invocation.path.as_deref() {
            Some(REFLECTION_METHOD) => descriptor_set(&server).await?,
            _ => {
                let method = self.method(&attempt, &server, &request.url).await?;
                let message = decode_input(method.input(), &request.body.unwrap_or_default())?;
                let mut request = Request::from_parts(metadata, Default::default(), message);
                request.set_timeout(attempt.tool.limits.attempt);
                invoke(&server, &method, request, &attempt).await.map_err(|status| to_failure(&status))?
            }
        };
        let reply = BackendReply { output, warnings, ..BackendReply::default() };
        Ok(match &token {
            // Redacts the access token here, because the executor does not know it.
            Some(token) => reply.redact(attempt.secrets.values().chain([&**token])),
            None => reply,
        })
    }

    async fn method(&self, attempt: &Attempt<'_>, server: &Server, url: &Url) -> Result<MethodDescriptor, ToolFailure> {
        let (service, name) = service_and_method(url)?;
        let provider = attempt.tool.provider.as_deref();
        let (cache_key, descriptor_set) = match provider {
            Some(provider) => (provider.content_hash.as_str(), provider.config.descriptor_set.as_deref()),
            None => (server.origin.path(), None),
        };
        self.descriptors.find_method(cache_key, descriptor_set, server, &service, &name).await
    }
}

impl Backend for GrpcBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

/// Returns the descriptor set of the gRPC server, in base64.
async fn descriptor_set(server: &Server) -> Result<Value, ToolFailure> {
    let files = reflection::fetch_descriptors(server, &[]).await.map_err(|status| to_failure(&status))?;
    Ok(Value::String(base64::engine::general_purpose::STANDARD.encode(files.encode_to_vec())))
}

/// Invokes a method. Returns its reply, or the list of replies of a server stream.
async fn invoke(
    server: &Server,
    method: &MethodDescriptor,
    request: Request<DynamicMessage>,
    attempt: &Attempt<'_>,
) -> Result<Value, Status> {
    if method.is_client_streaming() {
        return Err(Status::unimplemented("client streaming is not supported: a tool sends one message"));
    }
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let path = PathAndQuery::try_from(path).map_err(|error| Status::internal(error.to_string()))?;
    let mut grpc = Grpc::with_origin(server.channel.clone(), server.origin.clone());
    grpc = grpc.max_decoding_message_size(MAX_MESSAGE_BYTES);
    let codec = DynamicCodec(method.output());
    if !method.is_server_streaming() {
        return to_json(&grpc.unary(request, path, codec).await?.into_inner());
    }
    let mut stream = grpc.server_streaming(request, path, codec).await?.into_inner();
    let (mut values, mut bytes) = (Vec::new(), 0_usize);
    while let Some(message) = stream.try_next().await? {
        bytes = bytes.saturating_add(message.encoded_len());
        if bytes > MAX_MESSAGE_BYTES {
            let message = format!("the messages of the stream must have at most {MAX_MESSAGE_BYTES} bytes in total");
            return Err(Status::out_of_range(message));
        }
        if values.len() == MAX_MESSAGES {
            return Err(Status::out_of_range(format!("the stream must not have more than {MAX_MESSAGES} messages")));
        }
        values.push(to_json(&message)?);
        if attempt.wants_progress() {
            let message = format!("{} messages received", values.len());
            attempt.report_progress(CallProgress { done: values.len() as f64, total: None, message: Some(message) });
        }
    }
    Ok(Value::Array(values))
}

/// Decodes a JSON body into a message, according to the JSON mapping of protocol buffers.
fn decode_input(descriptor: MessageDescriptor, body: &Bytes) -> Result<DynamicMessage, ToolFailure> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let name = descriptor.full_name().to_owned();
    DynamicMessage::deserialize(descriptor, &mut deserializer)
        .map_err(|error| ToolFailure::invalid(format!("the input must be a `{name}`: {error}")).reason("message"))
}

fn to_json(message: &DynamicMessage) -> Result<Value, Status> {
    // Writes unset fields with their defaults, because the reader of the output does not know the message type.
    let options = SerializeOptions::new().skip_default_fields(false);
    let serialized = message.serialize_with_options(serde_json::value::Serializer, &options);
    serialized.map_err(|error| Status::data_loss(format!("the reply cannot be converted to JSON: {error}")))
}

/// Returns service and method, the last two segments of the path.
fn service_and_method(url: &Url) -> Result<(String, String), ToolFailure> {
    let mut segments = url.path_segments().into_iter().flatten().rev();
    match (segments.next(), segments.next()) {
        (Some(method), Some(service)) if !method.is_empty() && !service.is_empty() => {
            Ok((service.to_owned(), method.to_owned()))
        }
        _ => {
            let message = format!("the path must be `package.Service/Method`, got `{}`", url.path());
            Err(ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("unknown_method"))
        }
    }
}

/// Returns the origin of the server. gRPC paths start at the root, so the path of the base URL is ignored.
fn origin(url: &Url) -> Result<Uri, ToolFailure> {
    let text = url.origin().ascii_serialization();
    text.parse().map_err(|_| {
        ToolFailure::invalid(format!("the provider's base URL must be an http or https URL, got `{text}`"))
            .reason("template")
    })
}
