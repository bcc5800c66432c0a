//! Measurements of schedules, backups and moving in: figures for `docs/results/`, printed, and
//! asserted by nobody.
//!
//! They want optimised programs, which `MYELIN_MEASURED` names a folder of, and time:
//!
//! ```sh
//! cargo build --profile quick -p myelin-server -p myelin-cli
//! export MYELIN_MEASURED=target/quick
//! cargo test -p myelin-server --test server measures -- --ignored --nocapture --test-threads 1
//! ```
//!
//! What is compared with nats-server is left out where there is none, and so is what the command
//! `nats` does.

use super::{Asker, Home, header, publish, setup_in};
use crate::process::{PROGRAM, Server};
use myelin_compat::implementation;
use myelin_stdx::rfc3339;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const MILLION: u64 = 1_000_000;

/// A program of ours, optimised if there is such a one.
fn ours(name: &str) -> PathBuf {
    match std::env::var_os("MYELIN_MEASURED") {
        Some(folder) => Path::new(&folder).join(name),
        None => Path::new(PROGRAM).with_file_name(name),
    }
}

fn server() -> PathBuf {
    ours("myelin-server")
}

fn start(program: &Path, folder: &Path) -> Server {
    setup_in(folder, "").program(program).start()
}

fn nanos(since: SystemTime) -> u64 {
    since.duration_since(SystemTime::UNIX_EPOCH).expect("a clock that is set").as_nanos() as u64
}

/// Publishes so many messages, as fast as every thousandth is acknowledged; `make`: subject, header
/// lines, payload.
fn pour(asker: &mut Asker, count: u64, make: impl Fn(u64) -> (String, String, String)) {
    let mut bytes = Vec::new();
    for number in 0..count {
        let (subject, headers, payload) = make(number);
        let is_last = number % 1000 == 999 || number + 1 == count;
        let reply = if is_last { asker.reply() } else { String::new() };
        bytes.extend(publish(&subject, &reply, &headers, payload.as_bytes()));
        if is_last {
            asker.raw.send_bytes(&bytes);
            bytes.clear();
            let answer = asker.raw.message();
            assert!(answer.text().contains("\"seq\""), "{}", answer.text());
        }
    }
}

fn pattern(at: u64) -> String {
    let at = rfc3339::of_system_time(UNIX_EPOCH + Duration::from_nanos(at));
    format!("Nats-Schedule: @at {at}\r\nNats-Schedule-Target: S.fired\r\n")
}

fn scheduling() -> Value {
    json!({ "allow_msg_schedules": true, "allow_rollup_hdrs": true })
}

/// A quantile of what was measured, in milliseconds.
fn quantile(sorted: &[u64], of: f64) -> f64 {
    let at = ((sorted.len() as f64 * of) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e6)
}

fn spread(mut all: Vec<u64>) -> String {
    all.sort_unstable();
    let [half, most, nearly, top] = [0.5, 0.99, 0.999, 1.0].map(|of| quantile(&all, of));
    format!("median {half:.2} ms, p99 {most:.2} ms, p99.9 {nearly:.2} ms, most {top:.2} ms of {}", all.len())
}

/// Acknowledged publishes, one every millisecond until `end`: how long each took.
fn probe(server: &Server, subject: &str, end: Instant) -> Vec<u64> {
    let mut asker = Asker::connect(server);
    let (mut next, mut took) = (Instant::now(), Vec::new());
    while next < end {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let answer = asker.publish(subject, "probe");
        assert!(answer["seq"].is_u64(), "{answer}");
        took.push(next.elapsed().as_nanos() as u64);
        next += Duration::from_millis(1);
    }
    took
}

fn settled_memory(server: &Server) -> u64 {
    thread::sleep(Duration::from_secs(2));
    server.memory()
}

