//! Frames: what servers say to each other about groups, as bytes of a connection.
//!
//! Owns the form of a frame. Must never read past what it was given, and never make something of
//! bytes whose checksum is wrong: whoever reads those closes the connection.
//!
//! All numbers are little-endian.
//!
//! ```text
//!  0 u32 bytes of the frame, these among them     4 u32 CRC32C of all that follows
//!  8 u8 kind    9 u8 flags    10 u16 0
//! 12 u64 group, or 0    20 u32 epoch of the group, or 0
//! 24 u32 incarnation of the sender, low half
//! 28 u32 incarnation of the receiver, low half, as the sender's member knows it, or 0
//! 32 the body
//!
//! 1 to 9, a message of Raft (flags: 1 refused, 2 transfer):
//!    u64 from, to, term, index, log term, commit, commit term, reject hint
//!    u32 entries, then for each: u64 term, u32 bytes, the bytes
//! 16, rest:   u64 term, index, chain
//! 17, log (flags: 1 amnesiac, 2 votes, 4 aside): u64 term of the last entry, its index, 0
//! 18, state (flags: 1 drawn, 2 differs): u64 index, digest of messages, of the rest; without
//!    flags both are 0
//! 32, asks for support:             u64 incarnation, epoch, sent
//! 33, answers that (flags: 1 given): u64 incarnation, epoch, sent
//! 34, says the time besides: u64 sent, i64 nanoseconds since 1970, 0
//! ```

use bytes::Bytes;

use crate::consensus::RaftEntry;
use crate::liveness::{SupportAnswer, SupportRequest};
use crate::{GroupId, Peer, RaftMessage, RaftMessageKind};

/// Bytes before a body.
const HEAD_BYTES: usize = 32;
/// Bytes of a message of Raft without its entries.
const MESSAGE_BYTES: usize = 8 * 8 + 4;
/// Bytes of any other body.
const WORD_BYTES: usize = 3 * 8;
/// Bytes before the data of an entry.
const ENTRY_HEAD_BYTES: usize = 8 + 4;
/// Where the checksum begins to count.
const COUNTED_FROM: usize = 8;
const REFUSED: u8 = 1;
const TRANSFER: u8 = 2;
const GIVEN: u8 = 1;
const REST: u8 = 16;
const LOG: u8 = 17;
const STATE: u8 = 18;
const DRAWN: u8 = 1;
const DIFFERS: u8 = 2;
const AMNESIAC: u8 = 1;
const VOTER: u8 = 2;
const ASIDE: u8 = 4;
const FULL: u8 = 8;
const ASK: u8 = 32;
const ANSWER: u8 = 33;
const TIME: u8 = 34;

/// One frame, from one server to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFrame {
    /// The life of the sender's store, its low half: a number that grows with each start.
    pub incarnation: u32,
    /// The life of the receiver's store that the sending member knows of, its low half; 0: none.
    pub known_life: u32,
    /// The content.
    pub body: FrameBody,
}

/// Content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameBody {
    /// Consensus of a group.
    Raft(GroupPlace, RaftMessage),
    /// The leader of a group has nothing left to do, and lets no time pass for it.
    Rest(GroupPlace, RestWord),
    /// Where the log of a member ends that has no leader, or that may have lost something.
    Log(GroupPlace, LogWord),
    /// State of a stream as of an entry, which is compared.
    State(GroupPlace, StateWord),
    /// Asks the receiver's server for support.
    Ask(SupportRequest),
    /// Answers that.
    Answer(SupportAnswer),
    /// Says the time of day to who has asked.
    Time(TimeWord),
}

/// Which group is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlace {
    /// The group.
    pub group: GroupId,
    /// Grows when the stream gets another group.
    pub epoch: u32,
}

/// Where the log of a group ends that rests. Who has another end does not rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestWord {
    /// Term of the leader.
    pub term: u64,
    /// Index of the last entry, which is committed.
    pub index: u64,
    /// Chain of that entry: digest of the whole log up to it.
    pub chain: u64,
}

