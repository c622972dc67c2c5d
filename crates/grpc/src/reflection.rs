//! Asks a server what it can do: services by name, then the files that describe them.

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

/// The most files that one server may describe itself with.
const MOST_FILES: usize = 2_000;
/// And how large they may be together.
const MOST_BYTES: usize = 16 << 20;

/// A server that can be asked.
#[derive(Clone)]
pub(crate) struct Server {
    pub channel: Channel,
    pub origin: Uri,
    /// What goes out with every question: credentials above all.
    pub metadata: MetadataMap,
}

/// The method that tells, and the one that did before; what goes over the wire is the same.
const METHODS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// The files of all services of a server, or of those named.
pub(crate) async fn describe(server: &Server, services: &[String]) -> Result<FileDescriptorSet, Status> {
    let [method, older] = METHODS;
    match Asking::new(server, method).describe(services).await {
        Err(status) if status.code() == Code::Unimplemented => Asking::new(server, older).describe(services).await,
        described => described,
    }
}

struct Asking<'a> {
    server: &'a Server,
    method: &'static str,
    files: BTreeMap<String, FileDescriptorProto>,
    bytes: usize,
}

impl<'a> Asking<'a> {
    fn new(server: &'a Server, method: &'static str) -> Self {
        Self { server, method, files: BTreeMap::new(), bytes: 0 }
    }

    async fn describe(mut self, services: &[String]) -> Result<FileDescriptorSet, Status> {
        let services = match services {
            [] => self.services().await?,
            named => named.to_vec(),
        };
        // Reflection describes itself too, which nobody wants to call.
        for service in services.into_iter().filter(|name| !name.starts_with("grpc.reflection.")) {
            self.learn(MessageRequest::FileContainingSymbol(service)).await?;
        }
        while let Some(missing) = self.missing() {
            self.learn(MessageRequest::FileByFilename(missing.clone())).await?;
            if !self.files.contains_key(&missing) {
                return Err(Status::not_found(format!("the server does not give file `{missing}`, which others need")));
            }
        }
        Ok(FileDescriptorSet { file: self.files.into_values().collect() })
    }

    async fn services(&self) -> Result<Vec<String>, Status> {
        match self.ask(MessageRequest::ListServices(String::new())).await? {
            MessageResponse::ListServicesResponse(list) => {
                Ok(list.service.into_iter().map(|service| service.name).collect())
            }
            _ => Err(odd()),
        }
    }

    async fn learn(&mut self, question: MessageRequest) -> Result<(), Status> {
        let MessageResponse::FileDescriptorResponse(files) = self.ask(question).await? else { return Err(odd()) };
        for file in files.file_descriptor_proto {
            self.bytes += file.len();
            let file = FileDescriptorProto::decode(file.as_slice())
                .map_err(|error| Status::data_loss(format!("a descriptor cannot be read: {error}")))?;
            self.files.insert(file.name().to_owned(), file);
        }
        if self.files.len() > MOST_FILES || self.bytes > MOST_BYTES {
            let message =
                format!("the server describes itself with more than {MOST_FILES} files or {MOST_BYTES} bytes");
            return Err(Status::out_of_range(message));
        }
        Ok(())
    }

    /// A file that another names and that is not here.
    fn missing(&self) -> Option<String> {
        let named: BTreeSet<&String> = self.files.values().flat_map(|file| &file.dependency).collect();
        named.into_iter().find(|name| !self.files.contains_key(*name)).cloned()
    }

    async fn ask(&self, question: MessageRequest) -> Result<MessageResponse, Status> {
        let Server { channel, origin, metadata } = self.server.clone();
        let mut grpc = Grpc::with_origin(channel, origin).max_decoding_message_size(MOST_BYTES);
        let message = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
        let request = Request::from_parts(metadata, Default::default(), futures::stream::iter([message]));
        let codec = ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::default();
        let answers = grpc.streaming(request, PathAndQuery::from_static(self.method), codec).await?;
        let answer = answers.into_inner().try_next().await?.and_then(|answer| answer.message_response);
        match answer.ok_or_else(odd)? {
            MessageResponse::ErrorResponse(error) => {
                Err(Status::new(Code::from_i32(error.error_code), error.error_message))
            }
            answer => Ok(answer),
        }
    }
}

fn odd() -> Status {
    Status::internal("the server does not answer what reflection asks")
}
