//! The buffer between those who log and the thread that writes.
//!
//! Nobody waits for room: shards log, and a full disk or a pipe that is not read must not hold up
//! messages. A line that finds the buffer full is lost, which is counted and told in the log as
//! soon as something is written again. A lock is held only to copy bytes. The thread takes the
//! whole buffer at once, so that a burst of lines costs one write.

use myelin_stdx::sync::lock;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::line::{Format, Level};
use crate::os_error::words;
use crate::supervise::{self, SupervisedPart};

/// Bytes of lines that may wait to be written: what a trace makes while a disk is busy for a
/// moment.
const CAPACITY: usize = 4 << 20;

/// A buffer that grew beyond this in a burst is given back.
const KEPT: usize = 64 << 10;

/// How long [`LogWriter::flush`] waits.
const FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Lines one behind the other; a line may hold newlines of its own.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines {
    pub(super) fn push(&mut self, line: &str) {
        self.text.extend_from_slice(line.as_bytes());
        self.ends.push(self.text.len());
    }

    /// All of them, as they are to be written.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One by one.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.text[*start..*end])
    }

    fn clear(&mut self) {
        if self.text.capacity() > KEPT {
            *self = Self::default();
        }
        self.text.clear();
        self.ends.clear();
    }
}

/// Where lines go in the end. Used by one thread only, and may block.
pub(super) trait Sink: Send {
    /// Writes whole lines.
    fn write(&mut self, lines: &Lines) -> io::Result<()>;

    /// Opens the destination again; `false` when that means nothing to it. On an error it stays as
    /// it was.
    fn reopen(&mut self) -> io::Result<bool>;
}

/// Counts of lines that could not be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Lines dropped because too many waited to be written.
    pub dropped_lines: u64,
    /// Writes that the operating system refused, each of one or more lines.
    pub failed_writes: u64,
}

/// Owns the buffer and the thread.
pub(super) struct LogWriter {
    shared: Arc<WriterShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct WriterShared {
    pending: Mutex<PendingLines>,
    /// Rung when the thread has something to do.
    work: Condvar,
    /// Rung when it has nothing left.
    idle: Condvar,
    dropped_lines: AtomicU64,
    failed_writes: AtomicU64,
}

/// A change of the sink.
struct Swap {
    /// Lines that are still for the old target.
    before: Lines,
    sink: Box<dyn Sink>,
    format: Format,
}

#[derive(Default)]
struct PendingLines {
    lines: Lines,
    swaps: VecDeque<Swap>,
    /// Lines dropped since the last loss was logged.
    dropped: u64,
    reopen: bool,
    closing: bool,
    /// Whether the thread is between taking the text and having written it.
    busy: bool,
}

impl PendingLines {
    fn has_work(&self) -> bool {
        !self.lines.is_empty() || !self.swaps.is_empty() || self.reopen
    }
}

impl LogWriter {
    pub(super) fn start(sink: Box<dyn Sink>, format: Format) -> io::Result<Self> {
        let shared = Arc::<WriterShared>::default();
        let mut worker = Worker { shared: Arc::clone(&shared), sink, format };
        let thread = supervise::thread(SupervisedPart::Log, move || worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues a line, or loses it when too much waits already. Never waits for the destination.
    pub(super) fn append(&self, line: &str) {
        let mut pending = self.shared.lock();
        if pending.lines.text.len() >= CAPACITY {
            pending.dropped += 1;
            self.shared.dropped_lines.fetch_add(1, Relaxed);
            return;
        }
        let was_empty = pending.lines.is_empty();
        pending.lines.push(line);
        drop(pending);
        if was_empty {
            self.shared.work.notify_one();
        }
    }

    /// Lines from now on go to `sink`; what waits still goes to the old one. `format` is that of
    /// the thread's own lines.
    pub(super) fn replace(&self, sink: Box<dyn Sink>, format: Format) {
        let mut pending = self.shared.lock();
        let before = std::mem::take(&mut pending.lines);
        pending.swaps.push_back(Swap { before, sink, format });
        drop(pending);
        self.shared.work.notify_one();
    }

    pub(super) fn reopen(&self) {
        self.shared.lock().reopen = true;
        self.shared.work.notify_one();
    }

    /// Waits, for a limited time, until nothing waits to be written; whether that came to be.
    pub(super) fn flush(&self) -> bool {
        let deadline = Instant::now() + FLUSH_DEADLINE;
        let mut pending = self.shared.lock();
        while pending.busy || pending.has_work() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let woken = self.shared.idle.wait_timeout(pending, left);
            pending = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub(super) fn losses(&self) -> Losses {
        Losses {
            dropped_lines: self.shared.dropped_lines.load(Relaxed),
            failed_writes: self.shared.failed_writes.load(Relaxed),
        }
    }
}

impl Drop for LogWriter {
    /// Ends the thread, unless its last write blocks: then the process may end without it.
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        if self.flush()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("losses", &self.losses()).finish_non_exhaustive()
    }
}

impl WriterShared {
    /// A panic elsewhere leaves the buffer usable: at worst a line is cut.
    fn lock(&self) -> MutexGuard<'_, PendingLines> {
        lock(&self.pending)
    }
}

/// The thread's side.
struct Worker {
    shared: Arc<WriterShared>,
    sink: Box<dyn Sink>,
    format: Format,
}

impl Worker {
    fn run(&mut self) {
        let mut lines = Lines::default();
        while let Some(work) = self.take(&mut lines) {
            if supervise::guard(SupervisedPart::Log, || self.work(work, &mut lines)).is_none() {
                self.shared.failed_writes.fetch_add(1, Relaxed);
            }
            lines.clear();
        }
    }