/// Where the log of a member ends. Members that may have lost entries decide by it who leads, where
/// too few are there that have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWord {
    /// Term of the last entry; 0 where there is none.
    pub term: u64,
    /// Its index.
    pub index: u64,
    /// Whether the member may have lost entries that it has confirmed.
    pub is_amnesiac: bool,
    /// Whether its log says that it votes.
    pub is_voter: bool,
    /// Whether the member takes the lead.
    pub standing: LeadStanding,
}

/// Time of day of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWord {
    /// When it was asked, as the question says.
    pub sent: u64,
    /// The time of day, in nanoseconds since 1970.
    pub day: i64,
}

/// State of the stream of a group as of an entry of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateWord {
    /// Step in which it is said.
    pub step: StateStep,
    /// The entry.
    pub index: u64,
    /// Digest of the messages; 0 where it is asked for.
    pub messages: u64,
    /// Digest of the rest; 0 where it is asked for.
    pub others: u64,
}

/// Step of a comparison of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateStep {
    /// A leader asks for the state.
    Ask,
    /// A member says which one it has.
    Drawn,
    /// A leader says which one counts, to a member that has another one.
    Differs,
}

/// Whether a member takes the lead of its group, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadStanding {
    /// Takes it.
    Ready,
    /// Clients cannot reach its server, or it lacks something that it had.
    Aside,
    /// Its disk has no room for what its group stores.
    Full,
}

/// Bytes that no server of ours has written: the connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A frame would have more bytes than a reader takes, or fewer than a head has.
    Size,
    /// Bytes have changed on their way.
    Checksum,
    /// The checksum is right, and nobody says this.
    Malformed,
}

impl PeerFrame {
    /// Bytes that [`PeerFrame::write`] appends.
    #[must_use]
    pub fn size(&self) -> usize {
        let body = match &self.body {
            FrameBody::Raft(_, message) => {
                let entries = message.entries.iter().map(|entry| ENTRY_HEAD_BYTES + entry.data.len());
                MESSAGE_BYTES + entries.sum::<usize>()
            }
            _ => WORD_BYTES,
        };
        HEAD_BYTES + body
    }

    /// Appends the frame to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let (kind, flags) = self.body.kind_and_flags();
        out.extend_from_slice(&[0; COUNTED_FROM]);
        out.extend_from_slice(&[kind, flags, 0, 0]);
        let nobody = GroupPlace { group: GroupId(0), epoch: 0 };
        let place = self.body.place().unwrap_or(nobody);
        out.extend_from_slice(&place.group.0.to_le_bytes());
        out.extend_from_slice(&place.epoch.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.known_life.to_le_bytes());
        match &self.body {
            FrameBody::Raft(_, message) => write_message(message, out),
            FrameBody::Rest(_, RestWord { term, index, chain }) => write_all(&[*term, *index, *chain], out),
            FrameBody::Log(_, LogWord { term, index, .. }) => write_all(&[*term, *index, 0], out),
            FrameBody::State(_, StateWord { index, messages, others, .. }) => {
                write_all(&[*index, *messages, *others], out);
            }
            FrameBody::Time(TimeWord { sent, day }) => write_all(&[*sent, day.cast_unsigned(), 0], out),
            FrameBody::Ask(SupportRequest { incarnation, epoch, sent })
            | FrameBody::Answer(SupportAnswer { incarnation, epoch, sent, .. }) => {
                write_all(&[*incarnation, *epoch, *sent], out);
            }
        }
        let size = length(out.len() - start);
        out[start..start + 4].copy_from_slice(&size);
        debug_assert_eq!(out.len() - start, self.size(), "a frame has the size that it says");
        let checksum = crc32c::crc32c(&out[start + COUNTED_FROM..]);
        out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The frame that `bytes` begin with, and how many bytes it has; `None` if it is not whole yet.
    /// Data of entries shares the memory of `bytes`.
    ///
    /// # Errors
    /// The connection is of no use any more.
    pub fn read(bytes: &Bytes, max_bytes: usize) -> Result<Option<(Self, usize)>, FrameError> {
        let Some(size) = bytes.first_chunk().map(|size| u32::from_le_bytes(*size) as usize) else {
            return Ok(None);
        };
        if size < HEAD_BYTES || size > max_bytes {
            return Err(FrameError::Size);
        }
        if bytes.len() < size {
            return Ok(None);
        }
        let bytes = bytes.slice(..size);
        let mut parser = FrameParser { bytes: &bytes, at: 4 };
        let checksum = parser.u32().ok_or(FrameError::Malformed)?;
        if checksum != crc32c::crc32c(&bytes[COUNTED_FROM..]) {
            return Err(FrameError::Checksum);
        }
        let frame = parser.frame().filter(|_| parser.at == size);
        frame.map(|frame| Some((frame, size))).ok_or(FrameError::Malformed)
    }
}

