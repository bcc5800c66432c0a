//! Acknowledgements from clients: the subject, and behind the first line break the body.
//!
//! Promised for any bytes: reading does not panic, and the subject says what a plain walk over its
//! tokens says; a small consumer that hears it answers at most once, waits for no acknowledgement
//! that it did not wait for before, takes nothing back that was acknowledged, and delivers nothing
//! that its stream does not have.

use myelin_jsapi::consumer::config::AckPolicy;
use myelin_store::Seq;
use myelin_streams::consumer::AckSubject;
use myelin_wire::message_buf::MessageRef;

use crate::consumer::{Bench, MESSAGES};

/// Any bytes as a subject and a body.
pub fn acknowledgement(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (subject, body) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let read = AckSubject::read(subject);
    assert_eq!(
        read.map(|ack| (ack.consumer, ack.deliveries, ack.seq, ack.delivery.0)),
        twin(subject),
        "subject"
    );
    let Some(ack) = read else { return };
    for policy in [AckPolicy::Explicit, AckPolicy::All, AckPolicy::None] {
        answer(policy, &ack, &MessageRef { subject, reply: b"r", payload: body, ..MessageRef::default() });
    }
}

fn answer(policy: AckPolicy, ack: &AckSubject<'_>, msg: &MessageRef<'_>) {
    let mut bench = Bench::new(policy);
    bench.ask(b"inbox", b"3");
    bench.deliver();
    let before = bench.state();
    bench.effects.out.clear();
    bench.turn(|core, turn| core.acknowledge(ack, msg, turn));
    let after = bench.state();
    assert!(bench.effects.confirmations.len() <= 1, "one answer");
    assert!(after.pending.iter().all(|seq| before.pending.contains(seq)), "nothing new is waited for");
    assert!(after.floor >= before.floor && after.floor <= after.delivered, "floors rise");
    assert_eq!(after.delivered, before.delivered, "nothing was delivered");
    // A while later what is left comes again, and what was to be delivered first.
    bench.pass(3_600_000_000_000);
    bench.ask(b"inbox", b"10");
    bench.deliver();
    let delivered = bench.delivered();
    let is_due = |seq: &Seq| *seq > before.delivered || after.pending.contains(seq);
    assert!(delivered.iter().all(is_due), "what was acknowledged does not come again");
    assert!(delivered.len() <= MESSAGES + after.pending.len(), "no more than there is");
}

/// The plain twin of [`AckSubject::read`].
fn twin(subject: &[u8]) -> Option<(&[u8], u64, u64, u64)> {
    let tokens: Vec<&[u8]> = subject.split(|byte| *byte == b'.').collect();
    let [b"$JS", b"ACK", rest @ ..] = tokens.as_slice() else { return None };
    let named = match rest.len() {
        7 => rest,
        9.. => &rest[2..],
        _ => return None,
    };
    let number = |at: usize| String::from_utf8_lossy(named[at]).parse().unwrap_or(0);
    Some((named[1], number(2), number(3), number(4)))
}
