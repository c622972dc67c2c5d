//! Rebuilds the crate when a migration is added, because migrations are embedded at compile time.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