impl FrameBody {
    /// The group that it is about, if it is about one.
    fn place(&self) -> Option<GroupPlace> {
        match self {
            Self::Raft(place, _) | Self::Rest(place, _) | Self::Log(place, _) | Self::State(place, _) => {
                Some(*place)
            }
            Self::Ask(_) | Self::Answer(_) | Self::Time(_) => None,
        }
    }

    fn kind_and_flags(&self) -> (u8, u8) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        match self {
            Self::Raft(_, message) => {
                let flags = flag(message.is_refused, REFUSED) | flag(message.is_transfer, TRANSFER);
                (message.kind as u8, flags)
            }
            Self::Rest(..) => (REST, 0),
            Self::Log(_, word) => {
                let standing = match word.standing {
                    LeadStanding::Ready => 0,
                    LeadStanding::Aside => ASIDE,
                    LeadStanding::Full => FULL,
                };
                (LOG, flag(word.is_amnesiac, AMNESIAC) | flag(word.is_voter, VOTER) | standing)
            }
            Self::State(_, word) => {
                let flags = match word.step {
                    StateStep::Ask => 0,
                    StateStep::Drawn => DRAWN,
                    StateStep::Differs => DIFFERS,
                };
                (STATE, flags)
            }
            Self::Ask(_) => (ASK, 0),
            Self::Time(_) => (TIME, 0),
            Self::Answer(answer) => (ANSWER, flag(answer.is_given, GIVEN)),
        }
    }
}

fn write_message(message: &RaftMessage, out: &mut Vec<u8>) {
    let RaftMessage { from, to, term, index, log_term, commit, commit_term, reject_hint, .. } = message;
    write_all(&[from.number(), to.number(), *term, *index], out);
    write_all(&[*log_term, *commit, *commit_term, *reject_hint], out);
    out.extend_from_slice(&length(message.entries.len()));
    for entry in &message.entries {
        out.extend_from_slice(&entry.term.to_le_bytes());
        out.extend_from_slice(&length(entry.data.len()));
        out.extend_from_slice(&entry.data);
    }
}

