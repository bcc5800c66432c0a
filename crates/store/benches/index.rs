//! Measures the index of a stream at a million entries:
//! `cargo bench -p myelin-store --bench index [entries]`.
//!
//! Prints nanoseconds for each operation, the longest single call, and bytes for each entry. It is
//! no test: numbers depend on the machine. The limits of memory are held by the tests of
//! `src/index`.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use myelin_store::index::{Deleted, ExpiryIndex, SubjectIndex, SubjectScan, SubjectState};

fn main() {
    let entries = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_000_000);
    println!("entries: {entries}");
    memory(entries);
    subjects("random order", &shuffled(entries));
    subjects("ascending", &(0..entries).collect::<Vec<_>>());
    short_lived(entries);
    deleted(entries);
    expiry(entries);
}

/// Time that this thread has run, in nanoseconds: machines that build and measure at once are
/// shared. Where the kernel does not tell, time on the wall.
fn run_time(begin: Instant) -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = schedule.and_then(|text| text.split(' ').next()?.parse().ok());
    ran.unwrap_or_else(|| begin.elapsed().as_nanos() as u64)
}

/// Clock of a loop of operations.
struct Clock {
    begin: Instant,
    begun: u64,
    /// On the wall: on a shared machine mostly the time slice of somebody else.
    longest: Duration,
    calls: u32,
}

impl Clock {
    fn new() -> Self {
        let begin = Instant::now();
        Self { begin, begun: run_time(begin), longest: Duration::ZERO, calls: 0 }
    }

    /// Runs a loop of `calls` without looking at single ones, and prints.
    fn plain(what: &str, calls: usize, run: impl FnOnce()) {
        let mut clock = Self::new();
        run();
        clock.calls = calls as u32;
        clock.print(what);
    }

    fn one(&mut self, run: impl FnOnce()) {
        let begin = Instant::now();
        run();
        self.longest = self.longest.max(begin.elapsed());
        self.calls += 1;
    }

    fn print(&self, what: &str) {
        let total = run_time(self.begin) - self.begun;
        let (each, total) = (total as f64 / f64::from(self.calls.max(1)), total as f64 / 1e6);
        let longest = self.longest.as_micros();
        println!("  {what:<44} {each:>9.0} ns each {total:>9.2} ms in all  longest {longest:>6} us");
    }
}

/// Measures this machine's memory, to read the rest by: an update without warming waits for about
/// two such reads.
fn memory(entries: usize) {
    let words: Vec<u64> = (0..8 << 20).collect();
    let next = |at: u64| at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let read = |at: u64| words[(at >> 33) as usize % words.len()];
    println!("memory");
    Clock::plain("read of 64 MiB at random, each waits", entries, || {
        black_box((0..entries).fold(1, |at, _| next(at ^ read(at))));
    });
    Clock::plain("read of 64 MiB at random, overlapping", entries, || {
        black_box((0..entries).fold((1, 0), |(at, sum), _| (next(at), sum ^ read(at))));
    });
}

fn shuffled(entries: usize) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..entries).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..entries).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        numbers.swap(at, (random >> 33) as usize % (at + 1));
    }
    numbers
}

/// A thousand times so many subjects below `orders`, and what a real one looks like.
fn text(number: usize) -> String {
    format!("orders.customer-{:04}.item.{:06}", number % 1000, number / 1000)
}

fn subjects(what: &str, numbers: &[usize]) {
    println!("subjects, {what}");
    let texts: Vec<_> = numbers.iter().map(|&number| text(number)).collect();
    let text_bytes: usize = texts.iter().map(String::len).sum();
    let mut index = SubjectIndex::new(1);
    insert(&mut index, &texts);
    let beyond = (index.memory_bytes() - text_bytes) as f64 / texts.len() as f64;
    println!("  {:<44} {beyond:>9.1} bytes each beyond the text, all touched", "memory");
    let mut clock = Clock::new();
    clock.one(|| drop(black_box(index.take_touched())));
    clock.print("take_touched of everything");
    updates(&mut index, &texts);
    questions(&index, "not settled");
    let mut clock = Clock::new();
    let mut is_more = true;
    while is_more {
        clock.one(|| is_more = index.defragment(4096));
    }
    clock.print("settle, by 4096");
    questions(&index, "settled");
    load(&texts);
    remove(index, &texts);
}

