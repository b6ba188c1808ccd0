//! `docs/properties.md` is what the table says.

use std::path::Path;

use weir_metadata::properties::{properties, to_markdown};

#[test]
fn the_page_of_the_properties_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/properties.md");
    let found = std::fs::read_to_string(&path).unwrap();
    let difference =
        found.lines().zip(to_markdown().lines().map(str::to_owned)).find(|(old, new)| old != new);
    assert!(found == to_markdown(), "run cargo xtask docs; the first difference: {difference:?}");
}

#[test]
fn the_page_names_every_property() {
    let page = to_markdown();
    for row in properties() {
        assert!(page.contains(&format!("| `{}`", row.name)), "{}", row.name);
    }
}
