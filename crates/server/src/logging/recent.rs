//! The last lines of the log, for operators who look from elsewhere. Kept only while somebody may
//! ask for them, and bounded: the oldest go first, and a long line is cut.

use super::line::Level;
use jiff::Timestamp;
use myelin_stdx::sync::lock;
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Lines that are kept.
const LINES: usize = 500;
/// Bytes of a line that are kept.
const LONGEST: usize = 1024;

/// A line of the log.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RecentLine {
    /// Number of the line, counted from 1 since lines are kept.
    pub(crate) seq: u64,
    at: String,
    level: &'static str,
    pub(crate) text: String,
}

/// The last lines, if they are kept.
#[derive(Debug, Default)]
pub(super) struct RecentLines {
    /// Beside the lock, so that nobody who logs waits for it in vain.
    are_kept: AtomicBool,
    kept: Mutex<KeptLines>,
}

#[derive(Debug, Default)]
struct KeptLines {
    last: u64,
    lines: VecDeque<RecentLine>,
}

impl RecentLines {
    pub(super) fn keep(&self, is_wanted: bool) {
        let mut kept = lock(&self.kept);
        self.are_kept.store(is_wanted, Relaxed);
        if !is_wanted {
            kept.lines = VecDeque::new();
        }
    }

    pub(super) fn note(&self, level: Level, text: &dyn Display) {
        if !self.are_kept.load(Relaxed) {
            return;
        }
        let mut text = text.to_string();
        text.truncate(text.floor_char_boundary(LONGEST));
        let mut kept = lock(&self.kept);
        if !self.are_kept.load(Relaxed) {
            return;
        }
        if kept.lines.len() >= LINES {
            kept.lines.pop_front();
        }
        kept.last += 1;
        let line = RecentLine { seq: kept.last, at: Timestamp::now().to_string(), level: level.name(), text };
        kept.lines.push_back(line);
    }

    pub(super) fn after(&self, after: u64) -> Vec<RecentLine> {
        let kept = lock(&self.kept);
        kept.lines.iter().filter(|line| line.seq > after).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_while_they_are_wanted() {
        let recent = RecentLines::default();
        recent.note(Level::Info, &"nobody wants it");
        assert!(recent.after(0).is_empty());
        recent.keep(true);
        for n in 1..=LINES + 7 {
            recent.note(Level::Warn, &n);
        }
        let lines = recent.after(0);
        assert_eq!((lines.len(), &*lines[0].text, lines[0].level), (LINES, "8", "WRN"));
        let last = recent.after(LINES as u64 + 6);
        assert_eq!(last.iter().map(|line| &*line.text).collect::<Vec<_>>(), ["507"]);
        recent.note(Level::Error, &"ä".repeat(LONGEST));
        assert_eq!(recent.after(0)[LINES - 1].text, "ä".repeat(LONGEST / 2));
        recent.keep(false);
        assert!(recent.after(0).is_empty());
    }
}
