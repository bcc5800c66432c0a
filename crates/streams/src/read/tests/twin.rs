//! Random requests of a random small stream, against a twin that walks a list.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const SUBJECTS: [&str; 6] = ["a", "b", "a.x", "a.y", "b.x.z", "c"];
const PATTERNS: [&str; 11] = ["a", "b", "a.x", "a.*", "*.x", "b.>", ">", "*", "none", "a..x", "c"];

struct Stored {
    seq: Seq,
    time: Timestamp,
    subject: &'static str,
    headers: String,
    payload: String,
}

/// Twin of the stream: the messages that are left.
struct Twin {
    stored: Vec<Stored>,
    last: Seq,
    is_file: bool,
}

fn is_match(pattern: &str, subject: &str) -> bool {
    let (pattern, subject): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), subject.split('.').collect());
    let is_tail = pattern.last() == Some(&">");
    let fixed = if is_tail { pattern.len() - 1 } else { pattern.len() };
    let fits = if is_tail { subject.len() > fixed } else { subject.len() == fixed };
    fits && pattern[..fixed].iter().zip(&subject).all(|(token, other)| *token == "*" || token == other)
}

fn status(text: &str) -> Answer {
    vec![(format!("NATS/1.0 {text}\r\n\r\n"), String::new())]
}

impl Twin {
    fn first(&self) -> Seq {
        self.stored.first().map_or(self.last + 1, |stored| stored.seq)
    }

    fn seq_at(&self, time: Timestamp) -> Seq {
        self.stored.iter().find(|stored| stored.time >= time).map_or(self.last + 1, |stored| stored.seq)
    }

    fn header_buf(stored: &Stored, place: Option<(u64, Seq)>) -> String {
        let mut header_buf = if stored.headers.is_empty() {
            "NATS/1.0\r\n".to_owned()
        } else {
            stored.headers[..stored.headers.len() - 2].to_owned()
        };
        let time = jiff::Timestamp::from_nanosecond(i128::from(stored.time)).unwrap();
        header_buf += &format!("Nats-Stream: S\r\nNats-Subject: {}\r\n", stored.subject);
        header_buf += &format!("Nats-Sequence: {}\r\nNats-Time-Stamp: {time}\r\n", stored.seq);
        if let Some((pending, last)) = place {
            header_buf += &format!("Nats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n");
        }
        header_buf + "\r\n"
    }

    fn answer(&self, get: &PendingGet) -> Answer {
        let multi = get.multi.as_deref().unwrap_or_default();
        let (last_for, next_for) = (get.last_for.unwrap_or_default(), get.next_for.unwrap_or_default());
        let (by_seq, by_time) = (get.seq > 0, get.start_time.is_some());
        let (by_last, by_next, by_many) = (!last_for.is_empty(), !next_for.is_empty(), !multi.is_empty());
        if !by_seq && !by_time && !by_last && !by_next && !by_many {
            return status("408 Empty Request");
        }
        let pairs = [
            (by_seq, by_last),
            (by_seq, by_time),
            (by_time, by_last),
            (by_last, by_next),
            (by_last, get.batch > 0),
            (by_last, by_many),
            (by_next, by_many),
            (get.up_to_seq > 0, get.up_to_time.is_some()),
        ];
        if pairs.contains(&(true, true)) {
            return status("408 Bad Request");
        }
        if by_many { self.lasts(get, multi) } else { self.run(get, last_for, next_for) }
    }

    fn run(&self, get: &PendingGet, last_for: &str, next_for: &str) -> Answer {
        let mut seq = get.start_time.map_or(get.seq, |time| self.seq_at(time));
        let filter = if next_for.is_empty() { ">" } else { next_for };
        let passing = || self.stored.iter().filter(|stored| is_match(filter, stored.subject));
        let mut pending = passing().filter(|stored| stored.seq >= seq).count() as u64;
        let (mut answer, mut bytes, mut last) = (Vec::new(), 0, 0);
        let is_batch = get.batch != 0;
        for n in 0..if is_batch { get.batch } else { 1 } {
            let found = if !next_for.is_empty() || is_batch {
                passing().find(|stored| stored.seq >= seq)
            } else if seq > 0 {
                self.stored.iter().find(|stored| stored.seq == seq)
            } else if last_for == ">" {
                self.stored.iter().find(|stored| stored.seq == self.last)
            } else {
                self.stored.iter().rfind(|stored| is_match(last_for, stored.subject))
            };
            let Some(found) = found else {
                if n > 0 {
                    break;
                }
                return status("404 Message Not Found");
            };
            let mut header_buf = String::new();
            if !get.no_headers {
                pending = pending.saturating_sub(1);
                header_buf = Self::header_buf(found, is_batch.then_some((pending, last)));
            }
            answer.push((header_buf, found.payload.clone()));
            (seq, last) = (found.seq + 1, found.seq);
            bytes += (found.subject.len() + found.headers.len() + found.payload.len()) as i64;
            if get.max_bytes != 0 && bytes >= get.max_bytes {
                break;
            }
        }
        if is_batch {
            let end = format!("204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}");
            answer.extend(status(&end));
        }
        answer
    }