fn write_all(numbers: &[u64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// A length in a frame. A frame of 4 GiB is never made: the limits of messages are far below.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

/// Reads one frame that is there as a whole.
struct FrameParser<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl FrameParser<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let found = self.bytes.get(self.at..)?.first_chunk().copied()?;
        self.at += N;
        Some(found)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn peer(&mut self) -> Option<Peer> {
        self.u64().and_then(Peer::from_number)
    }

    fn frame(&mut self) -> Option<PeerFrame> {
        let [kind, flags, 0, 0] = self.array()? else { return None };
        let place = GroupPlace { group: GroupId(self.u64()?), epoch: self.u32()? };
        let (incarnation, known_life) = (self.u32()?, self.u32()?);
        let body = match kind {
            REST => {
                let word = RestWord { term: self.u64()?, index: self.u64()?, chain: self.u64()? };
                FrameBody::Rest(place, word)
            }
            LOG => {
                let (term, index, 0) = (self.u64()?, self.u64()?, self.u64()?) else { return None };
                let [is_amnesiac, is_voter] = [AMNESIAC, VOTER].map(|flag| flags & flag != 0);
                let standing = match flags & (ASIDE | FULL) {
                    0 => LeadStanding::Ready,
                    ASIDE => LeadStanding::Aside,
                    // With both it is malformed: written anew it is another one.
                    _ => LeadStanding::Full,
                };
                FrameBody::Log(place, LogWord { term, index, is_amnesiac, is_voter, standing })
            }
            TIME => {
                let (sent, day, 0) = (self.u64()?, self.u64()?, self.u64()?) else { return None };
                FrameBody::Time(TimeWord { sent, day: day.cast_signed() })
            }
            STATE => FrameBody::State(place, self.state(flags)?),
            ASK | ANSWER => {
                let (incarnation, epoch, sent) = (self.u64()?, self.u64()?, self.u64()?);
                let is_given = flags & GIVEN != 0;
                let ask = FrameBody::Ask(SupportRequest { incarnation, epoch, sent });
                let answer = FrameBody::Answer(SupportAnswer { incarnation, epoch, sent, is_given });
                if kind == ASK { ask } else { answer }
            }
            _ => FrameBody::Raft(place, self.message(kind, flags)?),
        };
        let frame = PeerFrame { incarnation, known_life, body };
        // Whatever has no meaning here is zero.
        let is_sound = frame.body.place().is_some() || (place.group, place.epoch) == (GroupId(0), 0);
        (is_sound && frame.body.kind_and_flags() == (kind, flags)).then_some(frame)
    }

    fn state(&mut self, flags: u8) -> Option<StateWord> {
        let step = match flags {
            0 => StateStep::Ask,
            DRAWN => StateStep::Drawn,
            _ => StateStep::Differs,
        };
        let (index, messages, others) = (self.u64()?, self.u64()?, self.u64()?);
        let is_empty = (messages, others) == (0, 0);
        (step != StateStep::Ask || is_empty).then_some(StateWord { step, index, messages, others })
    }

    fn message(&mut self, kind: u8, flags: u8) -> Option<RaftMessage> {
        let mut message = RaftMessage {
            kind: RaftMessageKind::ALL.into_iter().find(|one| *one as u8 == kind)?,
            from: self.peer()?,
            to: self.peer()?,
            term: self.u64()?,
            index: self.u64()?,
            log_term: self.u64()?,
            commit: self.u64()?,
            commit_term: self.u64()?,
            reject_hint: self.u64()?,
            is_refused: flags & REFUSED != 0,
            is_transfer: flags & TRANSFER != 0,
            entries: Vec::new(),
        };
        for number in 1..=u64::from(self.u32()?) {
            let (term, size) = (self.u64()?, self.u32()? as usize);
            let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len())?;
            let data = self.bytes.slice(self.at..end);
            self.at = end;
            message.entries.push(RaftEntry { index: message.index.checked_add(number)?, term, data });
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of a message without entries.
    const MESSAGE_BYTES: usize = 68;
    /// Bytes before each entry.
    const ENTRY_HEAD_BYTES: usize = 12;

    /// Bytes of a frame with a message with these entries.
    fn size_of(entries: &[RaftEntry]) -> usize {
        HEAD_BYTES
            + MESSAGE_BYTES
            + entries.iter().map(|entry| ENTRY_HEAD_BYTES + entry.data.len()).sum::<usize>()
    }

    fn messages() -> impl Strategy<Value = PeerFrame> {
        let numbers = proptest::array::uniform8(1_u64..u64::MAX / 2);
        let entries =
            proptest::collection::vec((1..9_u64, proptest::collection::vec(any::<u8>(), 0..50)), 0..5);
        let heads = (any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>(), any::<bool>());
        (0..RaftMessageKind::ALL.len(), heads, numbers, entries).prop_map(|(kind, head, numbers, entries)| {
            let [from, to, term, index, log_term, commit, commit_term, reject_hint] = numbers;
            let (group, epoch, incarnation, is_refused, is_transfer) = head;
            let entries = (index + 1..)
                .zip(entries)
                .map(|(index, (term, data))| RaftEntry { index, term, data: data.into() })
                .collect();
            let message = RaftMessage {
                kind: RaftMessageKind::ALL[kind],
                from: Peer::from_number(from).expect("not zero"),
                to: Peer::from_number(to).expect("not zero"),
                term,
                index,
                log_term,
                commit,
                commit_term,
                is_refused,
                reject_hint,
                is_transfer,
                entries,
            };
            PeerFrame {
                incarnation,
                known_life: !incarnation,
                body: FrameBody::Raft(GroupPlace { group: GroupId(group), epoch }, message),
            }
        })
    }

    fn frames() -> impl Strategy<Value = PeerFrame> {
        let others = (0..6, proptest::array::uniform4(any::<u64>()), any::<u32>(), any::<bool>());
        let others = others.prop_map(|(kind, [group, first, second, third], number, is_given)| {
            let (incarnation, epoch, sent) = (first, second, third);
            let body = match kind {
                0 => FrameBody::Rest(
                    GroupPlace { group: GroupId(group), epoch: number },
                    RestWord { term: first, index: second, chain: third },
                ),
                3 => FrameBody::Log(
                    GroupPlace { group: GroupId(group), epoch: number },
                    LogWord {
                        term: first,
                        index: second,
                        is_amnesiac: is_given,
                        is_voter: number % 2 == 1,
                        standing: [LeadStanding::Ready, LeadStanding::Aside, LeadStanding::Full]
                            [number as usize % 3],
                    },
                ),
                4 => {
                    let step = [StateStep::Ask, StateStep::Drawn, StateStep::Differs][number as usize % 3];
                    let [messages, others] = [second, third].map(|digest| match step {
                        StateStep::Ask => 0,
                        StateStep::Drawn | StateStep::Differs => digest,
                    });
                    let word = StateWord { step, index: first, messages, others };
                    FrameBody::State(GroupPlace { group: GroupId(group), epoch: number }, word)
                }
                5 => FrameBody::Time(TimeWord { sent, day: first.cast_signed() }),
                1 => FrameBody::Ask(SupportRequest { incarnation, epoch, sent }),
                _ => FrameBody::Answer(SupportAnswer { incarnation, epoch, sent, is_given }),
            };
            PeerFrame { incarnation: number, known_life: number / 2, body }
        });
        prop_oneof![3 => messages(), 1 => others]
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written(frame in frames(), behind in 0_usize..9) {
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            let size = bytes.len();
            if let FrameBody::Raft(_, message) = &frame.body {
                prop_assert_eq!(size, size_of(&message.entries));
            }
            bytes.resize(size + behind, 0x2a);
            let bytes = Bytes::from(bytes);
            prop_assert_eq!(PeerFrame::read(&bytes, size), Ok(Some((frame, size))));
            prop_assert_eq!(PeerFrame::read(&bytes, size - 1), Err(FrameError::Size));
            for end in 0..size {
                prop_assert_eq!(PeerFrame::read(&bytes.slice(..end), size), Ok(None), "{} of {}", end, size);
            }
        }

        #[test]
        fn a_bit_that_has_changed_is_seen(frame in frames(), bit in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            // A size that has changed may say that more is to come.
            let bit = 32 + bit.index(bytes.len() * 8 - 32);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(PeerFrame::read(&Bytes::from(bytes), 1 << 20), Err(FrameError::Checksum));
        }

        /// With a right checksum, as somebody hostile would send it.
        #[test]
        fn anything_is_refused_or_written_again_as_it_was(
            mut bytes in proptest::collection::vec(prop_oneof![3 => Just(0), 1 => any::<u8>()], 32..300),
            kind in 0..36_u8,
        ) {
            let size = length(bytes.len());
            bytes[..4].copy_from_slice(&size);
            (bytes[8], bytes[10], bytes[11]) = (kind, 0, 0);
            let checksum = crc32c::crc32c(&bytes[8..]).to_le_bytes();
            bytes[4..8].copy_from_slice(&checksum);
            let bytes = Bytes::from(bytes);
            if let Ok(Some((frame, used))) = PeerFrame::read(&bytes, bytes.len()) {
                let mut again = Vec::new();
                frame.write(&mut again);
                prop_assert_eq!((used, &again[..]), (bytes.len(), &bytes[..]));
            }
        }
    }
}
