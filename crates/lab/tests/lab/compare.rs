//! Drives `myelin-lab compare` and `report` with a plan of two systems that are the same server
//! program.
//!
//! Tiny counts: this proves that plan, rounds, control and reports work together, not how fast
//! anything is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::{lab, servers, text};

const PLAN: &str = r#"
name = "tiny"
title = "A tiny plan"
about = "What is compared is one program."
baseline = "one"
control = "two"
rounds = 3
stored = 1000

[[system]]
name = "one"
program = "myelin-server"

[[system]]
name = "two"
program = "myelin-server"

[[system]]
name = "three"
program = "/no/such/program"
optional = true

[[row]]
name = "1:{receivers}-{size}"
work = "core"
receivers = [1, 2]
size = ["16", "1K"]
messages = 500

[[row]]
name = "request"
work = "request"
clients = 2
services = 2
size = 16
messages = 50

[[row]]
name = "store-{how}"
work = "publish"
how = ["sync", "fast"]
size = 64
messages = 100

[[row]]
name = "relay"
work = "relay"
size = 64
messages = 100

[[row]]
name = "latency"
work = "latency"
from-to = "request"
rate = 500
size = 64
seconds = 0.1
"#;

struct Folder {
    directory: TempDir,
    program: PathBuf,
}

impl Folder {
    fn new() -> Option<Self> {
        let folder = Self {
            directory: tempfile::tempdir().unwrap(),
            program: servers::beside().or_else(servers::reference)?,
        };
        fs::write(folder.path("tiny.toml"), PLAN).unwrap();
        Some(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the plan; `two` is the program of the system with this name.
    fn compare(&self, two: &Path, arguments: &[&str]) -> Output {
        let mut command = lab(&["compare"]);
        command.arg(self.path("tiny.toml")).arg("--dir").arg(self.path("scratch"));
        command.arg("--program").arg(format!("one={}", self.program.display()));
        command.arg("--program").arg(format!("two={}", two.display()));
        command.args(arguments).current_dir(self.directory.path()).output().unwrap()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }
}

fn names(results: &Value) -> Vec<String> {
    results["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_servers_are_compared_and_the_page_is_written() {
    let Some(folder) = Folder::new() else { return };
    fs::write(folder.path("page.md"), "# Page\n<!-- plan: tiny -->\nold\n<!-- end -->\ntail\n").unwrap();
    let output = folder.compare(
        &folder.program,
        &["--json", "tiny.json", "--html", "tiny.html", "--into", "page.md", "--rounds", "2"],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("three takes no part"));
    let results = folder.json("tiny.json");
    let expected =
        ["1:1-16", "1:1-1K", "1:2-16", "1:2-1K", "request", "store-sync", "store-fast", "relay", "latency"];
    assert_eq!(names(&results), expected);
    for row in results["rows"].as_array().unwrap() {
        let cells = row["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2, "{row}");
        for cell in cells {
            let rate = &cell["figures"][0];
            assert_eq!(rate["name"], "rate", "{row}");
            let better = if row["name"] == "latency" { "neither" } else { "high" };
            assert_eq!(rate["better"], better, "{row}");
            let values = rate["values"].as_array().unwrap();
            assert!(values.len() == 2 && values.iter().all(|value| value.as_f64() > Some(0.0)), "{row}");
            let control = rate["control"].as_array().map_or(0, Vec::len);
            assert_eq!(control, if cell["system"] == "two" { 2 } else { 0 }, "{row}");
        }
    }
    let fan_out = &results["rows"][2]["cells"][0]["figures"];
    let figures: Vec<&str> =
        fan_out.as_array().unwrap().iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    for name in ["bytes", "rate at publisher", "rate at subscriber", "server CPU", "resident after"] {
        assert!(figures.contains(&name), "{name}: {figures:?}");
    }
    let page = fs::read_to_string(folder.path("page.md")).unwrap();
    assert!(
        page.starts_with("# Page\n<!-- plan: tiny -->") && page.ends_with("<!-- end -->\ntail\n"),
        "{page}"
    );
    assert!(page.contains("- driver against a server that does nothing: pub "), "{page}");
    assert!(!page.contains("old") && page.contains("| relay") && page.contains("A/A"), "{page}");
    assert!(fs::read_to_string(folder.path("tiny.html")).unwrap().contains("1:2-1K"));
    assert_eq!(fs::read_dir(folder.path("scratch")).unwrap().count(), 0, "streams are left behind");
}

#[test]
fn a_run_is_resumed_where_it_ended() {
    let Some(folder) = Folder::new() else { return };
    let run = |rows: &str| {
        let output = folder
            .compare(&folder.program, &["--rounds", "1", "--rows", rows, "--json", "tiny.json", "--resume"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(run("request").contains("| request "));
    let second = run("request,1:1-16");
    assert!(second.contains("| 1:1-16 ") && !second.contains("| request "), "{second}");
    let results = folder.json("tiny.json");
    assert_eq!(names(&results).len(), 2);
    let third = run("1:1-16");
    assert!(!third.contains("| 1:1-16 "), "{third}");
    assert_eq!(folder.json("tiny.json"), results, "a report is made anew, with the date of its figures");
    for (other, told) in
        [(&["--rounds", "2"][..], "rounds: 1, interleaved then"), (&["--quick"], "quick: no then")]
    {
        let resume = ["--rounds", "1", "--rows", "1:1-16", "--json", "tiny.json", "--resume"];
        let arguments =
            if other[0] == "--rounds" { [other, &resume[2..]].concat() } else { [other, &resume].concat() };
        let output = folder.compare(&folder.program, &arguments);
        assert!(!output.status.success() && text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
}

#[test]
fn a_server_that_fails_fails_the_run_and_no_other() {
    let Some(folder) = Folder::new() else { return };
    let output = folder.compare(Path::new("/bin/false"), &["--rounds", "1", "--rows", "1:1-16"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.contains("| failed") && table.contains("- 1:1-16: two: server process: ended with"),
        "{table}"
    );
    assert!(table.contains("- 1:1-16: two (control): "), "{table}");
}

#[test]
fn wrong_arguments_say_what_there_is() {
    let Some(folder) = Folder::new() else { return };
    let error = |arguments: &[&str]| {
        let output = folder.compare(&folder.program, arguments);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    assert!(error(&["--rows", "nothing"]).contains("there are 1:1-16, 1:1-1K"));
    assert!(error(&["--systems", "four"]).contains("no system \"four\""));
    assert!(error(&["--systems", "one"]).contains("two is the control"));
    let list = folder.compare(&folder.program, &["--list", "--rows", "store-*"]);
    assert_eq!(text(&list.stdout), "store-sync\nstore-fast\n");
}

#[test]
fn reports_show_what_was_measured() {
    let Some(folder) = Folder::new() else { return };
    let rows = "request,1:1-16";
    for json in ["before.json", "after.json"] {
        let output = folder.compare(&folder.program, &["--rounds", "1", "--rows", rows, "--json", json]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let report = |arguments: &[&str]| {
        let mut command = lab(&["report"]);
        command.args(arguments).args(["before.json", "after.json"]).current_dir(folder.directory.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let shown = report(&[]);
    report(&["--html", "report.html", "--csv", "report.csv"]);
    let [page, table] =
        ["report.html", "report.csv"].map(|name| fs::read_to_string(folder.path(name)).unwrap());
    for text in [&shown, &page, &table] {
        for expected in ["request", "1:1-16", "one", "two", "one (after)"] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
    assert!(["http:", "https:", "src=", "href=", "<script"].iter().all(|load| !page.contains(load)));
    let compared = report(&["--compare"]);
    assert!(compared.contains("| request | one | latency p50 |"), "{compared}");
}

#[test]
fn files_that_are_no_results_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.json");
    fs::write(&path, "{}").unwrap();
    let output = lab(&["report"]).arg(&path).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("other.json: not results"), "{output:?}");
    let output = lab(&["report", "--compare"]).arg(&path).output().unwrap();
    assert!(!output.status.success());
}
