//! A corpus of valid and invalid gram texts.

mod accepted;
mod rejected;

pub(crate) use accepted::ACCEPTED;
pub(crate) use rejected::REJECTED;
