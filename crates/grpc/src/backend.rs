//! One attempt at a gRPC tool: its request as an HTTP tool's, its body as a message.

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
use toolwright_tools::executor::{Attempt, Backend, Reply};
use toolwright_tools::http::{HttpClient, Outgoing, outgoing};
use toolwright_tools::{Step, ToolFailure};
use toolwright_types::ErrorCode;
use url::Url;

use crate::channel::Channel;
use crate::codec::Dynamic;
use crate::methods::Methods;
use crate::reflection::{self, Server};
use crate::status::failed;

/// Larger messages are not read.
const LARGEST_MESSAGE: usize = 64 << 20;
/// Of a stream no more messages are collected.
const MOST_MESSAGES: usize = 10_000;

/// The `invocation.path` of a tool that asks a server what it can do: a descriptor set in base64.
pub const DESCRIBE: &str = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// The backend of GRPC tools.
pub struct GrpcBackend {
    http: HttpClient,
    methods: Methods,
}

impl GrpcBackend {
    /// A backend that connects through `http`.
    pub fn new(http: HttpClient) -> Self {
        Self { http, methods: Methods::default() }
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<Reply, ToolFailure> {
        let Outgoing { request, access, token, warnings } = outgoing(&self.http, &attempt).await?;
        let metadata = MetadataMap::from_headers(request.origin_headers);
        let server = Server {
            channel: Channel::new(self.http.http2(&request.url, &access)?),
            origin: origin(&request.url)?,
            metadata: metadata.clone(),
        };
        let output = match attempt.tool.definition.invocation.path.as_deref() {
            Some(DESCRIBE) => described(&server).await?,
            _ => {
                let method = self.method(&attempt, &server, &request.url).await?;
                let message = message(method.input(), &request.body.unwrap_or_default())?;
                let mut request = Request::from_parts(metadata, Default::default(), message);
                request.set_timeout(attempt.tool.limits.attempt);
                answer(&server, &method, request, &attempt).await.map_err(|status| failed(&status))?
            }
        };
        let reply = Reply { output, warnings, ..Reply::default() };
        Ok(match &token {
            // The executor has never seen it.
            Some(token) => reply.without(attempt.secrets.values().chain([&**token])),
            None => reply,
        })
    }

    async fn method(&self, attempt: &Attempt<'_>, server: &Server, url: &Url) -> Result<MethodDescriptor, ToolFailure> {
        let (service, name) = method_of(url)?;
        let provider = attempt.tool.provider.as_deref();
        let (known_as, descriptors) = match provider {
            Some(provider) => (provider.content_hash.as_str(), provider.config.descriptor_set.as_deref()),
            None => (server.origin.path(), None),
        };
        self.methods.find(known_as, descriptors, server, &service, &name).await
    }
}

impl Backend for GrpcBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

/// What the server says of itself.
async fn described(server: &Server) -> Result<Value, ToolFailure> {
    let files = reflection::describe(server, &[]).await.map_err(|status| failed(&status))?;
    Ok(Value::String(base64::engine::general_purpose::STANDARD.encode(files.encode_to_vec())))
}

/// What the method answers: one value, or of a stream a list of them.
async fn answer(
    server: &Server,
    method: &MethodDescriptor,
    request: Request<DynamicMessage>,
    attempt: &Attempt<'_>,
) -> Result<Value, Status> {
    if method.is_client_streaming() {
        return Err(Status::unimplemented("a tool sends one message, and this method wants a stream of them"));
    }
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let path = PathAndQuery::try_from(path).map_err(|error| Status::internal(error.to_string()))?;
    let mut grpc = Grpc::with_origin(server.channel.clone(), server.origin.clone());
    grpc = grpc.max_decoding_message_size(LARGEST_MESSAGE);
    let codec = Dynamic(method.output());
    if !method.is_server_streaming() {
        return json(&grpc.unary(request, path, codec).await?.into_inner());
    }
    let mut stream = grpc.server_streaming(request, path, codec).await?.into_inner();
    let mut values = Vec::new();
    while let Some(message) = stream.try_next().await? {
        if values.len() == MOST_MESSAGES {
            return Err(Status::out_of_range(format!("the stream has more than {MOST_MESSAGES} messages")));
        }
        values.push(json(&message)?);
        if attempt.is_followed() {
            let message = format!("{} messages came", values.len());
            attempt.tell(Step { done: values.len() as f64, total: None, message: Some(message) });
        }
    }
    Ok(Value::Array(values))
}

/// The message that a JSON body is, by the JSON form of protocol buffers.
fn message(of: MessageDescriptor, body: &Bytes) -> Result<DynamicMessage, ToolFailure> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let mut read = serde_json::Deserializer::from_slice(body);
    let name = of.full_name().to_owned();
    DynamicMessage::deserialize(of, &mut read)
        .map_err(|error| ToolFailure::invalid(format!("the input is no `{name}`: {error}")).reason("message"))
}

fn json(message: &DynamicMessage) -> Result<Value, Status> {
    // What is not set is told as its default: whoever reads the answer has no descriptor.
    let options = SerializeOptions::new().skip_default_fields(false);
    let written = message.serialize_with_options(serde_json::value::Serializer, &options);
    written.map_err(|error| Status::data_loss(format!("the answer is no JSON: {error}")))
}

/// The last two parts of the path: service and method.
fn method_of(url: &Url) -> Result<(String, String), ToolFailure> {
    let mut parts = url.path_segments().into_iter().flatten().rev();
    match (parts.next(), parts.next()) {
        (Some(method), Some(service)) if !method.is_empty() && !service.is_empty() => {
            Ok((service.to_owned(), method.to_owned()))
        }
        _ => {
            let message = format!("`{}` names no method; a path is `package.Service/Method`", url.path());
            Err(ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("unknown_method"))
        }
    }
}

/// Where the server is. Paths of gRPC begin at the root, so whatever the base adds is of no use.
fn origin(url: &Url) -> Result<Uri, ToolFailure> {
    let text = url.origin().ascii_serialization();
    text.parse().map_err(|_| ToolFailure::invalid(format!("`{text}` is no address")).reason("template"))
}
