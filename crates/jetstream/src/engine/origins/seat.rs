//! What a feed reads with: its place in the origin's log, and runs of messages on their way.
//!
//! Used inside the turn of the stream that copies, and by the thread that connects. Memory is bounded by a run.

use super::durable::Durable;
use super::positions::Position;
use super::render::Rendering;
use crate::engine::LiveStream;
use myelin_broker::{Letter, Parcel};
use myelin_stdx::rng::Rng;
use myelin_store::{Cursor, Filter, ReadError, Seq, Ticket, Timestamp, Wait};
use std::collections::VecDeque;
use std::sync::Weak;

/// A run ends at so many bytes or messages: others have their turn then.
const RUN_BYTES: usize = 128 * 1024;
const RUN_MESSAGES: usize = 1024;

/// See the head of this file.
pub(super) struct Seat {
    /// How often the log of the stream that copies was left for another one: what was found in one says nothing in the next.
    pub(super) log: u64,
    pub(super) link: Option<Link>,
    /// How far a source is; `None`: not known yet.
    pub(super) position: Option<Position>,
    pub(super) rendering: Rendering,
    /// The run, with sequence and time of each message as the origin has them.
    pub(super) parcel: Parcel,
    pub(super) stamps: Vec<(Seq, Timestamp)>,
    /// Messages that the origin may lose when this stream has released them.
    pub(super) unsettled: VecDeque<(Ticket, Vec<Seq>)>,
    pub(super) rng: Rng,
}

/// A way to the origin.
pub(super) struct Link {
    pub(super) origin: Weak<LiveStream>,
    pub(super) identity: String,
    pub(super) filter: Filter,
    pub(super) cursor: Cursor,
    /// A mirror has nothing up to here, because the origin has nothing.
    pub(super) floor: Option<Seq>,
    /// Where the origin loses what is acknowledged.
    pub(super) durable: Option<Durable>,
}

/// Where a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There is more at hand.
    Full,
    /// That was all.
    All,
    /// What follows has to be read from the device.
    Cold,
    /// What follows cannot be read now, and may be later.
    Refused,
}

impl Seat {
    /// Reads a run. An empty one: nothing is there, or not at hand.
    pub(super) fn read(&mut self) -> End {
        let Self { link, rendering, parcel, stamps, rng, .. } = self;
        parcel.clear();
        stamps.clear();
        let Some(Link { cursor, identity, .. }) = link else { return End::All };
        let random = &mut || rng.next_u64() as u32;
        let mut damaged = 0;
        while parcel.bytes() < RUN_BYTES && stamps.len() + damaged < RUN_MESSAGES {
            let at = cursor.position();
            match cursor.next(Wait::Forbidden) {
                Ok(Some(message)) => {
                    let (subject, headers) = rendering.render(&message, identity, random);
                    parcel.push(Letter { subject, headers, payload: message.payload, ..Letter::default() });
                    stamps.push((message.seq, message.timestamp));
                }
                Ok(None) | Err(ReadError::Unreleased) => return End::All,
                Err(ReadError::WouldWait) => return End::Cold,
                Err(ReadError::More) => return End::Full,
                // The system's troubles (too many open files, a bad moment of a disk) take nothing away.
                Err(ReadError::Io(_)) => return End::Refused,
                // What is damaged there is not here.
                Err(ReadError::Damaged(_)) => {
                    damaged += 1;
                    cursor.skip(at.max(cursor.position()));
                }
            }
        }
        End::Full
    }
}
