//! Measures streams of S2 beside the reference's library, where Go has it:
//! `cargo run --release -p myelin-wire --example s2`. Bytes are counted before compression, in
//! millions for a second of the processor's time; flushes are as large as a link writes at once.

#[path = "../tests/s2/go.rs"]
mod go;

use myelin_wire::s2::{S2Level, S2Reader, S2Writer};
use std::hint::black_box;
use std::time::Duration;

const LEVELS: [(S2Level, &str); 4] = [
    (S2Level::Uncompressed, "uncompressed"),
    (S2Level::Fast, "fast"),
    (S2Level::Better, "better"),
    (S2Level::Best, "best"),
];
const TIME: Duration = Duration::from_millis(500);

fn main() {
    let go = go::shared();
    println!("| payloads | flush | level | size % | Go's | encode MB/s | Go's | decode MB/s | Go's |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for (what, raw) in [("16 KiB like JSON", link(16 << 10, true)), ("128 B like JSON", link(128, true))] {
        rows(what, &raw, &[16 << 10, 256 << 10], go);
    }
    rows("16 KiB of noise", &link(16 << 10, false), &[64 << 10], go);
}

fn rows(what: &str, raw: &[u8], flushes: &[usize], go: Option<&go::Go>) {
    for &flush in flushes {
        for (level, name) in LEVELS {
            let (encoded, decoded, size) = measure(raw, flush, level);
            let share = |size: usize| format!("{:.1}", size as f64 / raw.len() as f64 * 100.0);
            let theirs = go.map(|go| speed(go, name, flush, raw));
            let theirs = theirs.as_deref().unwrap_or(&[]);
            let of = |n: usize| theirs.get(n).map_or_else(|| "-".to_owned(), usize::to_string);
            let their_share = theirs.get(2).map_or_else(|| "-".to_owned(), |size| share(*size));
            println!(
                "| {what} | {} KiB | {name} | {} | {their_share} | {encoded} | {} | {decoded} | {} |",
                flush >> 10,
                share(size),
                of(0),
                of(1),
            );
        }
    }
}

/// Rates of the reference's library in both directions, and its size.
fn speed(go: &go::Go, level: &str, flush: usize, raw: &[u8]) -> Vec<usize> {
    let output = go.run(&["speed", level, &flush.to_string()], raw);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn measure(raw: &[u8], flush: usize, level: S2Level) -> (usize, usize, usize) {
    let (mut writer, mut stream) = (S2Writer::new(level), Vec::new());
    let encoded = rate(raw.len(), || {
        stream.clear();
        raw.chunks(flush).for_each(|piece| writer.write([piece], &mut stream));
    });
    let mut reader = S2Reader::default();
    let decoded = rate(raw.len(), || {
        // A link reads 64 KiB at once.
        for mut rest in stream.chunks(64 << 10) {
            while !rest.is_empty() {
                let (used, data) = reader.read(rest).expect("it was written here");
                black_box(data);
                rest = &rest[used..];
            }
        }
    });
    (encoded, decoded, stream.len())
}

/// MB for each second of the processor's time: others may use the machine, too.
fn rate(bytes: usize, mut once: impl FnMut()) -> usize {
    once();
    let (start, mut runs) = (cpu_time(), 0);
    while cpu_time() - start < TIME {
        once();
        runs += 1;
    }
    (bytes as f64 * f64::from(runs) / (cpu_time() - start).as_secs_f64() / 1e6) as usize
}

fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.expect("Linux counts it"))
}

/// Four megabytes of what a link carries.
fn link(payload: usize, is_json: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    while bytes.len() < 4 << 20 {
        bytes.extend_from_slice(format!("RMSG $G bench.{} {payload}\r\n", next() % 64).as_bytes());
        let end = bytes.len() + payload;
        while bytes.len() < end {
            let n = next();
            if is_json {
                let (sensor, celsius, millis) = (n % 97, n % 4000, n % 1000);
                let record = format!(
                    "{{\"id\":\"{n:016x}\",\"sensor\":\"hall-{sensor}\",\"celsius\":{celsius},\
                     \"ok\":{},\"at\":\"2026-11-25T12:{:02}:{:02}.{millis:03}Z\"}},",
                    n % 5 > 0,
                    n % 60,
                    n / 60 % 60
                );
                bytes.extend_from_slice(record.as_bytes());
            } else {
                bytes.extend_from_slice(&n.to_le_bytes());
            }
        }
        bytes.truncate(end);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