    fn work(&mut self, work: WriterWork, lines: &mut Lines) {
        for swap in work.swaps {
            self.write(&swap.before);
            (self.sink, self.format) = (swap.sink, swap.format);
        }
        if work.reopen {
            let line = self.reopened();
            lines.push(&line);
        }
        if work.dropped > 0 {
            let text = format!("{} log lines were lost: writing them is too slow", work.dropped);
            lines.push(&self.format.line(Level::Warn, &text));
        }
        self.write(lines);
    }

    fn write(&mut self, lines: &Lines) {
        if !lines.is_empty() && self.sink.write(lines).is_err() {
            self.shared.failed_writes.fetch_add(1, Relaxed);
        }
    }

    /// Waits for work and moves the waiting lines into `batch`; `None` when the log ends.
    fn take(&self, batch: &mut Lines) -> Option<WriterWork> {
        let mut pending = self.shared.lock();
        pending.busy = false;
        while !pending.has_work() {
            self.shared.idle.notify_all();
            if pending.closing {
                return None;
            }
            pending = self.shared.work.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        pending.busy = true;
        std::mem::swap(&mut pending.lines, batch);
        Some(WriterWork {
            swaps: std::mem::take(&mut pending.swaps),
            reopen: std::mem::take(&mut pending.reopen),
            dropped: std::mem::take(&mut pending.dropped),
        })
    }

    /// Opens the sink again and words the outcome. What waited before goes to the new destination
    /// too.
    fn reopened(&mut self) -> String {
        match self.sink.reopen() {
            Ok(true) => self.format.line(Level::Info, &"File log re-opened"),
            Ok(false) => self.format.line(Level::Info, &"File log re-open ignored, not a file logger"),
            Err(error) => {
                self.format.line(Level::Error, &format!("File log re-open failed: {}", words(&error)))
            }
        }
    }
}

/// Work of the thread besides writing a batch.
struct WriterWork {
    swaps: VecDeque<Swap>,
    reopen: bool,
    dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::LogClock;
    use std::sync::mpsc;

    /// Hands every batch over, and waits before each write until it is let go.
    struct Gate {
        written: mpsc::Sender<String>,
        go: mpsc::Receiver<()>,
    }

    impl Sink for Gate {
        fn write(&mut self, lines: &Lines) -> io::Result<()> {
            let _ = self.go.recv();
            let _ = self.written.send(String::from_utf8_lossy(lines.text()).into_owned());
            Ok(())
        }

        fn reopen(&mut self) -> io::Result<bool> {
            Err(io::Error::other("no"))
        }
    }

    fn sink() -> (Box<Gate>, mpsc::Receiver<String>, mpsc::Sender<()>) {
        let (written, batches) = mpsc::channel();
        let (open, go) = mpsc::channel();
        (Box::new(Gate { written, go }), batches, open)
    }

