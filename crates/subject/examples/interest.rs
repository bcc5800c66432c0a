//! Measures the interest index: `cargo run --release -p myelin-subject --example interest`.
//!
//! Prints nanoseconds per lookup and change, and bytes per subscription inside the index.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use myelin_subject::{Interest, Matched, Subscribed};

struct Sub {
    subject: Box<[u8]>,
}

impl Subscribed for Sub {
    fn subject(&self) -> &[u8] {
        &self.subject
    }

    fn queue(&self) -> Option<&[u8]> {
        None
    }
}

type Subs = Vec<Arc<Sub>>;

/// A small generator of numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
    }
}

fn main() {
    let mut random = Random(7);
    literals(&mut random, 1_000);
    literals(&mut random, 100_000);
    wildcards(&mut random);
    inboxes(&mut random, 1_000);
    inboxes(&mut random, 100_000);
    one_subject();
    memory("literals", |n| format!("orders.region{}.customer{n}", n % 97));
    memory("_INBOX.<id>.*", |n| format!("_INBOX.{n:022}.*"));
}

fn literals(random: &mut Random, count: usize) {
    let subs = subs(count, |n| format!("orders.region{}.customer{n}", n % 97));
    let index = Interest::new();
    let insert = time(|| subs.iter().for_each(|m| index.insert(m.clone())));
    report(&format!("{count} literals: insert"), insert, count);
    // Copies: a subject that was just read from a socket is warm, its subscription is not.
    let subjects: Vec<_> =
        (0..200_000).map(|_| subs[random.next() as usize % count].subject.clone()).collect();
    lookup(&format!("{count} literals: collect, hit"), &index, &subjects);
    let misses: Vec<Box<[u8]>> =
        (0..200_000).map(|_| format!("orders.nowhere.{}", random.next()).into_bytes().into()).collect();
    lookup(&format!("{count} literals: collect, miss"), &index, &misses);
    index.insert(subs_of("audit.*.done"));
    lookup(&format!("{count} literals and a foreign wildcard: collect"), &index, &subjects);
    index.insert(subs_of(">"));
    lookup(&format!("{count} literals and `>`: collect"), &index, &subjects);
    let stamp = index.collect(b"orders.x", &mut Matched::new());
    let current = time(|| (0..1_000_000).for_each(|_| assert!(black_box(&index).is_current(&stamp))));
    report("is_current", current, 1_000_000);
    let remove = time(|| subs.iter().for_each(|m| assert!(index.remove(m))));
    report(&format!("{count} literals: remove"), remove, count);
}

fn wildcards(random: &mut Random) {
    let subs = subs(1_000, |n| match n % 3 {
        0 => format!("site{}.*.temp{}", n % 10, n),
        1 => format!("site{}.line{}.>", n % 10, n),
        _ => format!("site{}.line{}.*", n % 10, n),
    });
    let index = Interest::new();
    let insert = time(|| subs.iter().for_each(|m| index.insert(m.clone())));
    report("1000 wildcards: insert", insert, 1_000);
    let subjects: Vec<Box<[u8]>> = (0..200_000)
        .map(|_| {
            let n = random.next() % 1_000;
            format!("site{}.line{n}.temp{}", n % 10, random.next() % 1_000).into_bytes().into()
        })
        .collect();
    lookup("1000 wildcards: collect", &index, &subjects);
    let remove = time(|| subs.iter().for_each(|m| assert!(index.remove(m))));
    report("1000 wildcards: remove", remove, 1_000);
}

fn inboxes(random: &mut Random, count: usize) {
    let subs = subs(count, |n| format!("_INBOX.{n:022}.*"));
    let index = Interest::new();
    let insert = time(|| subs.iter().for_each(|m| index.insert(m.clone())));
    report(&format!("{count} inboxes: insert"), insert, count);
    let replies: Vec<Box<[u8]>> = (0..200_000)
        .map(|_| format!("_INBOX.{:022}.{}", random.next() % count as u64, random.next()).into_bytes().into())
        .collect();
    lookup(&format!("{count} inboxes: collect a reply"), &index, &replies);
    let remove = time(|| subs.iter().for_each(|m| assert!(index.remove(m))));
    report(&format!("{count} inboxes: remove"), remove, count);
}

fn one_subject() {
    let subs = subs(100_000, |_| "news".into());
    let index = Interest::new();
    let insert = time(|| subs.iter().for_each(|m| index.insert(m.clone())));
    report("100000 members of one subject: insert", insert, subs.len());
    let remove = time(|| subs.iter().for_each(|m| assert!(index.remove(m))));
    report("100000 members of one subject: remove", remove, subs.len());
}

fn memory(what: &str, subject: impl Fn(usize) -> String) {
    let subs = subs(1_000_000, subject);
    let before = resident();
    let index = Interest::new();
    let (mut worst, start) = (Duration::ZERO, Instant::now());
    for m in &subs {
        let one = time(|| index.insert(m.clone()));
        worst = worst.max(one);
    }
    let rate = subs.len() as f64 / start.elapsed().as_secs_f64();
    let bytes = resident().saturating_sub(before) as f64 / subs.len() as f64;
    println!("1000000 {what}: {bytes:.1} bytes each, {rate:.0} inserts/s, longest insert {worst:?}");
}

fn lookup(what: &str, index: &Interest<Arc<Sub>>, subjects: &[Box<[u8]>]) {
    let mut matched = Matched::new();
    let mut found = 0;
    let rounds: Vec<_> = (0..5)
        .map(|_| {
            time(|| {
                for subject in subjects {
                    index.collect(subject, &mut matched);
                    found += matched.plain.len();
                }
            })
        })
        .collect();
    let best = rounds.into_iter().min().unwrap_or_default();
    report(
        &format!("{what} ({:.2} found)", found as f64 / subjects.len() as f64 / 5.0),
        best,
        subjects.len(),
    );
}

fn subs(count: usize, subject: impl Fn(usize) -> String) -> Subs {
    (0..count).map(|n| subs_of(&subject(n))).collect()
}

fn subs_of(subject: &str) -> Arc<Sub> {
    Arc::new(Sub { subject: subject.as_bytes().into() })
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn report(what: &str, took: Duration, times: usize) {
    println!("{what}: {:.1} ns", took.as_nanos() as f64 / times as f64);
}

/// Resident bytes of this process; 0 where `/proc` does not say.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}
