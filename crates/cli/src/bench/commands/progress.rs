//! A bar for each client, in the shape of the original.
//!
//! On a terminal the bars move; elsewhere each is printed once, when all is done, so that a log
//! holds no animation. Owns what stands on the terminal below the banner. Looks at counters that
//! others move.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use myelin_loadgen::client_pool::Board;

use crate::screen::tell;

const WIDTH: usize = 80;

/// How often the bars move.
const STEP: Duration = Duration::from_millis(100);

/// Progress of the clients, as the bars show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress<'a> {
    pub(crate) board: &'a Board,
    /// Messages of each client.
    pub(crate) totals: &'a [u64],
    /// Activity of the clients on their bars, in up to ten characters.
    pub(crate) doing: &'a str,
    pub(crate) start: Instant,
}

impl<'a> Progress<'a> {
    /// Moves the bars until `is_over`, if somebody is there to see it.
    pub(crate) fn show<'scope>(self, scope: &'scope Scope<'scope, '_>, is_over: &'a AtomicBool)
    where
        'a: 'scope,
    {
        if !std::io::stdout().is_terminal() {
            return;
        }
        let draw = move |is_first: bool| {
            let up = if is_first { String::new() } else { format!("\x1b[{}A", self.totals.len()) };
            tell(&format!("{up}{}", self.bars()));
        };
        scope.spawn(move || {
            draw(true);
            while !is_over.load(Ordering::SeqCst) {
                std::thread::park_timeout(STEP);
                draw(false);
            }
        });
    }

    /// The bars as they end, where they were not moved.
    pub(crate) fn finish(self) {
        if !std::io::stdout().is_terminal() {
            tell(&self.bars());
        }
    }

    fn bars(self) -> String {
        let mut text = String::new();
        let counts = self.board.messages.iter().map(|count| count.load(Ordering::Relaxed));
        for (done, &total) in counts.zip(self.totals) {
            let part = (done as f64 / total.max(1) as f64).min(1.0);
            let doing = if done >= total { "Finished" } else { self.doing };
            let elapsed = format!("{}s", self.start.elapsed().as_secs());
            let inner = WIDTH - 2;
            let filled = (part * inner as f64) as usize;
            let head = if filled < inner && filled > 0 { ">" } else { "" };
            let bar = "=".repeat(filled - head.len()) + head;
            let _ = writeln!(text, "{doing:<10} {elapsed:>5} [{bar:-<inner$}] {:>3}%", (part * 100.0) as u64);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_look_like_the_originals() {
        let board = Board::new(2);
        board.messages[0].store(10, Ordering::Relaxed);
        board.messages[1].store(5, Ordering::Relaxed);
        let progress =
            Progress { board: &board, totals: &[10, 10], doing: "Publishing", start: Instant::now() };
        let text = progress.bars();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("Finished      0s [{}] 100%", "=".repeat(78)));
        assert_eq!(lines[1], format!("Publishing    0s [{}>{}]  50%", "=".repeat(38), "-".repeat(39)));
    }
}
