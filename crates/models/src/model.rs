//! The trait that all models implement.

use futures::future::BoxFuture;
use toolwright_types::{ModelReply, ModelRequest};

use crate::ModelError;

/// A language model.
///
/// Name and provider are fixed when the model is built. `request.model` only records the requested model and does not
/// select another one. Dropping the future cancels the request.
pub trait Model: Send + Sync {
    /// Sends the request, streams deltas to `sink` and returns the complete reply.
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>>;

    /// Returns whether the model accepts images. Images are sent only to models that accept them.
    fn supports_images(&self) -> bool {
        false
    }
}

/// Receives the deltas of a reply while it is streamed. Deltas are a preview; the returned reply is authoritative.
pub trait Sink: Send {
    /// Receives a piece of the reply's text.
    fn text(&mut self, delta: &str);
    /// Receives a piece of the model's reasoning.
    fn thinking(&mut self, delta: &str);
    /// Discards all pieces received so far, because the reply starts again.
    fn restart(&mut self);
}

/// A sink that discards everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSink;

impl Sink for NoSink {
    fn text(&mut self, _delta: &str) {}
    fn thinking(&mut self, _delta: &str) {}
    fn restart(&mut self) {}
}
