//! Migrations are embedded at compile time; without this line Cargo would not notice a new file among them.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