fn insert(index: &mut SubjectIndex, texts: &[String]) {
    let mut fresh = SubjectIndex::new(1);
    Clock::plain("enter + appended, new", texts.len(), || {
        for (seq, text) in texts.iter().enumerate() {
            let id = fresh.enter(text.as_bytes());
            fresh.appended(id, seq as u64 + 1, 1);
        }
    });
    let mut fresh = SubjectIndex::new(1);
    Clock::plain("the same, warmed by 256", texts.len(), || {
        for (batch, texts) in texts.chunks(256).enumerate() {
            fresh.warm(texts.iter().map(String::as_bytes));
            for (at, text) in texts.iter().enumerate() {
                let id = fresh.enter(text.as_bytes());
                fresh.appended(id, (batch * 256 + at) as u64 + 1, 1);
            }
        }
    });
    drop(fresh);
    let mut clock = Clock::new();
    let mut worst = 0.0_f64;
    for (seq, text) in texts.iter().enumerate() {
        clock.one(|| {
            let id = index.enter(text.as_bytes());
            index.appended(id, seq as u64 + 1, 1);
        });
        if seq > 100_000 && seq % 1000 == 0 {
            let bytes: usize = texts[..=seq].iter().map(String::len).sum::<usize>();
            worst = worst.max((index.memory_bytes() - bytes) as f64 / seq as f64);
        }
    }
    clock.print("the same, each call timed");
    println!("  {:<44} {worst:>9.1} bytes each beyond the text", "worst memory on the way (from 100,000)");
}

fn updates(index: &mut SubjectIndex, texts: &[String]) {
    let order = shuffled(texts.len());
    // Texts in the order in which they are asked for, as they would stand in a read buffer.
    let asked: Vec<_> = order.iter().map(|&at| texts[at].clone()).collect();
    let begin = texts.len() as u64;
    Clock::plain("update: enter + appended, random", texts.len(), || {
        for (seq, text) in asked.iter().enumerate() {
            let id = index.enter(text.as_bytes());
            index.appended(id, begin + seq as u64 + 1, 1);
        }
    });
    Clock::plain("the same, warmed by 256", texts.len(), || {
        for (batch, texts) in asked.chunks(256).enumerate() {
            index.warm(texts.iter().map(String::as_bytes));
            for (at, text) in texts.iter().enumerate() {
                let id = index.enter(text.as_bytes());
                index.appended(id, 2 * begin + (batch * 256 + at) as u64 + 1, 1);
            }
        }
    });
    Clock::plain("find, random", texts.len(), || {
        for text in &asked {
            black_box(index.find(text.as_bytes()));
        }
    });
    Clock::plain("find, in order of insertion", texts.len(), || {
        for text in texts {
            black_box(index.find(text.as_bytes()));
        }
    });
    Clock::plain("find, missing", texts.len(), || {
        for _ in texts {
            black_box(index.find(b"orders.customer-0000.nothing"));
        }
    });
    index.take_touched();
}

fn questions(index: &SubjectIndex, how: &str) {
    for pattern in ["orders.*.item.000001", "orders.customer-0500.>", "b.*.c", "orders.*.nothing", ">"] {
        let mut clock = Clock::new();
        let mut found = 0;
        clock.one(|| {
            index.for_each_matching(pattern.as_bytes(), None, &mut |_, _| {
                found += 1;
                ControlFlow::Continue(())
            });
        });
        clock.print(&format!("{pattern} ({found}), {how}"));
    }
    let mut clock = Clock::new();
    let mut place: Option<Vec<u8>> = None;
    loop {
        let mut scan = SubjectScan::Done;
        clock.one(|| {
            scan = index.scan_matching(b">", place.as_deref(), 1000, &mut |_, _| ControlFlow::Continue(()));
        });
        let SubjectScan::Paused(after) = scan else { break };
        place = Some(after);
    }
    clock.print(&format!("> by slices of 1000, {how}"));
    let mut clock = Clock::new();
    clock.one(|| assert!(index.count_matching(b">").0 > 0));
    clock.print(&format!("count_matching >, {how}"));
}

fn load(texts: &[String]) {
    let sorted: std::collections::BTreeSet<_> = texts.iter().collect();
    // Texts one behind the other in memory, as a file has them.
    let sorted: Vec<_> = sorted.into_iter().cloned().collect();
    let state = SubjectState { count: 1, first: 1, last: 1, first_exact: true, last_exact: true };
    let mut index = SubjectIndex::new(1);
    let mut clock = Clock::new();
    clock.one(|| assert_eq!(index.load_sorted(sorted.iter().map(|text| (text.as_bytes(), state))), 0));
    clock.print("load_sorted");
    let text_bytes: usize = sorted.iter().map(String::len).sum();
    let beyond = (index.memory_bytes() - text_bytes) as f64 / sorted.len() as f64;
    println!("  {:<44} {beyond:>9.1} bytes each beyond the text", "memory");
}

