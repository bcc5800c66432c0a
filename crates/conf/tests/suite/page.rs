//! `docs/configuration.md` is what the table of options prints.

use std::fs;
use std::path::PathBuf;

#[test]
fn the_page_is_the_table() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = myelin_conf::options::page();
    if std::env::var_os("MYELIN_RECORD").is_some() {
        fs::write(&path, &page).expect("docs can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "docs/configuration.md is old: run this test with MYELIN_RECORD=1");
}
