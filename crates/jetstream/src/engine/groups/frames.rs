//! Frames as messages of an account: how they are put together, and where they go.

use super::Groups;
use super::peers::PeerLife;
use super::replica::{GroupReplica, MemberEvent};
use bytes::Bytes;
use myelin_broker::{Level, Service, ServiceBatch, ServiceShard};
use myelin_replica::frame::{FrameBody, GroupPlace, PeerFrame, TimeWord};
use myelin_replica::liveness::{SupportAnswer, SupportRequest};
use myelin_replica::{GroupId, Peer, RaftEntry, RaftMessage, RaftMessageKind};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageBuf;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// A message of so many bytes takes no further frame.
const FULL_MESSAGE: usize = 256 << 10;
/// Messages of so many bytes together are not copied to be kept: their memory is.
const SHARED_BATCH: usize = 64 << 10;
/// Entries are copied nevertheless that are less than this part of such memory together.
const LEAST_PART: usize = 4;
/// More bytes than any frame has.
const LARGEST_FRAME: usize = 128 << 20;

/// Puts what a member says into messages, several frames to one server into one.
pub(in crate::engine) fn write_frames(
    groups: &Groups,
    (place, lives, begin): (GroupPlace, &BTreeMap<Peer, u32>, Option<u64>),
    mut messages: Vec<RaftMessage>,
    out: &mut MessageBuf,
) {
    // Whoever takes them too slowly is asked again where its log ends.
    messages.retain(|message| message.entries.is_empty() || !groups.is_behind(message.to));
    // What is for one server stays in order.
    messages.sort_by_key(|message| message.to);
    let (mut frames, mut size) = (Vec::new(), 0);
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        let to = message.to;
        // A leader that has committed nothing of its term may know of less than was committed.
        let is_whole =
            message.kind != RaftMessageKind::Append || begin.is_some_and(|begin| message.commit >= begin);
        let known_life = lives.get(&to).copied().filter(|_| is_whole).unwrap_or(0);
        let body = FrameBody::Raft(place, message);
        let frame = PeerFrame { incarnation: groups.life(), known_life, body };
        size += frame.size();
        frames.push(frame);
        let is_last = messages.peek().is_none_or(|next| next.to != to);
        if is_last || size >= FULL_MESSAGE {
            push(groups, to, &frames, size, out);
            frames.clear();
            size = 0;
        }
    }
}

fn push(groups: &Groups, to: Peer, frames: &[PeerFrame], size: usize, out: &mut MessageBuf) {
    let subject = format!("{to}.{}", groups.me);
    out.push_framed_with(subject.as_bytes(), size, |bytes| {
        frames.iter().for_each(|frame| frame.write(bytes));
    });
}

/// Puts one frame that is no message of Raft into a message.
pub(in crate::engine) fn write_frame(groups: &Groups, to: Peer, body: FrameBody, out: &mut MessageBuf) {
    write_together(groups, to, [body], out);
}

/// Puts frames that are no messages of Raft into one message.
fn write_together(
    groups: &Groups,
    to: Peer,
    bodies: impl IntoIterator<Item = FrameBody>,
    out: &mut MessageBuf,
) {
    let frame = |body| PeerFrame { incarnation: groups.life(), known_life: 0, body };
    let frames: Vec<PeerFrame> = bodies.into_iter().map(frame).collect();
    let size = frames.iter().map(PeerFrame::size).sum();
    push(groups, to, &frames, size, out);
}

/// So much of what is said to members that are not here is kept.
const MOST_EARLY: usize = 4096;

impl Groups {
    /// Keeps what is said to a member that is not here, while there is room: votes, above all. What
    /// is lost is said again.
    fn keep_early(&self, group: GroupId, event: MemberEvent) {
        if !is_small(&event) {
            return;
        }
        let mut early = lock(&self.early);
        if early.len() >= MOST_EARLY {
            early.drain(..MOST_EARLY / 2);
        }
        early.push((group, event));
    }
}

/// Whether it has no entries but such as a new leader begins with: the others are as large as they
/// like, and share their memory with more.
fn is_small(event: &MemberEvent) -> bool {
    match event {
        MemberEvent::Message(.., message) => message.entries.iter().all(|entry| entry.data.is_empty()),
        _ => true,
    }
}

