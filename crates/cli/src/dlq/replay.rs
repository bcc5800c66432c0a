//! Publishing letters again: as the messages that they were, or, changed, as letters.
//!
//! A letter goes when the stream that gets the message says that it has it, so nothing is lost
//! wherever this ends. Begun anew it goes on with the letters that are left.

use super::letter::{Letter, Letters};
use crate::screen::plain;
use myelin_loadgen::admin::is_api_error;
use myelin_loadgen::error::BenchError;
use std::time::{Duration, Instant};

/// So often is it told how far a replay is.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// Publishes messages again in this order, so many in a second, and removes their letters unless
/// they are to be kept. Answers how many there were. A letter of which the subject is not that of a
/// message, or which is larger than server or stream take now, is passed over: it would stop each
/// replay at the same place. That fails at the end.
pub(super) fn replay(
    letters: &mut Letters,
    seqs: &[u64],
    (rate, keeps): (u64, bool),
) -> Result<u64, BenchError> {
    let (began, mut told) = (Instant::now(), Instant::now());
    let (mut done, mut passed) = (0_u64, 0_u64);
    for seq in seqs {
        if let Some(pause) = pause(rate, done, began.elapsed()) {
            std::thread::sleep(pause);
        }
        let step = letters.get(*seq).and_then(|letter| give_back(letters, &letter, keeps));
        let is_done = step.map_err(|error| {
            let left = seqs.len() as u64 - done;
            BenchError::Usage(format!("letter {seq}: {error}; published again: {done}, left: {left}"))
        })?;
        if is_done {
            done += 1;
        } else {
            passed += 1;
        }
        if told.elapsed() >= BETWEEN_LINES {
            told = Instant::now();
            eprintln!("{done} of {} messages", seqs.len());
        }
    }
    if passed == 0 {
        return Ok(done);
    }
    Err(BenchError::Usage(format!("published again: {done}, passed over: {passed}")))
}

/// Publishes one message again, and removes its letter unless that is to be kept. Answers whether
/// it could be published at all.
fn give_back(letters: &mut Letters, letter: &Letter, keeps: bool) -> Result<bool, BenchError> {
    let subject = match letter.origin() {
        Ok(subject) => subject,
        Err(error) => {
            eprintln!("letter {} is passed over: {}", letter.seq, plain(&error.to_string()));
            return Ok(false);
        }
    };
    if !publish(letters, letter, subject)? {
        eprintln!("letter {} is passed over: its message is larger than is taken now", letter.seq);
        return Ok(false);
    }
    if !keeps {
        letters.remove(letter.seq)?;
    }
    Ok(true)
}

/// Error of a stream whose messages may not be as large.
const TOO_LARGE: u64 = 10054;

/// Publishes a message again: without the id of the replay where it is too large with it, which the
/// original had not. Answers whether it is small enough.
fn publish(letters: &mut Letters, letter: &Letter, subject: &str) -> Result<bool, BenchError> {
    let largest = letters.max_payload();
    for has_id in [true, false] {
        let headers = letter.original_headers(has_id);
        // The server ends the connection of whoever sends more.
        if size(&headers, &letter.payload) > largest {
            continue;
        }
        match letters.publish(subject, &headers, &letter.payload) {
            Err(error) if is_api_error(&error, TOO_LARGE) => {}
            done => {
                done?;
                if !has_id {
                    let why = "with one it is larger than is taken";
                    eprintln!("letter {} is published without an id: {why}", letter.seq);
                }
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Size of a message as the server counts it, with these lines of headers.
fn size(headers: &[u8], payload: &[u8]) -> usize {
    let around = if headers.is_empty() { 0 } else { "NATS/1.0\r\n\r\n".len() };
    around + headers.len() + payload.len()
}

/// How long to wait before the next one, where so many were published in this time.
fn pause(rate: u64, done: u64, elapsed: Duration) -> Option<Duration> {
    let due = Duration::from_secs_f64(done as f64 / rate.max(1) as f64);
    due.checked_sub(elapsed).filter(|pause| rate > 0 && !pause.is_zero())
}

/// Puts a changed letter in the place of the one that was read. Answers its sequence.
pub(super) fn replace(letters: &mut Letters, letter: &Letter) -> Result<u64, BenchError> {
    let (stream, seq) = (letters.stream().to_owned(), letter.seq);
    // Somebody else may have changed it, or given it back.
    let guard = format!("Nats-Expected-Stream: {stream}\r\nNats-Expected-Last-Subject-Sequence: {seq}\r\n");
    let headers = [letter.stored_headers(), guard.into_bytes()].concat();
    let stored = letters.publish(&letter.subject, &headers, &letter.payload)?;
    letters.remove(seq)?;
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_makes_pauses() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(0, 1000, Duration::ZERO), None);
        assert_eq!(pause(10, 0, Duration::ZERO), None);
        assert_eq!(pause(10, 10, second / 2), Some(second / 2));
        assert_eq!(pause(10, 10, second * 2), None);
    }
}
