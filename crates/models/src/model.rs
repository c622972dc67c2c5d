//! The trait that every provider implements.

use futures::future::BoxFuture;
use toolwright_types::{ModelReply, ModelRequest};

use crate::ModelError;

/// Something that answers like a language model.
///
/// A model is bound to its name and its provider when it is built; `request.model` is the record of what was asked
/// for and does not choose another. Dropping the future ends the request.
pub trait Model: Send + Sync {
    /// Asks, tells `sink` what arrives while it arrives, and gives the whole reply at the end.
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>>;

    /// Whether it looks at pictures; one that does not is sent none.
    fn sees_images(&self) -> bool {
        false
    }
}

/// Hears what a model says while it says it. What it hears is a preview: the reply is what counts.
pub trait Sink: Send {
    /// A piece of the answer.
    fn text(&mut self, delta: &str);
    /// A piece of what the model thinks before it answers.
    fn thinking(&mut self, delta: &str);
    /// The reply begins anew: forget every piece so far.
    fn restart(&mut self);
}

/// A sink that listens to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSink;

impl Sink for NoSink {
    fn text(&mut self, _delta: &str) {}
    fn thinking(&mut self, _delta: &str) {}
    fn restart(&mut self) {}
}
