//! Messages whose shape is known at run time only.

use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Reads messages of one kind, and writes any.
pub(crate) struct Dynamic(pub MessageDescriptor);

impl Codec for Dynamic {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Writer;
    type Decoder = Reader;

    fn encoder(&mut self) -> Writer {
        Writer
    }

    fn decoder(&mut self) -> Reader {
        Reader(self.0.clone())
    }
}

pub(crate) struct Writer;

impl Encoder for Writer {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

pub(crate) struct Reader(MessageDescriptor);

impl Decoder for Reader {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let unreadable = |error: prost::DecodeError| Status::data_loss(format!("the answer cannot be read: {error}"));
        DynamicMessage::decode(self.0.clone(), buffer).map(Some).map_err(unreadable)
    }
}
