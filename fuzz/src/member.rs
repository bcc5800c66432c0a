//! A member of a group, and whatever others may say to it. The input is a row of messages: twelve
//! bytes of numbers, flags and a kind, and a byte for each entry.
//!
//! Promised: no message ends the library behind the seam. A member goes on, or says who contradicts
//! what is committed; it never takes back what is, and a frame that can be read is written again as
//! the same bytes.

use bytes::Bytes;
use myelin_replica::frame::PeerFrame;
use myelin_replica::{
    Broken, Consensus, LogStart, MemberStart, Members, Peer, RaftEntry, RaftMessage, RaftMessageKind, Vote,
};

/// Any bytes as a frame, and as what a member of three hears.
pub fn member(data: &[u8]) {
    frame(data);
    let Some((choice, mut rest)) = data.split_first() else { return };
    let voters = [1, 2, 3].map(peer);
    let start = MemberStart {
        me: peer(2),
        members: Members::of(&voters),
        vote: Vote::default(),
        log: LogStart::default(),
        is_amnesiac: choice & 2 != 0,
        seed: 1,
    };
    let mut member = Consensus::open(&start).expect("an empty log is sound");
    let mut log = Vec::new();
    if choice & 1 != 0 {
        member.campaign().expect("a new member is sound");
    }
    while let Some((head, body)) = rest.split_first_chunk::<12>() {
        let count = usize::from(head[11] % 4).min(body.len());
        let (terms, behind) = body.split_at(count);
        rest = behind;
        let told = member.step(message(head, terms)).and_then(|()| work(&mut member, &mut log, head[10]));
        if let Err(broken) = told {
            assert!(broken.reason.contains("has another entry"), "{}", broken.reason);
            return;
        }
    }
}

fn peer(number: u64) -> Peer {
    Peer::from_number(number).expect("not zero")
}

fn message(head: &[u8; 12], terms: &[u8]) -> RaftMessage {
    let [kind, from, flags, numbers @ ..] = head;
    let [term, index, log_term, commit, commit_term, reject_hint] =
        [0, 1, 2, 3, 4, 5].map(|at| u64::from(numbers[at] % 16));
    let kind = RaftMessageKind::ALL[usize::from(*kind) % RaftMessageKind::ALL.len()];
    let mut before = log_term;
    let entries = (index + 1..).zip(terms).map(|(index, more)| {
        before += u64::from(more % 4);
        RaftEntry { index, term: before, data: Bytes::from(vec![*more; usize::from(*more)]) }
    });
    let entries = entries.filter(|_| kind == RaftMessageKind::Append).collect();
    RaftMessage {
        kind,
        from: peer(if from & 1 == 0 { 1 } else { 3 }),
        to: peer(2),
        term,
        index,
        log_term,
        commit,
        commit_term,
        is_refused: flags & 1 != 0,
        reject_hint,
        is_transfer: flags & 2 != 0,
        entries,
    }
}

/// Does what the member wants, and lets some time pass.
fn work(member: &mut Consensus, log: &mut Vec<RaftEntry>, choice: u8) -> Result<(), Broken> {
    (0..choice % 8).try_for_each(|_| member.tick())?;
    if choice & 8 != 0 && member.can_propose() {
        let index = member.status().last + 1;
        member.propose(index, Bytes::from_static(b"x")).expect("it can");
    }
    while let Some(ready) = member.ready()? {
        let committed = member.status().committed;
        if let Some(first) = ready.append.first() {
            log.truncate(usize::try_from(first.index).expect("a short log") - 1);
            log.extend(ready.append.iter().cloned());
        }
        assert!(committed <= log.len() as u64, "what is committed is there");
        if choice & 16 != 0 {
            member.persisted(ready.number)?;
        }
    }
    for fetch in member.wanted() {
        member.fetched(fetch.id, Vec::new())?;
    }
    Ok(())
}

/// Any bytes as a frame whose size and checksum are right.
fn frame(data: &[u8]) {
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(data);
    let size = u32::try_from(bytes.len()).expect("an input is short");
    bytes[..4].copy_from_slice(&size.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    let bytes = Bytes::from(bytes);
    let Ok(Some((frame, used))) = PeerFrame::read(&bytes, 1 << 20) else { return };
    assert_eq!(used, bytes.len());
    let mut again = Vec::new();
    frame.write(&mut again);
    assert_eq!(again, bytes);
}
