//! Drives the rows about the core server: the table is made, and what fails fails alone.

use crate::{lab, servers, stdout};

#[test]
fn a_table_is_made_and_every_message_verified() {
    let Some(program) = servers::any() else { return };
    let json = std::env::temp_dir().join(format!("myelin-table-{}.json", std::process::id()));
    let mut command = lab(&["table", "--quick", "--rounds", "1", "--seconds", "0.05"]);
    command.arg("--ours").arg(&program).arg("--reference").arg(&program).arg("--json").arg(&json);
    let names = ["pub-16", "1:4-128", "queue10-4K", "4x4-128", "100k-own", "request-50", "churn"];
    let output = command.args(["--verify", "--rows", &names.join(",")]).output().unwrap();
    let table: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    std::fs::remove_file(&json).unwrap();
    assert_eq!(output.status.code(), Some(1), "a server is not 3 times as fast as itself");
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    for row in rows {
        assert_eq!(row["failures"].as_array().map(Vec::len), Some(0), "{row}");
        for side in ["reference", "ours", "control"] {
            let values = row["figures"][0][side].as_array().unwrap();
            assert!(values.len() == 1 && values.iter().all(|value| value.as_f64() > Some(0.0)), "{row}");
        }
    }
    let markdown = stdout(&output);
    assert!(names.iter().all(|name| markdown.contains(&format!("| {name} | msgs/s | "))), "{markdown}");
}

#[test]
fn a_program_that_is_no_server_fails_its_rows_only() {
    let Some(program) = servers::any() else { return };
    let mut command = lab(&["table", "--quick", "--rounds", "1", "--seconds", "0.05", "--rows", "pub-16"]);
    let output = command.arg("--ours").arg("/bin/false").arg("--reference").arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let markdown = stdout(&output);
    assert!(markdown.contains("- pub-16: ours failed: server process: ended with"), "{markdown}");
    assert!(markdown.contains("| **FAIL** |"), "{markdown}");
}
