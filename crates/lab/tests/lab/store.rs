//! Drives the benchmark of the store.

use crate::{lab, stdout};

#[test]
fn the_store_is_measured_and_leaves_nothing_behind() {
    let parent = std::env::temp_dir().join(format!("myelin-bench-store-test-{}", std::process::id()));
    let mut command = lab(&["store", "--quick", "--divide", "500", "--rounds", "1", "--dir"]);
    let output = command.arg(&parent).output().unwrap();
    let left = std::fs::read_dir(&parent).unwrap().count();
    std::fs::remove_dir_all(&parent).unwrap();
    let table = stdout(&output);
    // Goals mean nothing at such sizes and in such a build: only that everything ran.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left, 0);
    assert!(!table.contains("failed: "), "{table}");
    let rows = ["append", "always-1", "always-1000", "always-single", "subjects", "read-file", "read-memory"];
    let others =
        ["recovery", "limit-messages", "limit-bytes", "limit-1-of-100k", "limit-10-of-20k", "expiry"];
    for row in rows.iter().chain(&others) {
        assert!(table.contains(&format!("| {row} | ")), "{row}: {table}");
    }
}

#[test]
fn a_store_benchmark_without_rows_says_which_there_are() {
    let output = lab(&["store", "--rows", "nothing"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("always-single"));
}
