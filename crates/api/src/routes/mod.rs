//! One module per resource.

pub mod blobs;
pub mod expressions;
pub mod health;
pub mod keys;
pub mod providers;
pub mod realms;
pub mod secrets;
pub mod tools;
