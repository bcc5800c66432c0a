//! How far a backup or a restore is: a bar where somebody sees it, else a line now and then.
//!
//! The bar and those lines go to the standard error; a line for each stream that is done goes to
//! the standard output, unless that is for JSON.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::Thread;
use std::time::{Duration, Instant};

use myelin_loadgen::units::{binary, log};

use crate::backup::arguments::ProgressFlags;
use crate::screen::say;

/// Characters within the brackets of the bar.
const WIDTH: usize = 30;
/// How often the bar moves, and how often there is a line where there is no bar.
const STEP: Duration = Duration::from_millis(100);
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Progress of a number of streams.
pub(super) struct TransferProgress {
    /// Activity, in a word or two.
    doing: &'static str,
    streams: usize,
    whole: AtomicUsize,
    /// Bytes that are expected, as far as anybody knows.
    total: u64,
    done: AtomicU64,
    began: Instant,
    has_bar: bool,
    has_lines: bool,
    is_json: bool,
    is_over: AtomicBool,
    /// Held by whoever writes to the terminal.
    terminal: Mutex<()>,
}

impl TransferProgress {
    /// Progress of so many streams with so many bytes.
    pub(super) fn new(doing: &'static str, (streams, total): (usize, u64), flags: &ProgressFlags) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        Self {
            doing,
            streams,
            whole: AtomicUsize::new(0),
            total,
            done: AtomicU64::new(0),
            began: Instant::now(),
            has_bar: is_seen && !flags.no_progress,
            has_lines: !is_seen && !flags.no_progress,
            is_json: flags.json,
            is_over: AtomicBool::new(false),
            terminal: Mutex::new(()),
        }
    }

    /// Counts bytes.
    pub(super) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Relaxed);
    }

    /// Tells what became of a stream, which is done.
    pub(super) fn tell(&self, line: &str) {
        self.whole.fetch_add(1, Relaxed);
        if self.is_json {
            return;
        }
        let _held = self.terminal.lock();
        if self.has_bar {
            eprint!("\r\x1b[K");
        }
        say(&line);
    }

    /// Shows how far `work` is while it is done.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let shown = scope.spawn(|| self.show());
            // Work that panics is over, too: the scope waits for the thread.
            let _over = Over { progress: self, shown: shown.thread().clone() };
            work()
        })
    }

    fn show(&self) {
        let mut next_line = self.began + BETWEEN_LINES;
        while !self.is_over.load(SeqCst) {
            if self.has_bar {
                let _held = self.terminal.lock();
                eprint!("\r{}\x1b[K", self.bar());
                let _ = std::io::stderr().flush();
            } else if self.has_lines && Instant::now() >= next_line {
                next_line += BETWEEN_LINES;
                log(&format!("{}: {}", self.doing, self.figures()));
            }
            std::thread::park_timeout(STEP);
        }
        if self.has_bar {
            eprint!("\r\x1b[K");
        }
    }

    fn bar(&self) -> String {
        let part = self.done.load(Relaxed) as f64 / self.total.max(1) as f64;
        let filled = (part.min(1.0) * WIDTH as f64) as usize;
        let bar = "=".repeat(filled) + &"-".repeat(WIDTH - filled);
        format!("{} [{bar}] {}", self.doing, self.figures())
    }

    fn figures(&self) -> String {
        let done = self.done.load(Relaxed);
        let rate = done as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
        format!(
            "{} of {} streams, {} of {}, {}/s",
            self.whole.load(Relaxed),
            self.streams,
            binary(done as f64),
            binary(self.total.max(done) as f64),
            binary(rate)
        )
    }
}

/// Ends the thread that shows progress, however the work ends.
struct Over<'a> {
    progress: &'a TransferProgress,
    shown: Thread,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.progress.is_over.store(true, SeqCst);
        self.shown.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;

    #[test]
    fn work_that_panics_is_over() {
        let flags = ProgressFlags { no_progress: true, json: true };
        let progress = TransferProgress::new("Backing up", (1, 1), &flags);
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| progress.during(|| panic!("in the work"))));
            send.send(ended.is_err())
        });
        assert_eq!(receive.recv_timeout(Duration::from_secs(10)), Ok(true));
    }

    #[test]
    fn a_bar_shows_streams_and_bytes() {
        let flags = ProgressFlags { no_progress: true, json: true };
        let progress = TransferProgress::new("Backing up", (4, 2048), &flags);
        progress.add(1024);
        progress.tell("S: done");
        let bar = progress.bar();
        let half =
            format!("Backing up [{}{}] 1 of 4 streams, 1.0 KiB of 2.0 KiB, ", "=".repeat(15), "-".repeat(15));
        assert!(bar.starts_with(&half), "{bar}");
        // More may come than was expected.
        progress.add(4096);
        assert!(progress.bar().contains("5.0 KiB of 5.0 KiB"));
    }
}