#[test]
#[ignore = "measures"]
fn measures_schedules_that_wait() {
    let far = nanos(SystemTime::now()) + 100 * 86_400 * 1_000_000_000;
    let mut memory = [Vec::new(), Vec::new()];
    for is_schedule in [false, true] {
        let home = Home::new();
        let mut server = start(&server(), home.path());
        let mut asker = Asker::connect(&server);
        asker.create("S", &scheduling());
        let began = Instant::now();
        pour(&mut asker, MILLION, |n| {
            let headers = pattern(far + n * 1_000_000);
            // As long, and no schedule.
            let headers = if is_schedule { headers } else { headers.replace("Nats-", "Xats-") };
            (format!("S.plan.{n}"), headers, "x".repeat(100))
        });
        let took = began.elapsed().as_secs_f64();
        assert_eq!(asker.number("S", "messages"), MILLION);
        let memory = &mut memory[usize::from(is_schedule)];
        memory.push(settled_memory(&server));
        let what = if is_schedule { "schedules" } else { "other messages" };
        println!("{what}: stored in {took:.1} s");
        for (name, signal) in [("TERM", Signal::TERM), ("KILL", Signal::KILL)] {
            server.signal(signal);
            server.wait();
            let began = Instant::now();
            server.restart();
            let mut asker = Asker::connect(&server);
            assert_eq!(asker.number("S", "messages"), MILLION);
            println!(
                "{what}: answers {:.0} ms after the start behind {name}",
                began.elapsed().as_secs_f64() * 1e3
            );
            memory.push(settled_memory(&server));
        }
    }
    for (at, what) in ["after they came", "behind TERM", "behind KILL"].into_iter().enumerate() {
        let more = memory[1][at] as f64 - memory[0][at] as f64;
        println!("a schedule that waits: {:.1} bytes more {what}", more / MILLION as f64);
    }
}

#[test]
#[ignore = "measures"]
fn measures_schedules_that_fire() {
    const BURST: u64 = 100_000;
    const RATE: u64 = 10_000;
    let home = Home::new();
    let server = start(&server(), home.path());
    let mut asker = Asker::connect(&server);
    asker.create("S", &scheduling());
    asker.create("OTHER", &json!({}));
    let alone = probe(&server, "OTHER.x", Instant::now() + Duration::from_secs(5));
    println!("a publisher to another stream, alone: {}", spread(alone));
    let far = nanos(SystemTime::now()) + 100 * 86_400 * 1_000_000_000;
    pour(&mut asker, MILLION - BURST, |n| (format!("S.plan.{n}"), pattern(far + n), "x".repeat(100)));
    let alone = probe(&server, "S.x", Instant::now() + Duration::from_secs(5));
    println!("a publisher to the stream, {} waiting: {}", MILLION - BURST, spread(alone));
    let begin = nanos(SystemTime::now()) + 10_000_000_000;
    let due = |n: u64| begin + n * (1_000_000_000 / RATE);
    pour(&mut asker, BURST, |n| (format!("S.soon.{n}"), pattern(due(n)), due(n).to_string()));
    assert!(nanos(SystemTime::now()) < begin, "too slow to plan them in time");
    let end = Instant::now() + Duration::from_nanos(due(BURST) - nanos(SystemTime::now()));
    let (own, other) = thread::scope(|scope| {
        let own = scope.spawn(|| probe(&server, "S.x", end));
        let other = scope.spawn(|| probe(&server, "OTHER.x", end));
        (own.join().expect("a probe"), other.join().expect("a probe"))
    });
    println!("a publisher to the stream, {RATE} a second firing: {}", spread(own));
    println!("a publisher to another stream meanwhile: {}", spread(other));
    thread::sleep(Duration::from_secs(2));
    println!("errors of firing, {RATE} a second: {}", spread(errors(&mut asker, BURST)));
}

/// How late each was stored that says in its payload when it was due.
fn errors(asker: &mut Asker, count: u64) -> Vec<u64> {
    let (mut late, mut from) = (Vec::new(), 1);
    while (late.len() as u64) < count {
        let reply = asker.reply();
        let request = json!({ "seq": from, "batch": 1000, "next_by_subj": "S.fired" }).to_string();
        asker.raw.send_bytes(&publish("$JS.API.DIRECT.GET.S", &reply, "", request.as_bytes()));
        let before = late.len();
        loop {
            let message = asker.raw.message();
            let text = String::from_utf8_lossy(&message.body).into_owned();
            if text.starts_with("NATS/1.0 204") || text.starts_with("NATS/1.0 404") {
                break;
            }
            let (_, due) = text.split_once("\r\n\r\n").expect("headers end");
            let seq: u64 =
                header(&text, "Nats-Sequence").and_then(|seq| seq.parse().ok()).expect("a sequence");
            let time = header(&text, "Nats-Time-Stamp").expect("a time");
            let due: u64 = due.parse().expect("a time");
            let stored = parse_time(time);
            assert!(stored >= due, "{text}");
            late.push(stored - due);
            from = seq + 1;
        }
        assert!(late.len() > before, "{} of {count} have fired", late.len());
    }
    late
}

