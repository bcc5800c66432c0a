//! A client that sends anything, beside one that behaves, through a broker without sockets.
//!
//! The first byte of the input chooses the house ([`house::House::new`]), the rest is what the hostile
//! client sends. Promised: nobody panics; what either client receives is well-formed protocol, and the same
//! for every way in which the bytes were split; the other client is still served afterwards; when both are
//! gone, no connection, no subscription and no byte of memory is left behind; no log line holds a line end.

mod frames;
mod house;
mod pipe;

use crate::pieces::pieces;
use house::House;

/// How the client that behaves greets. Its name and password fit every house.
const GREETING: &[u8] =
    b"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\
    \"protocol\":1,\"auth_token\":\"secret\",\"user\":\"plain\",\"pass\":\"secret\"}\r\n\
    SUB > 1\r\nSUB *.* group 2\r\nSUB a group 3\r\n";

/// Any bytes as what a client sends, behind a byte that chooses the server's configuration.
pub fn session(data: &[u8]) {
    let Some((&choice, sent)) = data.split_first() else { return };
    let whole = converse(choice, std::iter::once(sent));
    let split = converse(choice, pieces(sent));
    let Heard { hostile, witness } = &whole;
    assert!(split.hostile == *hostile, "whole:{hostile}\nin pieces:{}", split.hostile);
    assert!(split.witness == *witness, "beside, whole:{witness}\nin pieces:{}", split.witness);
}

/// What both clients received.
struct Heard {
    hostile: String,
    witness: String,
}

fn converse<'a>(choice: u8, sent: impl Iterator<Item = &'a [u8]>) -> Heard {
    let mut house = House::new(choice);
    let witness = house.enter();
    house.send(witness, GREETING);
    let hostile = house.enter();
    for piece in sent {
        house.send(hostile, piece);
    }
    house.time_passes(hostile);
    house.leave(hostile);
    let before = house.heard(witness).len();
    house.send(witness, b"PING\r\n");
    assert!(house.heard(witness)[before..].starts_with(b"PONG\r\n"), "the other client is not served");
    house.leave(witness);
    let heard = Heard { hostile: shown(&house.heard(hostile)), witness: shown(&house.heard(witness)) };
    house.check_empty();
    heard
}

/// Received frames as text. Which of a client's subscriptions gets a message first is left open, so
/// messages between two other frames are shown by subscription.
fn shown(bytes: &[u8]) -> String {
    let mut frames = match frames::read(bytes) {
        Ok(frames) => frames,
        Err(problem) => panic!("{problem} in what was received: {}", bytes.escape_ascii()),
    };
    for run in frames.chunk_by_mut(|a, b| a.sid.is_some() && b.sid.is_some()) {
        run.sort_by_key(|frame| frame.sid);
    }
    frames.iter().map(|frame| format!("\n{}", frame.bytes.escape_ascii())).collect()
}
