//! Drives every row about streams against the reference where it is installed.
//!
//! Tiny sizes: this proves that every answer of a real server is understood and every message
//! accounted for, not how fast anything is.

use std::path::Path;

use crate::lab;
use crate::servers::reference;

/// Runs these rows with the reference on both sides and gives their figures.
fn table(program: &Path, rows: &str) -> Vec<serde_json::Value> {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("table.json");
    let scratch = directory.path().join("scratch");
    let mut command = lab(&["table", "--quick", "--rounds", "1", "--seconds", "0.02", "--rows", rows]);
    command.arg("--ours").arg(program).arg("--reference").arg(program);
    let output = command.arg("--json").arg(&json).arg("--dir").arg(&scratch).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "streams were left behind");
    let table: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let rows = table["rows"].as_array().unwrap().clone();
    for row in &rows {
        assert_eq!(row["failures"].as_array().map(Vec::len), Some(0), "{row}");
        for side in ["reference", "ours", "control"] {
            let values = row["figures"][0][side].as_array().unwrap();
            assert!(values.len() == 1 && values.iter().all(|value| value.as_f64() > Some(0.0)), "{row}");
        }
    }
    rows
}

fn metrics(row: &serde_json::Value) -> Vec<&str> {
    row["figures"].as_array().unwrap().iter().map(|figure| figure["metric"].as_str().unwrap()).collect()
}

#[test]
fn every_row_of_the_issue_is_measured() {
    let Some(program) = reference() else { return };
    let rows = table(&program, "js");
    assert_eq!(rows.len(), 20);
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let metrics = metrics(row);
        assert!(metrics.starts_with(&["msgs/s", "CPU us/msg"]), "{row}");
        let has_latency =
            ["js-sync-", "js-always-sync", "js-get-1"].iter().any(|start| name.starts_with(start));
        assert_eq!(metrics.contains(&"p99 us"), has_latency, "{row}");
        assert_eq!(metrics.contains(&"bytes/subject"), name.starts_with("js-subjects-"), "{row}");
    }
}

#[test]
fn every_kind_of_row_of_the_study_is_measured() {
    let Some(program) = reference() else { return };
    let kinds = [
        "s1-sync-memory-64",
        "s1-async-file-4K",
        "s1-atomic-10-memory-256",
        "s1-atomic-100-file-64",
        "s1-fast-10-memory-256",
        "s1-fast-10000-memory-64",
        "s1-fast-1000-flow-*-file-256",
        "s1-fast-1000-by-*-memory-256",
        "s1-fast-10*-file-async-256",
    ];
    assert_eq!(table(&program, &kinds.join(",")).len(), 6 + 5 + 2 + 3);
}
