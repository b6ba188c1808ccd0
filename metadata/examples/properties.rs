//! Prints the page of the properties; `cargo xtask docs` puts it where it belongs.

fn main() {
    print!("{}", weir_metadata::properties::to_markdown());
}
