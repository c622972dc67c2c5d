//! A gRPC server with reflection. Its methods read and write an inventory, stream messages, and fail with a requested
//! status.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage, ServiceDescriptor, Value};
use prost_types::FileDescriptorSet;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Code, Response, Status};
use tower_service::Service;

use crate::server::{self, Handle};

const FILE: &str = "inventory.proto";
const SERVICE: &str = "toolwright.fixture.v1.Inventory";

/// The inventory server; see the [module](self).
pub struct Inventory {
    service: ServiceDescriptor,
    files: FileDescriptorSet,
    /// The stored items. If several items have the same id, the last one is current.
    items: Mutex<Vec<DynamicMessage>>,
}

/// The options of an [`Inventory`] before it starts.
#[derive(Debug, Default)]
pub struct Builder {
    without_reflection: bool,
    v1alpha_only: bool,
}

/// The reason why the server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The protobuf descriptors are invalid.
    #[error("build the descriptors of the fixture: {0}")]
    Descriptors(String),
    /// The address could not be bound.
    #[error("listen")]
    Listen(#[from] io::Error),
}

impl Builder {
    /// Disables server reflection.
    pub fn without_reflection(mut self) -> Self {
        self.without_reflection = true;
        self
    }

    /// Offers reflection in version v1alpha only.
    pub fn v1alpha_only(mut self) -> Self {
        self.v1alpha_only = true;
        self
    }

    /// Starts the server.
    pub async fn start(self, bind: SocketAddr) -> Result<Handle<Inventory>, StartError> {
        let inventory = Arc::new(Inventory::new().map_err(StartError::Descriptors)?);
        let mut app =
            Router::new().route_service(&format!("/{SERVICE}/{{method}}"), InventoryService(Arc::clone(&inventory)));
        let reflection =
            || tonic_reflection::server::Builder::configure().register_file_descriptor_set(inventory.files.clone());
        let invalid = |error: tonic_reflection::server::Error| StartError::Descriptors(error.to_string());
        if !self.without_reflection && !self.v1alpha_only {
            let service = reflection().build_v1().map_err(invalid)?;
            app = app.route_service("/grpc.reflection.v1.ServerReflection/{method}", service);
        }
        if !self.without_reflection {
            let service = reflection().build_v1alpha().map_err(invalid)?;
            app = app.route_service("/grpc.reflection.v1alpha.ServerReflection/{method}", service);
        }
        // A call to an unknown service gets a gRPC status instead of an HTTP 404.
        app = app.fallback(|| async { Status::unimplemented("unknown service").into_http::<Body>() });
        Ok(server::start(bind, inventory, app, CancellationToken::new()).await?)
    }
}

impl Inventory {
    /// Returns the options for a new server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the file descriptor set of this server, encoded as `protoc` would write it.
    pub fn descriptors() -> Result<Vec<u8>, String> {
        Ok(Self::new()?.files.encode_to_vec())
    }

    fn new() -> Result<Self, String> {
        let mut resolvers = ChainFileResolver::new();
        resolvers.add(EmbeddedFile);
        resolvers.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(resolvers);
        compiler.include_imports(true).include_source_info(true);
        compiler.open_file(FILE).map_err(|error| error.to_string())?;
        let files = compiler.file_descriptor_set();
        let pool = DescriptorPool::from_file_descriptor_set(files.clone()).map_err(|error| error.to_string())?;
        let service = pool.get_service_by_name(SERVICE).ok_or("the service is missing")?;
        Ok(Self { service, files, items: Mutex::default() })
    }

    fn item(&self, id: i64) -> Result<DynamicMessage, Status> {
        let items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = items.iter().rev().find(|item| number(item, "id") == id).cloned();
        if let Some(item) = stored {
            return Ok(item);
        }
        if !(1..=100).contains(&id) {
            return Err(Status::not_found(format!("item `{id}` does not exist")));
        }
        let fields = json!({ "id": id, "name": format!("item {id}"), "color": "COLOR_RED", "tags": ["new"],
            "prices": { "EUR": 9.5 }, "madeAt": "2026-01-02T03:04:05Z", "pages": 12, "photo": "AAEC", "stock": 3 });
        let descriptor = self.message("Item")?;
        DynamicMessage::deserialize(descriptor, fields).map_err(|error| Status::internal(error.to_string()))
    }

