//! Fetches descriptors by server reflection: first the names of the services, then the files that define them.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use http::Uri;
use http::uri::PathAndQuery;
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::channel::Channel;

/// The maximum number of descriptor files of a server.
const MAX_FILES: usize = 2_000;
/// The maximum total size of the descriptor files, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The connection to a gRPC server.
#[derive(Clone)]
pub(crate) struct Server {
    pub channel: Channel,
    pub origin: Uri,
    /// The metadata of every request, such as credentials.
    pub metadata: MetadataMap,
}

/// The current reflection method and its predecessor. Both use the same messages.
const METHODS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Fetches the files that define `services`, or the files of all services if `services` is empty.
pub(crate) async fn fetch_descriptors(server: &Server, services: &[String]) -> Result<FileDescriptorSet, Status> {
    let [current, alpha] = METHODS;
    match ReflectionClient::new(server, current).fetch(services).await {
        Err(status) if status.code() == Code::Unimplemented => {
            ReflectionClient::new(server, alpha).fetch(services).await
        }
        result => result,
    }
}

struct ReflectionClient<'a> {
    server: &'a Server,
    method: &'static str,
    files: BTreeMap<String, FileDescriptorProto>,
    bytes: usize,
}

impl<'a> ReflectionClient<'a> {
    fn new(server: &'a Server, method: &'static str) -> Self {
        Self { server, method, files: BTreeMap::new(), bytes: 0 }
    }

    async fn fetch(mut self, services: &[String]) -> Result<FileDescriptorSet, Status> {
        let services = match services {
            [] => self.list_services().await?,
            named => named.to_vec(),
        };
        // Omits the reflection service, which is not useful as a tool.
        for service in services.into_iter().filter(|name| !name.starts_with("grpc.reflection.")) {
            self.fetch_files(MessageRequest::FileContainingSymbol(service)).await?;
        }
        while let Some(missing) = self.missing_dependency() {
            self.fetch_files(MessageRequest::FileByFilename(missing.clone())).await?;
            if !self.files.contains_key(&missing) {
                return Err(Status::not_found(format!("the server does not provide the imported file `{missing}`")));
            }
        }
        Ok(FileDescriptorSet { file: self.files.into_values().collect() })
    }

    async fn list_services(&self) -> Result<Vec<String>, Status> {
        match self.request(MessageRequest::ListServices(String::new())).await? {
            MessageResponse::ListServicesResponse(list) => {
                Ok(list.service.into_iter().map(|service| service.name).collect())
            }
            _ => Err(unexpected_response()),
        }
    }

    async fn fetch_files(&mut self, request: MessageRequest) -> Result<(), Status> {
        let MessageResponse::FileDescriptorResponse(files) = self.request(request).await? else {
            return Err(unexpected_response());
        };
        for file in files.file_descriptor_proto {
            self.bytes += file.len();
            let file = FileDescriptorProto::decode(file.as_slice())
                .map_err(|error| Status::data_loss(format!("a descriptor cannot be decoded: {error}")))?;
            self.files.insert(file.name().to_owned(), file);
        }
        if self.files.len() > MAX_FILES || self.bytes > MAX_BYTES {
            let message = format!("the descriptors must not exceed {MAX_FILES} files and {MAX_BYTES} bytes");
            return Err(Status::out_of_range(message));
        }
        Ok(())
    }

    /// Returns the name of a file that another file imports and that was not fetched yet.
    fn missing_dependency(&self) -> Option<String> {
        let imported: BTreeSet<&String> = self.files.values().flat_map(|file| &file.dependency).collect();
        imported.into_iter().find(|name| !self.files.contains_key(*name)).cloned()
    }

    async fn request(&self, request: MessageRequest) -> Result<MessageResponse, Status> {
        let Server { channel, origin, metadata } = self.server.clone();
        let mut grpc = Grpc::with_origin(channel, origin).max_decoding_message_size(MAX_BYTES);
        let message = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
        let request = Request::from_parts(metadata, Default::default(), futures::stream::iter([message]));
        let codec = ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::default();
        let responses = grpc.streaming(request, PathAndQuery::from_static(self.method), codec).await?;
        let response = responses.into_inner().try_next().await?.and_then(|response| response.message_response);
        match response.ok_or_else(unexpected_response)? {
            MessageResponse::ErrorResponse(error) => {
                Err(Status::new(Code::from_i32(error.error_code), error.error_message))
            }
            response => Ok(response),
        }
    }
}

fn unexpected_response() -> Status {
    Status::internal("the server sent an unexpected reflection response")
}
