//! Drives `myelin bench latency` against real servers: the reference where it is installed, else
//! ours.
//!
//! Runs are short: this proves that every mode measures what it says and every form of the results
//! shows it, not how fast anything is.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod servers;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use servers::{Server, bench};

const PATIENCE: Duration = Duration::from_secs(20);

fn start(arguments: &[&str]) -> Option<Server> {
    Some(Server::with_streams(&servers::any()?, arguments))
}

fn signal(server: &Server, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Milliseconds of CPU time that a server has used.
fn cpu(server: &Server) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap());
    ticks.sum::<u64>() * 10
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `bench latency` with these further arguments, and the rows that it wrote.
fn measure(server: &Server, arguments: &[&str]) -> (String, Vec<Value>) {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("results.json");
    let url = server.url();
    let mut command = bench(&["latency", "--server", &url, "--warmup", "50ms"]);
    let output = succeed(command.args(arguments).arg("--json").arg(&json));
    let results: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    (output, results["rows"].as_array().unwrap().clone())
}

/// The counts of a row's curve: values in nanoseconds with how often they occurred.
fn counts(row: &Value, clock: &str) -> Vec<(u64, u64)> {
    let curves = row["cells"][0]["curves"].as_array().unwrap();
    let curve = curves.iter().find(|curve| curve["clock"] == clock).unwrap();
    let counts = curve["latencies"]["counts"].as_array().unwrap();
    counts.iter().map(|pair| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap())).collect()
}

fn samples(row: &Value, clock: &str) -> u64 {
    counts(row, clock).iter().map(|(_, count)| count).sum()
}

#[test]
fn every_mode_size_and_rate_is_measured() {
    let Some(server) = start(&[]) else { return };
    let modes = "request,pub-sub,js-ack,js-consume";
    let arguments = ["--modes", modes, "--sizes", "8B,70KB", "--rates", "200,400", "--clients", "3"];
    let (output, rows) = measure(&server, &[&arguments[..], &["--duration", "100ms"]].concat());
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let mut expected = Vec::new();
    for mode in modes.split(',') {
        for size in ["8B", "70KB"] {
            expected.extend([200, 400].map(|rate| format!("{mode} {size} @{rate}/s x3")));
        }
    }
    assert_eq!(names, expected);
    for (row, rate) in rows.iter().zip([20, 40].into_iter().cycle()) {
        assert_eq!((samples(row, "planned"), samples(row, "sent")), (rate, rate), "{}", row["name"]);
        assert!(output.contains(row["name"].as_str().unwrap()), "{output}");
    }
    assert!(
        output.contains("  server  corrected ") && output.contains("  server  driver's own "),
        "{output}"
    );
}

#[test]
fn one_connection_may_have_any_number_of_requests_under_way() {
    let Some(server) = start(&[]) else { return };
    let arguments = ["--outstanding", "any", "--rates", "2000", "--duration", "200ms", "--storage", "memory"];
    let (_, rows) = measure(&server, &arguments);
    assert_eq!(samples(&rows[0], "planned"), 400);
}

#[test]
fn rounds_are_values_of_each_figure() {
    let Some(server) = start(&[]) else { return };
    let pid = server.child.id().to_string();
    let arguments = ["--rounds", "3", "--rates", "1000", "--duration", "100ms", "--server-pid", &pid];
    let (_, rows) = measure(&server, &arguments);
    let figures = rows[0]["cells"][0]["figures"].as_array().unwrap();
    assert!(figures.iter().all(|figure| figure["values"].as_array().unwrap().len() == 3), "{figures:?}");
    let names: Vec<_> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    let expected =
        ["latency p50", "latency p90", "server CPU", "rate kept", "samples", "held up", "driver late p99"];
    assert_eq!(names, expected);
    assert_eq!(samples(&rows[0], "planned"), 300);
}

