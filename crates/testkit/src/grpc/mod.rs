//! A gRPC server that describes itself: an inventory, a stream, and every status on request.

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

/// The system.
pub struct Inventory {
    service: ServiceDescriptor,
    files: FileDescriptorSet,
    /// The items that were put, the last last.
    shelf: Mutex<Vec<DynamicMessage>>,
}

/// How it is started.
#[derive(Debug, Default)]
pub struct Builder {
    mute: bool,
    older: bool,
}

/// Why it cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its description is wrong.
    #[error("describe the fixture: {0}")]
    Description(String),
    /// The address cannot be had.
    #[error("listen")]
    Listen(#[from] io::Error),
}

impl Builder {
    /// A server that does not describe itself.
    pub fn mute(mut self) -> Self {
        self.mute = true;
        self
    }

    /// One that does so by the older protocol only.
    pub fn older(mut self) -> Self {
        self.older = true;
        self
    }

    /// Starts it.
    pub async fn start(self, bind: SocketAddr) -> Result<Handle<Inventory>, StartError> {
        let inventory = Arc::new(Inventory::new().map_err(StartError::Description)?);
        let mut app = Router::new().route_service(&format!("/{SERVICE}/{{method}}"), Served(Arc::clone(&inventory)));
        let described =
            || tonic_reflection::server::Builder::configure().register_file_descriptor_set(inventory.files.clone());
        let failed = |error: tonic_reflection::server::Error| StartError::Description(error.to_string());
        if !self.mute && !self.older {
            let service = described().build_v1().map_err(failed)?;
            app = app.route_service("/grpc.reflection.v1.ServerReflection/{method}", service);
        }
        if !self.mute {
            let service = described().build_v1alpha().map_err(failed)?;
            app = app.route_service("/grpc.reflection.v1alpha.ServerReflection/{method}", service);
        }
        // What nobody serves is said as gRPC says it.
        app = app.fallback(|| async { Status::unimplemented("no such service").into_http::<Body>() });
        Ok(server::start(bind, inventory, app, CancellationToken::new()).await?)
    }
}

impl Inventory {
    /// A system yet to be started.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// How it describes itself, as `protoc` would write it.
    pub fn descriptors() -> Result<Vec<u8>, String> {
        Ok(Self::new()?.files.encode_to_vec())
    }

    fn new() -> Result<Self, String> {
        let mut resolvers = ChainFileResolver::new();
        resolvers.add(Own);
        resolvers.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(resolvers);
        compiler.include_imports(true).include_source_info(true);
        compiler.open_file(FILE).map_err(|error| error.to_string())?;
        let files = compiler.file_descriptor_set();
        let pool = DescriptorPool::from_file_descriptor_set(files.clone()).map_err(|error| error.to_string())?;
        let service = pool.get_service_by_name(SERVICE).ok_or("the service is missing")?;
        Ok(Self { service, files, shelf: Mutex::default() })
    }

    fn item(&self, id: i64) -> Result<DynamicMessage, Status> {
        let shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let put = shelf.iter().rev().find(|item| number(item, "id") == id).cloned();
        if let Some(item) = put {
            return Ok(item);
        }
        if !(1..=100).contains(&id) {
            return Err(Status::not_found(format!("there is no item {id}")));
        }
        let fields = json!({ "id": id, "name": format!("item {id}"), "color": "COLOR_RED", "tags": ["new"],
            "prices": { "EUR": 9.5 }, "madeAt": "2026-01-02T03:04:05Z", "pages": 12, "photo": "AAEC", "stock": 3 });
        let of = self.message("Item")?;
        DynamicMessage::deserialize(of, fields).map_err(|error| Status::internal(error.to_string()))
    }

    fn message(&self, name: &str) -> Result<MessageDescriptor, Status> {
        let pool = self.service.parent_pool();
        let full = format!("toolwright.fixture.v1.{name}");
        pool.get_message_by_name(&full).ok_or_else(|| Status::internal(format!("no message {full}")))
    }

    async fn answer(
        &self,
        method: &str,
        metadata: &MetadataMap,
        asked: DynamicMessage,
    ) -> Result<DynamicMessage, Status> {
        let output = self.service.methods().find(|known| known.name() == method).map(|known| known.output());
        let empty = DynamicMessage::new(output.ok_or_else(|| Status::unimplemented("no such method"))?);
        match method {
            "GetItem" => self.item(number(&asked, "id")),
            "PutItem" => {
                self.shelf.lock().unwrap_or_else(PoisonError::into_inner).push(asked.clone());
                Ok(asked)
            }
            "Fail" => {
                let code = i32::try_from(number(&asked, "code")).unwrap_or(2);
                let message = asked.get_field_by_name("message").and_then(|said| said.as_str().map(str::to_owned));
                Err(Status::new(Code::from_i32(code), message.unwrap_or_default()))
            }
            "Wait" => {
                let millis = u64::try_from(number(&asked, "millis")).unwrap_or(0);
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

/// The fixture's own file, from the binary.
struct Own;

impl FileResolver for Own {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == FILE {
            File::from_source(name, include_str!("inventory.proto"))
        } else {
            Err(protox::Error::file_not_found(name))
        }
    }
}

/// The service as HTTP.
#[derive(Clone)]
struct Served(Arc<Inventory>);

impl Service<Request<Body>> for Served {
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
                return Ok(Status::unimplemented("no such method").into_http());
            };
            let mut grpc = Grpc::new(Dynamic(method.input()));
            let call = Call { inventory, name };
            Ok(match method.is_server_streaming() {
                true => grpc.server_streaming(call, request).await,
                false => grpc.unary(call, request).await,
            })
        })
    }
}

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
            let (metadata, _, asked) = request.into_parts();
            inventory.answer(&name, &metadata, asked).await.map(Response::new)
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

/// Reads messages of one kind, and writes any.
struct Dynamic(MessageDescriptor);

impl Codec for Dynamic {
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

impl Encoder for Dynamic {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for Dynamic {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let read = DynamicMessage::decode(self.0.clone(), buffer);
        read.map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}
