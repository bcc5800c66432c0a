//! The buffer between those who log and the thread that writes.
//!
//! A full buffer is waited for a moment, so that a trace is complete as long as its destination takes it; who
//! waited in vain once is the last to wait until something is written again. A lock is held only to copy
//! bytes. The thread takes the whole buffer at once, so that a burst of lines costs one write.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::line::{Format, Level};
use crate::fault::words;

/// Bytes of lines that may wait to be written.
const CAPACITY: usize = 1 << 20;

/// How long a line that finds as many waits for room before it is dropped.
const PATIENCE: Duration = Duration::from_millis(100);

/// A buffer that grew beyond this in a burst is given back.
const KEPT: usize = 64 << 10;

/// How long [`Writer::flush`] waits.
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

    /// Opens the destination again; `false` when that means nothing to it. On an error it stays as it was.
    fn reopen(&mut self) -> io::Result<bool>;
}

/// What could not be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Lines dropped because too many waited to be written.
    pub dropped_lines: u64,
    /// Writes that the operating system refused, each of one or more lines.
    pub failed_writes: u64,
}

/// Owns the buffer and the thread.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    patience: Duration,
    pending: Mutex<Pending>,
    /// Rung when the thread has something to do.
    work: Condvar,
    /// Rung when it has taken what waited.
    room: Condvar,
    /// Rung when it has nothing left.
    idle: Condvar,
    dropped_lines: AtomicU64,
    failed_writes: AtomicU64,
}

/// A change of the sink.
struct Swap {
    /// What is still for the old one.
    before: Lines,
    sink: Box<dyn Sink>,
    format: Format,
}

#[derive(Default)]
struct Pending {
    lines: Lines,
    swaps: VecDeque<Swap>,
    /// Lines dropped since the last loss was logged.
    dropped: u64,
    reopen: bool,
    closing: bool,
    /// The destination takes nothing: nobody waits for room.
    stuck: bool,
    /// Whether the thread is between taking the text and having written it.
    busy: bool,
}

impl Pending {
    fn has_work(&self) -> bool {
        !self.lines.is_empty() || !self.swaps.is_empty() || self.reopen
    }
}

impl Writer {
    pub(super) fn start(sink: Box<dyn Sink>, format: Format) -> io::Result<Self> {
        Self::with_patience(PATIENCE, sink, format)
    }

    fn with_patience(patience: Duration, sink: Box<dyn Sink>, format: Format) -> io::Result<Self> {
        let shared = Arc::new(Shared { patience, ..Shared::default() });
        let mut worker = Worker { shared: Arc::clone(&shared), sink, format };
        let thread = thread::Builder::new().name("log".to_owned()).spawn(move || worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues a line, or drops it when too much waits already and that does not change soon.
    pub(super) fn append(&self, line: &str) {
        let mut pending = self.shared.with_room();
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

    /// Lines from now on go to `sink`; what waits still goes to the old one. `format` is that of the
    /// thread's own lines.
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

impl Drop for Writer {
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

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("losses", &self.losses()).finish_non_exhaustive()
    }
}

impl Shared {
    /// What waits, once there is room, or after a wait in vain.
    fn with_room(&self) -> MutexGuard<'_, Pending> {
        let pending = self.lock();
        let is_full = |pending: &mut Pending| pending.lines.text.len() >= CAPACITY && !pending.stuck;
        let waited = self.room.wait_timeout_while(pending, self.patience, is_full);
        let (mut pending, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        pending.stuck |= outcome.timed_out();
        pending
    }

    /// A panic elsewhere leaves the buffer usable: at worst a line is cut.
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side.
struct Worker {
    shared: Arc<Shared>,
    sink: Box<dyn Sink>,
    format: Format,
}

impl Worker {
    fn run(&mut self) {
        let mut lines = Lines::default();
        while let Some(work) = self.take(&mut lines) {
            for swap in work.swaps {
                self.write(&swap.before);
                (self.sink, self.format) = (swap.sink, swap.format);
            }
            if work.reopen {
                let line = self.reopened();
                lines.push(&line);
            }
            if work.dropped > 0 {
                let text = format!("{} log lines were dropped: writing them is too slow", work.dropped);
                lines.push(&self.format.line(Level::Warn, &text));
            }
            self.write(&lines);
            lines.clear();
        }
    }

    fn write(&mut self, lines: &Lines) {
        if !lines.is_empty() && self.sink.write(lines).is_err() {
            self.shared.failed_writes.fetch_add(1, Relaxed);
        }
    }

    /// Waits for work and moves the waiting lines into `batch`; `None` when the log ends.
    fn take(&self, batch: &mut Lines) -> Option<Work> {
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
        pending.stuck = false;
        self.shared.room.notify_all();
        std::mem::swap(&mut pending.lines, batch);
        Some(Work {
            swaps: std::mem::take(&mut pending.swaps),
            reopen: std::mem::take(&mut pending.reopen),
            dropped: std::mem::take(&mut pending.dropped),
        })
    }

    /// Opens the sink again and words the outcome. What waited before goes to the new destination too.
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

/// What the thread has to do besides writing a batch.
struct Work {
    swaps: VecDeque<Swap>,
    reopen: bool,
    dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::Clock;
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

    fn gate() -> (Writer, mpsc::Receiver<String>, mpsc::Sender<()>) {
        let (sink, batches, open) = sink();
        let writer = Writer::start(sink, Format::new(Clock::Off, 1, false)).unwrap();
        (writer, batches, open)
    }

    /// Waits until the thread has taken the first line, and so stands at the gate.
    fn stands_at_gate(writer: &Writer) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !writer.shared.lock().busy {
            assert!(Instant::now() < deadline, "the line was never taken");
            thread::yield_now();
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
        assert!(rest.ends_with("\n[1] [WRN] 6 log lines were dropped: writing them is too slow\n"));
        assert_eq!(rest.matches("x\n").count(), 4);
    }

    #[test]
    fn a_slow_sink_costs_time_not_lines() {
        let (sink, batches, open) = sink();
        let format = Format::new(Clock::Off, 1, false);
        let writer = Writer::with_patience(Duration::from_secs(10), sink, format).unwrap();
        let line = "x".repeat(CAPACITY / 4) + "\n";
        let (writer, line) = (&writer, &line);
        thread::scope(|scope| {
            scope.spawn(move || (0..40).for_each(|_| writer.append(line)));
            let mut written = 0;
            while written < 40 {
                open.send(()).unwrap();
                written += next(&batches).matches("x\n").count();
            }
        });
        assert_eq!(writer.losses(), Losses::default());
        drop(open);
    }

    #[test]
    fn a_new_sink_gets_what_comes_after_it_and_nothing_else() {
        let (writer, batches, open) = gate();
        writer.append("0\n");
        stands_at_gate(&writer);
        writer.append("1\n");
        let (new, new_batches, new_open) = sink();
        writer.replace(new, Format::new(Clock::Off, 2, false));
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