    fn message(&self, name: &str) -> Result<MessageDescriptor, Status> {
        let pool = self.service.parent_pool();
        let full = format!("toolwright.fixture.v1.{name}");
        pool.get_message_by_name(&full).ok_or_else(|| Status::internal(format!("message `{full}` does not exist")))
    }

    async fn answer(
        &self,
        method: &str,
        metadata: &MetadataMap,
        request: DynamicMessage,
    ) -> Result<DynamicMessage, Status> {
        let output = self.service.methods().find(|known| known.name() == method).map(|known| known.output());
        let empty = DynamicMessage::new(output.ok_or_else(|| Status::unimplemented("unknown method"))?);
        match method {
            "GetItem" => self.item(number(&request, "id")),
            "PutItem" => {
                self.items.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
                Ok(request)
            }
            "Fail" => {
                let code = i32::try_from(number(&request, "code")).unwrap_or(2);
                let message = request.get_field_by_name("message").and_then(|text| text.as_str().map(str::to_owned));
                Err(Status::new(Code::from_i32(code), message.unwrap_or_default()))
            }
            "Wait" => {
                let millis = u64::try_from(number(&request, "millis")).unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(empty)
            }
            "Metadata" => {
                let fields: serde_json::Map<String, serde_json::Value> = metadata
                    .iter()
                    .filter_map(|pair| match pair {
                        KeyAndValueRef::Ascii(name, value) => Some((name.to_string(), json!(value.to_str().ok()?))),
                        KeyAndValueRef::Binary(..) => None,
                    })
                    .collect();
                DynamicMessage::deserialize(empty.descriptor(), serde_json::Value::Object(fields))
                    .map_err(|error| Status::internal(error.to_string()))
            }
            _ => Ok(empty),
        }
    }
}

fn number(message: &DynamicMessage, field: &str) -> i64 {
    match message.get_field_by_name(field).as_deref() {
        Some(Value::I64(number)) => *number,
        Some(Value::I32(number)) => i64::from(*number),
        _ => 0,
    }
}

/// Resolves the `.proto` file of this server, which is part of the binary.
struct EmbeddedFile;

impl FileResolver for EmbeddedFile {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == FILE {
            File::from_source(name, include_str!("inventory.proto"))
        } else {
            Err(protox::Error::file_not_found(name))
        }
    }
}

/// The HTTP service that dispatches gRPC calls.
#[derive(Clone)]
struct InventoryService(Arc<Inventory>);

impl Service<Request<Body>> for InventoryService {
    type Response = axum::http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inventory = Arc::clone(&self.0);
        let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        Box::pin(async move {
            let Some(method) = inventory.service.methods().find(|method| method.name() == name) else {
                return Ok(Status::unimplemented("unknown method").into_http());
            };
            let mut grpc = Grpc::new(DynamicCodec(method.input()));
            let call = Call { inventory, name };
            Ok(match method.is_server_streaming() {
                true => grpc.server_streaming(call, request).await,
                false => grpc.unary(call, request).await,
            })
        })
    }
}

/// One call to a method.
struct Call {
    inventory: Arc<Inventory>,
    name: String,
}

impl UnaryService<DynamicMessage> for Call {
    type Response = DynamicMessage;
    type Future = BoxFuture<'static, Result<Response<DynamicMessage>, Status>>;

    fn call(&mut self, request: tonic::Request<DynamicMessage>) -> Self::Future {
        let (inventory, name) = (Arc::clone(&self.inventory), self.name.clone());
        Box::pin(async move {
            let (metadata, _, request) = request.into_parts();
            inventory.answer(&name, &metadata, request).await.map(Response::new)
        })
    }
}

impl ServerStreamingService<DynamicMessage> for Call {
    type Response = DynamicMessage;
    type ResponseStream = BoxStream<'static, Result<DynamicMessage, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<DynamicMessage>) -> Self::Future {
        let inventory = Arc::clone(&self.inventory);
        let last = number(request.get_ref(), "id");
        let items = futures::stream::iter(1..=last).map(move |id| inventory.item(id));
        Box::pin(async move { Ok(Response::new(items.boxed())) })
    }
}

/// A codec that decodes messages of one type and encodes any message.
struct DynamicCodec(MessageDescriptor);

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(self.0.clone())
    }

    fn decoder(&mut self) -> Self {
        Self(self.0.clone())
    }
}

impl Encoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let message = DynamicMessage::decode(self.0.clone(), buffer);
        message.map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}
