//! Each kind of frame with the bytes that it has had: what goes over links by chance need not have
//! all of them.

use super::KEPT;
use bytes::Bytes;
use myelin_replica::frame::{
    FrameBody, GroupPlace, LeadStanding, LogWord, PeerFrame, RestWord, StateStep, StateWord, TimeWord,
};
use myelin_replica::liveness::{SupportAnswer, SupportRequest};
use myelin_replica::{GroupId, Peer, RaftEntry, RaftMessage, RaftMessageKind};
use std::fmt::Write as _;
use std::fs;

const PLACE: GroupPlace = GroupPlace { group: GroupId(0x1122_3344_5566_7788), epoch: 3 };

fn raft(kind: RaftMessageKind, is_transfer: bool, entries: Vec<RaftEntry>) -> FrameBody {
    let peer = |number| Peer::from_number(number).expect("not zero");
    let message = RaftMessage {
        kind,
        from: peer(1),
        to: peer(2),
        term: 5,
        index: 9,
        log_term: 4,
        commit: 8,
        commit_term: 4,
        is_refused: false,
        reject_hint: 0,
        is_transfer,
        entries,
    };
    FrameBody::Raft(PLACE, message)
}

/// Contents of the frames of the file, in their order.
fn bodies() -> Vec<(&'static str, FrameBody)> {
    let entry = RaftEntry { index: 10, term: 5, data: Bytes::from_static(b"abc") };
    let log = |is_amnesiac, is_voter, standing| {
        FrameBody::Log(PLACE, LogWord { term: 5, index: 9, is_amnesiac, is_voter, standing })
    };
    let state = |step| FrameBody::State(PLACE, StateWord { step, index: 9, messages: 0xaa, others: 0xbb });
    let (incarnation, epoch, sent) = (7, 1, 99);
    vec![
        ("append", raft(RaftMessageKind::Append, false, vec![entry])),
        ("vote", raft(RaftMessageKind::Vote, true, Vec::new())),
        ("rest", FrameBody::Rest(PLACE, RestWord { term: 5, index: 9, chain: 0x00ab_cdef })),
        ("log", log(true, true, LeadStanding::Aside)),
        ("full", log(false, false, LeadStanding::Full)),
        ("state", state(StateStep::Drawn)),
        ("differs", state(StateStep::Differs)),
        ("ask", FrameBody::Ask(SupportRequest { incarnation, epoch, sent })),
        ("answer", FrameBody::Answer(SupportAnswer { incarnation, epoch, sent, is_given: true })),
        ("time", FrameBody::Time(TimeWord { sent, day: -5 })),
    ]
}

#[test]
fn each_kind_of_frame_has_the_bytes_that_it_had() {
    let text = fs::read_to_string(format!("{KEPT}/frames.txt")).expect("a file of the repository");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let bodies = bodies();
    assert_eq!(lines.len(), bodies.len());
    for (line, (name, body)) in lines.into_iter().zip(bodies) {
        let frame = PeerFrame { incarnation: 7, known_life: 0x0102_0304, body };
        let (mut written, mut hex) = (Vec::new(), String::new());
        frame.write(&mut written);
        for byte in &written {
            write!(hex, "{byte:02x}").expect("it is text");
        }
        assert_eq!(line, format!("{name} {hex}"));
        let read = PeerFrame::read(&Bytes::from(written.clone()), 1 << 20);
        assert_eq!(read, Ok(Some((frame, written.len()))), "{name}");
    }
}
