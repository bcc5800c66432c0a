//! Drives every row about consumers against the reference and, where it has been built, against
//! ours.
//!
//! Tiny sizes: this proves that deliveries of a real server are understood and every message
//! accounted for, not how fast anything is.

use serde_json::Value;

use crate::{lab, servers};

/// Runs these rows and gives them.
fn table(rows: &str) -> Vec<Value> {
    let Some(reference) = servers::reference() else { return Vec::new() };
    let ours = servers::beside().unwrap_or_else(|| reference.clone());
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("table.json");
    let scratch = directory.path().join("scratch");
    let mut command =
        lab(&["table", "--rounds", "1", "--seconds", "0.02", "--scale", "0.0005", "--rows", rows]);
    command.arg("--ours").arg(ours).arg("--reference").arg(reference);
    let output = command.arg("--json").arg(&json).arg("--dir").arg(&scratch).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "streams were left behind");
    let table: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let rows = table["rows"].as_array().unwrap().clone();
    for row in &rows {
        assert_eq!(row["failures"].as_array().map(Vec::len), Some(0), "{row}");
    }
    rows
}

/// Checks that these rows have figures of these kinds, the first of which is more than nothing
/// everywhere.
fn measures(rows: &str, count: usize, metrics: &[&str]) {
    let rows = table(rows);
    assert!(rows.is_empty() || rows.len() == count, "{rows:?}");
    for row in &rows {
        let figures = row["figures"].as_array().unwrap();
        let found: Vec<&str> = figures.iter().map(|figure| figure["metric"].as_str().unwrap()).collect();
        assert_eq!(found, metrics, "{row}");
        for side in ["reference", "ours", "control"] {
            let values = figures[0][side].as_array().unwrap();
            assert!(values.len() == 1 && values.iter().all(|value| value.as_f64() > Some(0.0)), "{row}");
        }
    }
}

#[test]
fn a_stream_is_read_by_consumers_that_are_pushed_to() {
    measures("c-ordered-file,c-ordered-memory,c-push,c-sparse", 4, &["msgs/s", "CPU us/msg"]);
}

#[test]
fn a_stream_is_read_by_consumers_that_are_pulled_from() {
    measures("c-ordered-pull,c-consume,c-fetch-*", 4, &["msgs/s", "CPU us/msg"]);
}

#[test]
fn publishers_and_consumers_work_at_once() {
    measures("c-8x8", 1, &["msgs/s", "CPU us/msg", "published/s"]);
    measures("c-beside-100", 1, &["msgs/s", "rate kept %", "published/s"]);
}

#[test]
fn keys_are_put_and_got_and_watched() {
    measures("c-kv-put,c-kv-get", 2, &["msgs/s", "CPU us/msg", "p50 us", "p99 us"]);
    measures("c-kv-watch", 1, &["msgs/s", "CPU us/msg"]);
}

#[test]
fn messages_are_timed_from_end_to_end() {
    measures("c-latency-*", 5, &["msgs/s", "CPU us/msg", "p50 us", "p99 us"]);
}

#[test]
fn many_consumers_are_weighed() {
    measures("c-crowd", 1, &["consumers made/s", "bytes/consumer", "CPU ms/s"]);
}

#[test]
fn pending_acknowledgements_are_weighed() {
    measures("c-pending", 1, &["msgs/s", "CPU us/msg", "bytes/pending ack"]);
}

#[test]
fn a_scale_without_sense_is_refused() {
    for scale in ["0", "-1", "11", "NaN"] {
        let arguments = ["table", "--ours", "a", "--reference", "b", "--rows", "c-push"];
        let output = lab(&arguments).arg(format!("--scale={scale}")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains("--scale must be"), "{error}");
    }
}
