//! One module per resource.

pub mod agents;
pub mod blobs;
pub mod conversations;
pub mod drift;
pub mod expressions;
pub mod gram;
pub mod health;
pub mod imports;
pub mod journals;
pub mod keys;
pub mod providers;
pub mod realms;
pub mod runs;
pub mod secrets;
pub mod tools;
pub mod trials;
pub mod undo;
