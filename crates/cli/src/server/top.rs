//! `myelin server top`: the connections that do most, again and again.
//!
//! Owns the terminal while it is shown there: what was on it and how it took keys comes back at the
//! end. Elsewhere tables are printed one below the other.

use std::io::{IsTerminal, Read};
use std::time::{Duration, Instant};

use clap::Args;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use serde_json::json;

use crate::screen::show;
use crate::server::pages::{PageFlags, Pages};
use crate::server::rates::{Look, SortKey, text_of};

/// No look comes sooner after the one before.
const SHORTEST: Duration = Duration::from_millis(100);

/// Lines above the connections, and the one with the keys.
const OTHER_LINES: usize = 6;

/// Control-c, which does not end the process while the terminal gives single keys.
const INTERRUPT: u8 = 3;

/// `myelin server top`
#[derive(Args, Debug)]
pub(super) struct TopArguments {
    #[command(flatten)]
    pages: PageFlags,
    /// Connections that are looked at
    #[arg(short = 'n', long, default_value_t = 1024)]
    conns: usize,
    /// Time between looks
    #[arg(short = 'd', long, default_value = "1s", value_name = "DURATION")]
    interval: Time,
    /// Order of the connections
    #[arg(long, value_enum, default_value = "msgs")]
    sort: SortKey,
    /// Print so many tables one below the other, and end
    #[arg(short = 'r', long, alias = "max-refresh")]
    count: Option<u64>,
    /// Print one table and end
    #[arg(long, conflicts_with = "count")]
    once: bool,
}

pub(super) fn run(arguments: &TopArguments) -> Result<(), BenchError> {
    let mut pages = arguments.pages.open()?;
    let interval = arguments.interval.0.max(SHORTEST);
    let count = if arguments.once { Some(1) } else { arguments.count };
    let has_person = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    match count {
        None if has_person => watched(&mut pages, arguments, interval),
        count => printed(&mut pages, arguments, interval, count.unwrap_or(u64::MAX)),
    }
}

fn look(pages: &mut Pages, connections: usize) -> Result<Look, BenchError> {
    let connz = pages.page("connz", &json!({ "limit": connections, "auth": true }))?;
    Ok(Look { at: Instant::now(), varz: pages.page("varz", &json!({}))?, connz })
}

fn printed(
    pages: &mut Pages,
    arguments: &TopArguments,
    interval: Duration,
    count: u64,
) -> Result<(), BenchError> {
    let mut before = look(pages, arguments.conns)?;
    for number in 0..count {
        std::thread::sleep(interval);
        let now = look(pages, arguments.conns)?;
        let space = if number > 0 { "\n" } else { "" };
        show(&format!("{space}{}", text_of(&before, &now, arguments.sort, usize::MAX)))?;
        before = now;
    }
    Ok(())
}

fn watched(pages: &mut Pages, arguments: &TopArguments, interval: Duration) -> Result<(), BenchError> {
    let mut key = arguments.sort;
    let mut before = look(pages, arguments.conns)?;
    let screen = WholeScreen::take()?;
    // The first rates are of a short time, so that somebody sees something at once.
    let mut next = before.at + SHORTEST;
    let mut now = None;
    loop {
        if let Some(now) = &now {
            screen.draw(&before, now, key)?;
        }
        match pressed(next)? {
            Some(b'q' | INTERRUPT) => return Ok(()),
            Some(other) => key = SortKey::pressed(other).unwrap_or(key),
            None => {
                let later = look(pages, arguments.conns)?;
                next = later.at + interval;
                before = now.replace(later).unwrap_or(before);
            }
        }
    }
}

/// The key that somebody presses before this moment.
fn pressed(until: Instant) -> Result<Option<u8>, BenchError> {
    let mut input = std::io::stdin().lock();
    let left = until.saturating_duration_since(Instant::now());
    let time = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    let ready = match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&time)) {
        Err(rustix::io::Errno::INTR) => 0,
        ready => ready.map_err(BenchError::io("waiting for a key"))?,
    };
    let mut byte = [0];
    match ready {
        0 => Ok(None),
        // The end of the input is the end of the person.
        _ => match input.read(&mut byte).map_err(BenchError::io("reading a key"))? {
            0 => Ok(Some(b'q')),
            _ => Ok(Some(byte[0])),
        },
    }
}

/// The terminal, which gives single keys and shows nothing but the table.
struct WholeScreen {
    before: Termios,
}

impl WholeScreen {
    fn take() -> Result<Self, BenchError> {
        let before = tcgetattr(std::io::stdin()).map_err(BenchError::io("asking the terminal"))?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &keys)
            .map_err(BenchError::io("setting the terminal"))?;
        let screen = Self { before };
        show("\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    /// Shows as much as there is room for.
    fn draw(&self, before: &Look, now: &Look, key: SortKey) -> Result<(), BenchError> {
        let size = tcgetwinsize(std::io::stdout()).map_err(BenchError::io("asking the terminal"))?;
        let (width, height) = (usize::from(size.ws_col.max(1)), usize::from(size.ws_row));
        let table = text_of(before, now, key, height.saturating_sub(OTHER_LINES).max(1));
        let keys = "sort by: m messages, b bytes, s subscriptions, p pending, c number; q ends";
        let mut frame = "\x1b[H".to_owned();
        for line in table.lines() {
            frame.extend(line.chars().take(width));
            frame += "\x1b[K\r\n";
        }
        frame.extend(keys.chars().take(width));
        show(&(frame + "\x1b[K\x1b[J"))
    }
}

/// Brings back what was on the terminal. Nothing can be done where that fails.
impl Drop for WholeScreen {
    fn drop(&mut self) {
        let _ = show("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