fn remove(mut index: SubjectIndex, texts: &[String]) {
    let mut seq = 0;
    Clock::plain("find + removed, not the last", texts.len(), || {
        for text in texts {
            if let Some(id) = index.find(text.as_bytes()) {
                seq += 1;
                index.removed(id, seq);
            }
        }
    });
    for text in texts {
        while let Some(id) = index.find(text.as_bytes()) {
            index.removed(id, index.state(id).last);
        }
    }
    index.take_touched();
    let mut clock = Clock::new();
    let mut is_more = true;
    while is_more {
        clock.one(|| is_more = index.recycle_some(4096));
    }
    clock.print("recycle_some of everything, by 4096");
    println!("  {:<44} {:>9} bytes", "memory afterwards", index.memory_bytes());
}

/// Subjects that live for a thousand messages.
fn short_lived(entries: usize) {
    println!("subjects that come and go, 1000 at a time");
    let mut index = SubjectIndex::new(1);
    let mut most = 0;
    let texts: Vec<_> = (0..entries).map(text).collect();
    Clock::plain("enter, appended, removed, recycled", entries, || {
        for seq in 0..entries {
            let id = index.enter(texts[seq].as_bytes());
            index.appended(id, seq as u64 + 1, 1);
            if seq >= 1000
                && let Some(old) = index.find(texts[seq - 1000].as_bytes())
            {
                index.removed(old, seq as u64 - 999);
            }
            if seq % 4096 == 0 {
                most = most.max(index.memory_bytes());
                index.take_touched();
                while index.recycle_some(1024) {}
            }
        }
    });
    println!("  {:<44} {most:>9} bytes", "most memory");
}

fn deleted(entries: usize) {
    println!("deleted");
    let mut deleted = Deleted::new();
    let numbers = shuffled(entries);
    Clock::plain("insert, every other sequence, random", entries, || {
        for &number in &numbers {
            deleted.insert(number as u64 * 2 + 1);
        }
    });
    Clock::plain("contains, random", entries, || {
        for &number in &numbers {
            black_box(deleted.contains(number as u64));
        }
    });
    let mut cursor = deleted.cursor();
    Clock::plain("cursor, in order, every other deleted", entries * 2, || {
        for seq in 0..entries as u64 * 2 {
            black_box(cursor.contains(seq));
        }
    });
    Clock::plain("ranges", entries, || {
        black_box(deleted.ranges().count());
    });
    let mut clock = Clock::new();
    clock.one(|| deleted.optimize());
    clock.print("optimize");
    println!("  {:<44} {:>9} bytes", "memory", deleted.memory_bytes());
    let mut clock = Clock::new();
    for seq in 0..entries as u64 * 2 {
        clock.one(|| deleted.remove_below(seq));
    }
    clock.print("remove_below, one by one");
    let few = Deleted::load((1..1000).map(|n| n * 1000..=n * 1000 + 5));
    let mut cursor = few.cursor();
    Clock::plain("cursor, in order, few deleted", entries, || {
        for seq in 0..entries as u64 {
            black_box(cursor.contains(seq));
        }
    });
}

fn expiry(entries: usize) {
    for (what, numbers) in [("random", shuffled(entries)), ("ascending", (0..entries).collect())] {
        println!("expiry, {what} deadlines");
        let mut expiry = ExpiryIndex::new();
        let mut clock = Clock::new();
        for (seq, &number) in numbers.iter().enumerate() {
            clock.one(|| assert!(expiry.insert(seq as u64, number as i64 * 1000)));
        }
        clock.print("insert");
        println!("  {:<44} {:>9.1} bytes each", "memory", expiry.memory_bytes() as f64 / entries as f64);
        let mut clock = Clock::new();
        for (seq, &number) in numbers.iter().enumerate().step_by(2) {
            clock.one(|| assert!(expiry.remove(seq as u64, number as i64 * 1000)));
        }
        clock.print("remove");
        let mut clock = Clock::new();
        let mut due = Vec::with_capacity(1000);
        let mut is_more = true;
        while is_more {
            clock.one(|| {
                due.clear();
                is_more = expiry.take_due(i64::MAX, 1000, &mut due);
            });
        }
        clock.print("take_due, by 1000");
    }
}
