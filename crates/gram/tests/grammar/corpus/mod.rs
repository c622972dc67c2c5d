//! Our own corpus: what is gram and what is not, one case for each thing that could go wrong.

mod accepted;
mod refused;

pub use accepted::ACCEPTED;
pub use refused::REFUSED;