/// Copies entries that are a small part of the memory that they share, and would keep all of it for
/// as long as a quiet group keeps them: a group counts its entries' bytes alone.
fn own_small_part(entries: &mut [RaftEntry], shared: usize) {
    let bytes: usize = entries.iter().map(|entry| entry.data.len()).sum();
    if bytes * LEAST_PART < shared {
        entries.iter_mut().for_each(|entry| entry.data = Bytes::copy_from_slice(&entry.data));
    }
}

/// Takes the frames of other servers.
pub(super) struct FrameService(pub(super) Weak<Groups>);

impl Service for FrameService {
    fn serve(&self, batch: &mut ServiceBatch, shard: &mut ServiceShard) {
        let Some(groups) = self.0.upgrade() else { return batch.clear() };
        let answers = shard.spare_buf();
        let mut intake = FrameIntake { groups: &groups, shared: 0, told: Vec::new(), answers };
        if batch.bytes() >= SHARED_BATCH {
            intake.share(std::mem::take(&mut batch.msgs));
        } else {
            for msg in batch.iter() {
                intake.message(msg.subject, Bytes::copy_from_slice(msg.payload));
            }
        }
        batch.clear();
        let FrameIntake { told, mut answers, .. } = intake;
        if !answers.is_empty() {
            shard.send(&groups.account, &mut answers, groups.host.instant());
        }
        shard.keep_buf(answers);
        told.iter().for_each(|live| live.serve_on(shard));
    }
}

/// Frames of one batch of messages.
struct FrameIntake<'a> {
    groups: &'a Groups,
    /// Bytes of the memory that entries share; 0 where each message has its own.
    shared: usize,
    /// Streams whose members have something to hear.
    told: Vec<Arc<dyn GroupReplica>>,
    answers: MessageBuf,
}