/// Nanoseconds since 1970 of a moment.
fn parse_time(text: &str) -> u64 {
    let moment: jiff::Timestamp = text.parse().expect("a moment");
    u64::try_from(moment.as_nanosecond()).expect("after 1970")
}

/// The reference's program, and the command of its makers.
fn others() -> Option<(PathBuf, &'static str)> {
    let reference = implementation::reference().map_err(|why| eprintln!("not compared: {why}")).ok()?;
    let has_command = Command::new("nats").arg("--version").stdout(Stdio::null()).status().is_ok();
    has_command.then_some((reference.program, "nats"))
}

fn timed(what: &str, bytes: u64, command: &mut Command) -> f64 {
    let began = Instant::now();
    let output = command.output().expect("it can be run");
    let took = began.elapsed().as_secs_f64();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}");
    println!("{what}: {took:.2} s, {:.0} MB/s", bytes as f64 / took / 1e6);
    took
}

#[test]
#[ignore = "measures"]
fn measures_backups() {
    let Some((reference, nats)) = others() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for round in 0..3 {
        for (name, program) in [("nats-server", &reference), ("myelin-server", &server())] {
            let home = Home::new();
            let server = start(program, home.path());
            let mut asker = Asker::connect(&server);
            asker.create("S", &json!({}));
            pour(&mut asker, MILLION, |n| {
                (format!("S.{}.x", n % 1000), String::new(), format!("{n:08} ").repeat(15))
            });
            let bytes = asker.number("S", "bytes");
            let to = folder.path().join(format!("{name}-{round}"));
            let url = server.url();
            let backup = ["-s", &url, "stream", "backup", "S", to.to_str().expect("UTF-8"), "--no-progress"];
            timed(&format!("backup from {name}"), bytes, Command::new(nats).args(backup));
            let asking = asker_latency(&server, Duration::from_secs(2));
            println!("  requests to {name} alone: {}", spread(asking));
            for from in ["nats-server", "myelin-server"] {
                let from_folder = folder.path().join(format!("{from}-{round}"));
                if !from_folder.exists() {
                    continue;
                }
                asker.api("STREAM.DELETE.S", &Value::Null);
                let restore =
                    ["-s", &url, "stream", "restore", from_folder.to_str().expect("UTF-8"), "--no-progress"];
                let asking = thread::scope(|scope| {
                    let asking = scope.spawn(|| asker_latency(&server, Duration::from_secs(1)));
                    timed(
                        &format!("restore into {name} of a backup from {from}"),
                        bytes,
                        Command::new(nats).args(restore),
                    );
                    asking.join().expect("a probe")
                });
                println!("  requests to {name} meanwhile: {}", spread(asking));
                assert_eq!(asker.number("S", "messages"), MILLION);
            }
        }
    }
}

/// Requests to the API for as long: how long each took.
fn asker_latency(server: &Server, duration: Duration) -> Vec<u64> {
    let mut asker = Asker::connect(server);
    let (end, mut took) = (Instant::now() + duration, Vec::new());
    while Instant::now() < end {
        let began = Instant::now();
        asker.api("INFO", &Value::Null);
        took.push(began.elapsed().as_nanos() as u64);
        thread::sleep(Duration::from_millis(1));
    }
    took
}

#[test]
#[ignore = "measures, and takes 11 GB of disk"]
fn measures_moving_in() {
    let Some((reference, _)) = others() else { return };
    let home = Home::new();
    let mut server = start(&reference, home.path());
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    let filler: String = (0..980_u32).map(|n| char::from(b'!' + (n * n % 89) as u8)).collect();
    pour(&mut asker, 5 * MILLION, |n| {
        (format!("S.{}.x", n % 1000), String::new(), format!("{n:010}{filler}"))
    });
    let bytes = asker.number("S", "bytes");
    server.signal(Signal::TERM);
    server.wait();
    let into = Home::new();
    let mut import = Command::new(ours("myelin"));
    import.args(["store", "import"]).arg(home.path()).arg("--into").arg(into.path());
    timed("import", bytes, &mut import);
    // What the disk takes, for comparison.
    let copy = into.path().join("copy");
    timed(
        "cp -r and sync",
        bytes,
        Command::new("sh")
            .arg("-c")
            .arg(format!("cp -r {:?} {copy:?} && sync {copy:?}/jetstream", home.path())),
    );
    let began = Instant::now();
    let server = start(&self::server(), into.path());
    assert_eq!(Asker::connect(&server).number("S", "messages"), 5 * MILLION);
    println!("the server answers {:.0} ms after its start", began.elapsed().as_secs_f64() * 1e3);
}
