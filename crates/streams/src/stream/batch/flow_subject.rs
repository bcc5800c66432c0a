//! Reply subject of a fast batch's message:
//! `<prefix>.<id>.<flow>.<ok|fail>.<sequence>.<operation>.$FI`, read from the right.

use super::number;

const SUFFIX: &[u8] = b".$FI";
/// For clients whose own number makes no sense.
const DEFAULT_FLOW: u16 = 10;

/// Operation that a message asks of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowOperation {
    /// 0: the first message.
    Start,
    /// 1: another one.
    Append,
    /// 2: the last one.
    Commit,
    /// 3: the batch is complete; this message is not part of it.
    CommitBefore,
    /// 4: what was received so far? Not part of the batch.
    Ping,
}

/// A reply subject that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSubject<'a> {
    /// Of the batch. It may still be too long.
    pub id: &'a [u8],
    /// The message's place in the batch, from 1; of a ping the last place that the client has used.
    pub sequence: u64,
    /// After how many messages the client wants to hear of them at most; never 0.
    pub flow: u16,
    /// Whether the batch goes on when messages are missing.
    pub gap_ok: bool,
    /// See there.
    pub operation: FlowOperation,
}

/// A reply subject that ends like a fast batch's and makes no sense before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedFlowSubject;

impl<'a> FlowSubject<'a> {
    /// `None` if the message is not part of a fast batch.
    pub fn read(reply: &'a [u8]) -> Option<Result<Self, MalformedFlowSubject>> {
        let rest = reply.strip_suffix(SUFFIX).filter(|rest| !rest.is_empty())?;
        Some(Self::read_fields(rest).ok_or(MalformedFlowSubject))
    }

    fn read_fields(rest: &'a [u8]) -> Option<Self> {
        let (rest, operation) = split_last(rest)?;
        let operation = FlowOperation::read(operation)?;
        let (rest, sequence) = split_last(rest)?;
        let sequence = number::checked(sequence).filter(|sequence| operation.is_possible_at(*sequence))?;
        let (rest, gap) = split_last(rest)?;
        let gap_ok = match gap {
            b"ok" => true,
            b"fail" => false,
            _ => return None,
        };
        let (rest, flow) = split_last(rest)?;
        let (_prefix, id) = split_last(rest)?;
        Some(Self { id, sequence, flow: read_flow(flow), gap_ok, operation })
    }
}

impl FlowOperation {
    fn read(text: &[u8]) -> Option<Self> {
        Some(match number::wrapping(text) {
            0 => Self::Start,
            1 => Self::Append,
            2 => Self::Commit,
            3 => Self::CommitBefore,
            4 => Self::Ping,
            _ => return None,
        })
    }

    /// The highest number is none because the one after it is computed.
    fn is_possible_at(self, sequence: u64) -> bool {
        match self {
            Self::Start => sequence == 1,
            Self::Append | Self::CommitBefore => (2..u64::MAX).contains(&sequence),
            Self::Commit | Self::Ping => (1..u64::MAX).contains(&sequence),
        }
    }
}

fn read_flow(text: &[u8]) -> u16 {
    match number::wrapping(text) {
        ..=0 => DEFAULT_FLOW,
        flow => u16::try_from(flow).unwrap_or(u16::MAX),
    }
}

/// The last token and what stands before its dot.
fn split_last(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = text.iter().rposition(|byte| *byte == b'.')?;
    Some((&text[..dot], &text[dot + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reply_is_read_from_the_right() {
        let read = FlowSubject::read(b"_INBOX.x.y.uuid.100.ok.7.1.$FI");
        let expected = FlowSubject {
            id: b"uuid",
            sequence: 7,
            flow: 100,
            gap_ok: true,
            operation: FlowOperation::Append,
        };
        assert_eq!(read, Some(Ok(expected)));
    }

    #[test]
    fn other_replies_are_none() {
        for reply in ["", "$FI", ".$FI", "in.box", "in.$FI.x", "p.b.1.ok.1.0.$fi"] {
            assert_eq!(FlowSubject::read(reply.as_bytes()), None, "{reply}");
        }
    }

    /// Each was sent to the reference, which answered 10206.
    #[test]
    fn what_makes_no_sense_is_malformed() {
        let wrong = [
            "ok.0.0",
            "ok.1.5",
            "ok.1.x",
            "ok.2.0",
            "ok.1.1",
            "nok.1.0",
            "ok.1.3",
            "ok..0",
            "ok.1.",
            "ok.18446744073709551615.1",
            "ok.18446744073709551616.1",
        ];
        for fields in wrong {
            let reply = format!("inb.p.b.10.{fields}.$FI");
            assert_eq!(FlowSubject::read(reply.as_bytes()), Some(Err(MalformedFlowSubject)), "{reply}");
        }
        for reply in ["b.10.ok.1.0.$FI", "10.ok.1.0.$FI", "ok.1.0.$FI", "1.0.$FI", "0.$FI", "a.$FI"] {
            assert_eq!(FlowSubject::read(reply.as_bytes()), Some(Err(MalformedFlowSubject)), "{reply}");
        }
    }

    #[test]
    fn the_flow_is_never_zero_and_has_an_end() {
        let flow = |text: &str| {
            FlowSubject::read(format!("p.b.{text}.ok.1.0.$FI").as_bytes()).unwrap().unwrap().flow
        };
        assert_eq!(
            ["0", "x", "", "1", "65535", "65536", "99999999"].map(flow),
            [10, 10, 10, 1, 65535, 65535, 65535]
        );
    }

    /// Compat: observed. 2^64 + 2 is a commit.
    #[test]
    fn a_long_operation_wraps() {
        let flow_subject = FlowSubject::read(b"p.w.10.ok.1.18446744073709551618.$FI").unwrap().unwrap();
        assert_eq!(flow_subject.operation, FlowOperation::Commit);
    }

    proptest! {
        #[test]
        fn nothing_panics(reply in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = FlowSubject::read(&reply);
        }

        #[test]
        fn near_misses_do_not_panic_and_tickets_hold_what_they_promise(
            reply in "([a-c]{0,2}\\.){0,2}[a-c]{0,70}\\.[0-9]{0,22}\\.(ok|fail|x)\\.[0-9]{0,22}\\.[0-9]{0,21}\\.\\$FI"
        ) {
            if let Some(Ok(flow_subject)) = FlowSubject::read(reply.as_bytes()) {
                prop_assert!(flow_subject.flow > 0);
                prop_assert!(flow_subject.sequence > 0 && flow_subject.sequence < u64::MAX);
            }
        }
    }
}
