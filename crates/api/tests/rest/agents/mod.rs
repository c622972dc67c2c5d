//! Running agents: what they answer, what they may not do, and what becomes of their mistakes.

mod answers;
mod authority;
mod limits;
mod tools;