    fn lasts(&self, get: &PendingGet, patterns: &[&str]) -> Answer {
        let mut up_to = get.up_to_seq;
        if let Some(time) = get.up_to_time {
            up_to = self.seq_at(time);
            if up_to <= self.first() {
                return status("404 No Results");
            }
            up_to -= 1;
        }
        if up_to == 0 {
            up_to = self.last;
        }
        let mut found: Vec<&Stored> = SUBJECTS
            .iter()
            .filter(|subject| patterns.iter().any(|pattern| is_match(pattern, subject)))
            .filter_map(|subject| self.stored.iter().rfind(|s| s.subject == *subject && s.seq <= up_to))
            .collect();
        if found.is_empty() || up_to > self.last && self.is_file {
            return status("404 No Results");
        }
        found.sort_by_key(|stored| stored.seq);
        let (mut answer, mut bytes, mut last, mut pending) = (Vec::new(), 0, 0, found.len() as u64);
        for stored in found {
            pending -= 1;
            if stored.seq < get.seq {
                continue;
            }
            answer.push((Self::header_buf(stored, Some((pending, last))), stored.payload.clone()));
            last = stored.seq;
            bytes += (stored.subject.len() + stored.headers.len() + stored.payload.len()) as i64;
            if get.max_bytes != 0 && bytes >= get.max_bytes || answer.len() as i64 == get.batch {
                break;
            }
        }
        let end = format!("204 EOB\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}");
        answer.extend(status(&format!("{end}\r\nNats-UpTo-Sequence: {up_to}")));
        answer
    }
}

#[derive(Clone, Debug)]
struct PendingGet {
    seq: Seq,
    last_for: Option<&'static str>,
    next_for: Option<&'static str>,
    batch: i64,
    max_bytes: i64,
    start_time: Option<Timestamp>,
    multi: Option<Vec<&'static str>>,
    up_to_seq: Seq,
    up_to_time: Option<Timestamp>,
    no_headers: bool,
}

impl PendingGet {
    fn body(&self) -> String {
        let time = |time: Option<Timestamp>| {
            time.map(|time| jiff::Timestamp::from_nanosecond(i128::from(time)).unwrap().to_string())
        };
        json!({
            "seq": self.seq,
            "last_by_subj": self.last_for,
            "next_by_subj": self.next_for,
            "batch": self.batch,
            "max_bytes": self.max_bytes,
            "start_time": time(self.start_time),
            "multi_last": self.multi,
            "up_to_seq": self.up_to_seq,
            "up_to_time": time(self.up_to_time),
            "no_hdr": self.no_headers,
        })
        .to_string()
    }
}

/// Mostly not given.
fn seldom<T: Clone + std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.25, value)
}

fn get() -> impl Strategy<Value = PendingGet> {
    let pattern = || prop::sample::select(&PATTERNS[..]);
    let which = (
        seldom(0..45_u64),
        seldom(pattern()),
        seldom(pattern()),
        seldom(0..50_i64).prop_map(|time| time.map(|time| time * 10)),
        seldom(prop::collection::vec(pattern(), 0..4)),
    );
    let extent = (
        prop_oneof![3 => Just(0), 1 => -2..50_i64],
        prop_oneof![4 => Just(0), 1 => -1..300_i64],
        seldom(0..45_u64),
        seldom(0..50_i64).prop_map(|time| time.map(|time| time * 10)),
        prop::bool::weighted(0.2),
    );
    (which, extent).prop_map(|((seq, last_for, next_for, start_time, multi), extent)| {
        let (batch, max_bytes, up_to_seq, up_to_time, no_headers) = extent;
        PendingGet {
            seq: seq.unwrap_or(0),
            last_for,
            next_for,
            batch,
            max_bytes,
            start_time,
            multi,
            up_to_seq: up_to_seq.unwrap_or(0),
            up_to_time,
            no_headers,
        }
    })
}

/// A stream and what is left of it: messages by their subjects, and which of them were deleted.
fn fill(mut bench: Bench, messages: &[usize], deleted: &[Seq], is_file: bool) -> (Bench, Twin) {
    let mut stored = Vec::new();
    for (at, subject) in messages.iter().enumerate() {
        let seq = at as Seq + 1;
        let subject = SUBJECTS[*subject];
        let headers = if at % 2 == 0 { String::new() } else { format!("NATS/1.0\r\nN: {at}\r\n\r\n") };
        let payload = "x".repeat(at % 5 * 9);
        // Pairs share a time.
        let time = at as Timestamp / 2 * 20 + 1;
        bench.put(subject, &headers, &payload, time);
        stored.push(Stored { seq, time, subject, headers, payload });
    }
    for seq in deleted {
        bench.delete(*seq);
    }
    stored.retain(|stored| !deleted.contains(&stored.seq));
    (bench, Twin { stored, last: messages.len() as Seq, is_file })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn answers_are_those_of_the_twin(
        messages in prop::collection::vec(0..SUBJECTS.len(), 0..40),
        deleted in prop::collection::vec(1..40_u64, 0..12),
        requests in prop::collection::vec((get(), 1..600_usize), 1..40),
        warm in prop_oneof![Just(usize::MAX), 0..20_usize],
    ) {
        for is_file in [false, true] {
            let bench = if is_file { Bench::in_files() } else { Bench::in_memory() };
            let (bench, twin) = fill(bench, &messages, &deleted, is_file);
            bench.disk.cool_after(warm);
            for (get, slice) in &requests {
                let body = get.body();
                let answer = bench.ask_in_slices("", "", body.as_bytes(), *slice);
                prop_assert_eq!(answer, twin.answer(get), "{} in files: {}", body, is_file);
            }
        }
    }
}