/// The answering side as a process of its own, as it would be on another host.
#[test]
fn the_other_side_may_be_another_process() {
    let Some(server) = start(&[]) else { return };
    let url = server.url();
    let here = ["latency", "--server", &url, "--responders", "0", "--duration", "50ms", "--subject", "far"];
    let alone = bench(&here).output().unwrap();
    assert!(String::from_utf8_lossy(&alone.stderr).contains("nobody answers"), "{alone:?}");
    let mut other = bench(&["latency", "respond", "--server", &url, "--subject", "far", "--clients", "2"]);
    let mut responder = other.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(responder.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert_eq!(lines.next().unwrap().unwrap(), "Waiting for requests on far.*");
    }
    let output = succeed(&mut bench(&here));
    responder.kill().unwrap();
    responder.wait().unwrap();
    assert!(output.contains("request 256B @1000/s"), "{output}");
}

#[test]
fn the_server_may_ask_who_we_are_and_no_file_says_so() {
    let Some(server) = start(&["--user", "joe", "--pass", "sEcret"]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let [json, html] = ["a.json", "a.html"].map(|name| directory.path().join(name));
    let (plain, full) = (server.url(), server.url().replace("//", "//joe:sEcret@"));
    for who in [&["-s", &full][..], &["--server", &plain, "--user", "joe", "--password=sEcret"]] {
        let mut command = bench(&["latency", "--duration", "50ms", "--warmup", "50ms"]);
        succeed(command.args(who).arg("--json").arg(&json).arg("--html").arg(&html));
        for file in [&json, &html] {
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.contains("--duration 50ms") && !text.contains("sEcret"), "{text}");
        }
    }
}

#[test]
fn a_stalled_server_is_charged_for_what_it_held_up() {
    let Some(server) = start(&[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("results.json");
    let url = server.url();
    let run =
        ["latency", "--server", &url, "--rates", "1000", "--duration", "4s", "--warmup", "0s", "--json"];
    let mut driver = bench(&run).arg(&json).stdout(Stdio::null()).spawn().unwrap();
    // The run has begun when the server works; then it stops for a second.
    let idle = cpu(&server);
    wait_until(|| cpu(&server) >= idle + 20);
    signal(&server, Signal::STOP);
    let stopped = Instant::now();
    wait_until(|| stopped.elapsed() >= Duration::from_secs(1));
    signal(&server, Signal::CONT);
    assert!(driver.wait().unwrap().success());
    let results: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let row = &results["rows"][0];
    let late = |clock: &str| -> u64 {
        counts(row, clock).iter().filter(|(value, _)| *value > 250_000_000).map(|(_, count)| count).sum()
    };
    assert_eq!((samples(row, "planned"), samples(row, "sent")), (4000, 4000));
    // Of the thousand that were planned meanwhile three quarters waited longer than a quarter of a
    // second; only one of them was under way, and alone knows of it by the clock of sending.
    assert!(late("planned") >= 700, "{}", late("planned"));
    assert!((1..=20).contains(&late("sent")), "{}", late("sent"));
}

fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited for too long");
        std::thread::yield_now();
    }
}

#[test]
fn reports_show_what_was_measured() {
    let Some(server) = start(&[]) else { return };
    let url = server.url();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (page, table) = (path("report.html"), path("report.csv"));
    let mut shown = String::new();
    for system in ["alpha", "beta"] {
        let run =
            ["latency", "--server", &url, "--rates", "1000,2000", "--duration", "50ms", "--system", system];
        let files = ["--html", &page, "--csv", &table, "--hgrm", &path("curves")];
        shown = succeed(bench(&run).args(files));
    }
    let [page, table] = [page, table].map(|path| std::fs::read_to_string(path).unwrap());
    for text in [&shown, &page, &table] {
        for expected in ["request 256B @1000/s", "request 256B @2000/s", "beta"] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
    assert!(["http:", "https:", "src=", "href=", "<script"].iter().all(|load| !page.contains(load)));
    let curve = std::fs::read_to_string(path("curves/alpha-request-256B-1000-s.hgrm")).unwrap();
    assert!(
        curve.contains("Percentile TotalCount") && curve.contains("Total count    =           50]"),
        "{curve}"
    );
    let files = std::fs::read_dir(path("curves")).unwrap().count();
    assert_eq!(files, 2 * 2 * 3, "two systems, two rates, three clocks");
}
