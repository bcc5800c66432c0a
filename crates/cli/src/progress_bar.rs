//! How far something long is, on the other output and on a terminal only.
//!
//! Owns the one line that it writes, which it takes away at its end.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use myelin_loadgen::units::binary;

/// How often the line is written anew.
const STEP: Duration = Duration::from_millis(100);

/// Characters between the brackets.
const WIDTH: u64 = 40;

/// Whether somebody would see a bar.
pub(crate) fn is_seen(is_wanted: bool) -> bool {
    is_wanted && std::io::stderr().is_terminal()
}

/// A line that shows how many bytes are done.
#[derive(Debug)]
pub(crate) struct ProgressBar {
    /// Bytes that there will be, as far as that is known.
    total: Option<u64>,
    done: u64,
    began: Instant,
    /// When the line was last written; `None` where nobody would see it.
    shown: Option<Instant>,
}

impl ProgressBar {
    /// A bar that is shown if that is wanted and there is a terminal.
    pub(crate) fn new(total: Option<u64>, is_wanted: bool) -> Self {
        let began = Instant::now();
        Self { total, done: 0, began, shown: is_seen(is_wanted).then_some(began) }
    }

    /// Counts bytes that are done.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        let Some(shown) = self.shown.filter(|shown| shown.elapsed() >= STEP) else { return };
        self.shown = Some(shown + shown.elapsed());
        let line = self.line();
        let mut output = std::io::stderr();
        // Nothing depends on the line: who has closed this output does not see it.
        let _ = write!(output, "\r{line}\x1b[K").and_then(|()| output.flush());
    }

    /// Takes the line away until the next one, where something else is to be printed.
    pub(crate) fn clear(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }

    fn line(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        let rate = binary(self.done as f64 / seconds.max(1e-3));
        let done = binary(self.done as f64);
        match self.total {
            Some(total) if total > 0 => {
                let part = |whole: u64| {
                    (u128::from(self.done.min(total)) * u128::from(whole) / u128::from(total)) as usize
                };
                let (full, empty) = ("=".repeat(part(WIDTH)), " ".repeat(WIDTH as usize - part(WIDTH)));
                format!("[{full}{empty}] {}% {done} of {}, {rate}/s", part(100), binary(total as f64))
            }
            _ => format!("{done}, {rate}/s"),
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ProgressBar {
        pub(crate) fn done(&self) -> u64 {
            self.done
        }
    }

    #[test]
    fn a_bar_fills() {
        let mut bar = ProgressBar::new(Some(4096), false);
        bar.advance(1024);
        let line = bar.line();
        assert!(
            line.starts_with(&format!("[{}{}] 25% 1.0 KiB of 4.0 KiB, ", "=".repeat(10), " ".repeat(30))),
            "{line}"
        );
        bar.advance(1 << 40);
        assert!(bar.line().contains("] 100% "), "more than was said");
        assert!(ProgressBar::new(None, false).line().starts_with("0 B, "));
    }
}