impl FrameIntake<'_> {
    /// Takes the frames of all messages, whose entries share their memory from then on.
    fn share(&mut self, msgs: MessageBuf) {
        let subjects: Vec<_> = msgs.iter().map(|msg| msg.subject.to_vec()).collect();
        let (memory, payloads) = msgs.into_payloads();
        self.shared = memory.capacity();
        let memory = Bytes::from(memory);
        for (subject, payload) in subjects.iter().zip(payloads) {
            self.message(subject, memory.slice(payload));
        }
    }

    /// Takes the frames of one message. What is behind one that makes no sense is lost, as if it
    /// had not arrived.
    fn message(&mut self, subject: &[u8], mut bytes: Bytes) {
        let sender = subject.rsplit(|&byte| byte == b'.').next();
        let sender = sender.and_then(|sender| Peer::parse(std::str::from_utf8(sender).ok()?));
        let Some(from) = sender else { return };
        while !bytes.is_empty() {
            match PeerFrame::read(&bytes, LARGEST_FRAME) {
                Ok(Some((frame, size))) => {
                    self.frame(from, frame);
                    bytes = bytes.split_off(size);
                }
                Ok(None) | Err(_) => {
                    let line = format_args!("JetStream: a frame of server {from} is damaged, and dropped");
                    return self.groups.host.log(Level::Error, line);
                }
            }
        }
    }

    fn frame(&mut self, from: Peer, PeerFrame { incarnation, known_life, body }: PeerFrame) {
        let life = lock(&self.groups.peers).hear(from, incarnation);
        match life {
            PeerLife::Known => {}
            PeerLife::New => self.begin_life(from, incarnation),
            PeerLife::Ended(ahead) => return self.tell_of_later_life(from, ahead, &body),
        }
        let now = self.groups.nanoseconds();
        match body {
            FrameBody::Raft(place, mut message) if message.from == from && message.to == self.groups.me => {
                own_small_part(&mut message.entries, self.shared);
                let event = MemberEvent::Message(place.epoch, known_life, message);
                match self.groups.member(place.group) {
                    Some(live) => {
                        live.tell(event);
                        self.serve_later(live);
                    }
                    None => self.groups.keep_early(place.group, event),
                }
            }
            FrameBody::Log(place, word) => {
                if let Some(live) = self.groups.member(place.group) {
                    live.tell(MemberEvent::Log(place.epoch, from, word));
                    self.serve_later(live);
                }
            }
            FrameBody::State(place, word) => {
                if let Some(live) = self.groups.member(place.group) {
                    live.tell(MemberEvent::State(place.epoch, from, word));
                    self.serve_later(live);
                }
            }
            FrameBody::Ask(request) => {
                let answer = lock(&self.groups.peers).asked(from, request, now);
                let word = TimeWord { sent: request.sent, day: self.groups.host.time_of_day() };
                let bodies = answer.map(FrameBody::Answer).into_iter().chain([FrameBody::Time(word)]);
                write_together(self.groups, from, bodies, &mut self.answers);
            }
            FrameBody::Answer(answer) if answer.incarnation > self.groups.incarnation() => {
                self.groups.outlive(answer.incarnation);
            }
            FrameBody::Answer(answer) => {
                if lock(&self.groups.peers).begins_anew(from, answer, now) {
                    // Before anybody counts on it.
                    self.tell_all(&MemberEvent::Lapsed(from));
                }
                lock(&self.groups.peers).answered(from, answer, now);
            }
            FrameBody::Time(word) => lock(&self.groups.peers).hear_time(from, word, now),
            FrameBody::Rest(place, word) => {
                if let Some(live) = self.groups.member(place.group) {
                    live.tell(MemberEvent::Rest(place.epoch, from, word));
                    self.serve_later(live);
                }
            }
            FrameBody::Raft(..) => {}
        }
    }

    /// A server asks in a life that is earlier than one that is known. If it is there, its disk is
    /// another one, and its clock behind: it learns of the later one.
    fn tell_of_later_life(&mut self, peer: Peer, ahead: u32, body: &FrameBody) {
        let FrameBody::Ask(SupportRequest { incarnation, sent, .. }) = *body else { return };
        let incarnation = incarnation.saturating_add(u64::from(ahead));
        let answer = SupportAnswer { incarnation, epoch: 1, sent, is_given: false };
        write_frame(self.groups, peer, FrameBody::Answer(answer), &mut self.answers);
    }

    fn begin_life(&mut self, peer: Peer, life: u32) {
        self.groups.installs.forget_peer(peer);
        self.tell_all(&MemberEvent::NewLife(peer, life));
    }

    fn tell_all(&mut self, event: &MemberEvent) {
        for live in self.groups.members() {
            live.tell(event.clone());
            self.serve_later(live);
        }
    }

    fn serve_later(&mut self, live: Arc<dyn GroupReplica>) {
        if !self.told.iter().any(|told| Arc::ptr_eq(told, &live)) {
            self.told.push(live);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_with_something_are_not_kept_for_members_that_are_not_here() {
        let entry = |data: &'static [u8]| RaftEntry { index: 2, term: 1, data: Bytes::from_static(data) };
        let append = |entries| RaftMessage {
            kind: RaftMessageKind::Append,
            from: Peer::from_number(1).expect("not zero"),
            to: Peer::from_number(2).expect("not zero"),
            term: 1,
            index: 1,
            log_term: 1,
            commit: 1,
            commit_term: 0,
            is_refused: false,
            reject_hint: 0,
            is_transfer: false,
            entries,
        };
        let is_kept = |entries| is_small(&MemberEvent::Message(1, 0, append(entries)));
        assert!(is_kept(Vec::new()) && is_kept(vec![entry(b"")]));
        assert!(!is_kept(vec![entry(b""), entry(b"x")]));
    }

    #[test]
    fn an_entry_that_is_a_small_part_of_a_batch_does_not_keep_it() {
        let batch = Bytes::from(vec![7; 1000]);
        let entries = |sizes: &[usize]| -> Vec<RaftEntry> {
            let mut all = batch.clone();
            let entry = |&size: &usize| RaftEntry { index: 2, term: 1, data: all.split_to(size) };
            sizes.iter().map(entry).collect()
        };
        let range = batch.as_ptr_range();
        let shares = |entry: &RaftEntry| range.contains(&entry.data.as_ptr());
        let mut small = entries(&[100, 149]);
        own_small_part(&mut small, batch.len());
        assert!(!small.iter().any(shares));
        assert_eq!(small[1].data, [7; 149].as_slice());
        let mut large = entries(&[100, 150]);
        own_small_part(&mut large, batch.len());
        assert!(large.iter().all(shares));
    }
}