    fn gate() -> (LogWriter, mpsc::Receiver<String>, mpsc::Sender<()>) {
        let (sink, batches, open) = sink();
        let writer = LogWriter::start(sink, Format::new(LogClock::Off, 1, false)).unwrap();
        (writer, batches, open)
    }

    /// Waits until the thread has taken the first line, and so stands at the gate.
    fn stands_at_gate(writer: &LogWriter) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !writer.shared.lock().busy {
            assert!(Instant::now() < deadline, "the line was never taken");
            std::thread::yield_now();
        }
    }

    fn next(batches: &mpsc::Receiver<String>) -> String {
        batches.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn lines_that_wait_are_written_together() {
        let (writer, batches, open) = gate();
        writer.append("0\n");
        stands_at_gate(&writer);
        writer.append("1\n");
        writer.append("2\n");
        drop(open);
        assert_eq!((next(&batches).as_str(), next(&batches).as_str()), ("0\n", "1\n2\n"));
    }

    #[test]
    fn a_blocked_sink_costs_lines_not_time() {
        let (writer, batches, open) = gate();
        let line = "x".repeat(CAPACITY / 4) + "\n";
        writer.append("first\n");
        stands_at_gate(&writer);
        for _ in 0..10 {
            writer.append(&line);
        }
        assert_eq!(writer.losses().dropped_lines, 6);
        assert!(!writer.flush(), "nothing can be written yet");
        drop(open);
        assert!(writer.flush());
        assert_eq!(next(&batches), "first\n");
        let rest = next(&batches);
        assert!(rest.ends_with("\n[1] [WRN] 6 log lines were lost: writing them is too slow\n"));
        assert_eq!(rest.matches("x\n").count(), 4);
    }

    /// Shards log: as long as one waits nothing is delivered.
    #[test]
    fn nobody_waits_for_a_sink_that_takes_nothing() {
        let line = "x".repeat(CAPACITY) + "\n";
        let mut quickest = Duration::MAX;
        for _ in 0..5 {
            let (writer, _batches, open) = gate();
            writer.append("first\n");
            stands_at_gate(&writer);
            writer.append(&line);
            let began = Instant::now();
            writer.append("lost\n");
            quickest = quickest.min(began.elapsed());
            assert_eq!(writer.losses().dropped_lines, 1);
            drop(open);
        }
        assert!(quickest < Duration::from_millis(20), "{quickest:?}");
    }

    /// Panics at its first write.
    struct Broken(mpsc::Sender<String>);

    impl Sink for Broken {
        fn write(&mut self, lines: &Lines) -> io::Result<()> {
            let text = String::from_utf8_lossy(lines.text()).into_owned();
            assert!(text != "first\n", "a test asked for it");
            let _ = self.0.send(text);
            Ok(())
        }

        fn reopen(&mut self) -> io::Result<bool> {
            Ok(false)
        }
    }

    #[test]
    fn a_panic_costs_the_lines_that_were_being_written() {
        let (written, batches) = mpsc::channel();
        let writer =
            LogWriter::start(Box::new(Broken(written)), Format::new(LogClock::Off, 1, false)).unwrap();
        writer.append("first\n");
        assert!(writer.flush());
        assert_eq!(writer.losses().failed_writes, 1);
        writer.append("second\n");
        assert_eq!(next(&batches), "second\n");
    }

    #[test]
    fn a_new_sink_gets_what_comes_after_it_and_nothing_else() {
        let (writer, batches, open) = gate();
        writer.append("0\n");
        stands_at_gate(&writer);
        writer.append("1\n");
        let (new, new_batches, new_open) = sink();
        writer.replace(new, Format::new(LogClock::Off, 2, false));
        writer.append("2\n");
        drop((open, new_open));
        writer.reopen();
        assert!(writer.flush());
        drop(writer);
        assert_eq!(batches.iter().collect::<String>(), "0\n1\n");
        let last = new_batches.iter().collect::<String>();
        assert_eq!(last, "2\n[2] [ERR] File log re-open failed: no\n");
    }

    #[test]
    fn a_failed_reopen_is_logged() {
        let (writer, batches, open) = gate();
        drop(open);
        writer.reopen();
        assert_eq!(next(&batches), "[1] [ERR] File log re-open failed: no\n");
    }

    #[test]
    fn ending_does_not_wait_for_a_blocked_sink() {
        let (writer, _batches, open) = gate();
        writer.append("stuck\n");
        drop(writer);
        drop(open);
    }
}
