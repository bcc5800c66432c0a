//! Checks received messages one by one: sid, subject, size, payload, and where it is defined,
//! order.
//!
//! Owns nothing but what it has seen. Never reads a socket. Slow by design: use it to trust a
//! server, not to measure one.

use std::sync::Arc;

use crate::connection::frame::{Head, Operation, WholeFrames};
use crate::error::BenchError;
use crate::pubsub::script::{self, Script, ScriptMessage};

/// Messages that a receiver should get.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Subjects are this, or this with a dot and a number.
    pub base: String,
    /// The sid is the subject's number plus 1; otherwise it is 1.
    pub own_sids: bool,
    /// The largest payload, in bytes.
    pub largest: usize,
    /// Set for a receiver that gets every message of every publisher.
    pub order: Option<Order>,
}

/// The order in which messages must come, publisher by publisher.
#[derive(Clone, Debug)]
pub struct Order {
    /// One script per publisher; publisher `n` uses subject numbers from `n * per_publisher`.
    pub scripts: Vec<Arc<Script>>,
    pub(crate) per_publisher: usize,
}

/// The checking end of one connection.
#[derive(Debug)]
pub struct Verifier {
    expectation: Expectation,
    text: Vec<u8>,
    /// The end of the stream that is not a whole frame yet.
    pending: Vec<u8>,
    /// Place in the script of each publisher of the message that must come next.
    next: Vec<usize>,
    messages: u64,
}

impl Verifier {
    /// Has seen no message yet.
    pub fn new(expectation: Expectation) -> Self {
        let publishers = expectation.order.as_ref().map_or(0, |order| order.scripts.len());
        let text = script::text(expectation.largest);
        Self { expectation, text, pending: Vec::new(), next: vec![0; publishers], messages: 0 }
    }

    /// Messages checked so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Takes the next piece of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let mut frames = WholeFrames::new(&pending);
        while let Some(frame) = frames.next()? {
            match frame.operation {
                Operation::Message(head) => self.check(&head, frame.payload)?,
                Operation::Error(text) => return Err(BenchError::Refused(text.to_owned())),
                _ => {}
            }
        }
        self.pending = frames.rest().to_vec();
        Ok(())
    }

    /// Takes a message that was taken apart already.
    pub(crate) fn check_message(
        &mut self,
        subject: &[u8],
        reply: &[u8],
        payload: &[u8],
    ) -> Result<(), BenchError> {
        let [subject, reply] = [subject, reply].map(String::from_utf8_lossy);
        let reply = (!reply.is_empty()).then_some(&*reply);
        let head = Head { subject: &subject, sid: "1", reply, size: payload.len(), header_size: 0 };
        self.check(&head, payload)
    }

    fn check(&mut self, head: &Head<'_>, payload: &[u8]) -> Result<(), BenchError> {
        let wrong = |what: &str| BenchError::Lost(format!("{what}: {head:?}"));
        let number = self.expectation.number_of(head.subject);
        let number = number.ok_or_else(|| wrong("a subject that nobody publishes"))?;
        let sid = if self.expectation.own_sids { number + 1 } else { 1 };
        if head.sid != sid.to_string() || head.reply.is_some() {
            return Err(wrong("a wrong sid or a reply"));
        }
        let fits = head.size <= self.expectation.largest;
        if !fits || payload != script::payload(&self.text, number, head.size) {
            return Err(wrong("a damaged payload"));
        }
        if let Some(order) = &self.expectation.order {
            let expected = order.advance(&mut self.next, number);
            if expected != Some(ScriptMessage { number, size: head.size }) {
                return Err(wrong("a message out of order"));
            }
        }
        self.messages += 1;
        Ok(())
    }
}

impl Expectation {
    fn number_of(&self, subject: &str) -> Option<usize> {
        match subject.strip_prefix(&self.base)? {
            "" => Some(0),
            rest => rest.strip_prefix('.')?.parse().ok(),
        }
    }
}

impl Order {
    /// The message that must come next from the publisher who owns this subject number.
    fn advance(&self, next: &mut [usize], number: usize) -> Option<ScriptMessage> {
        let publisher = number / self.per_publisher;
        let (script, next) = (self.scripts.get(publisher)?, &mut next[publisher]);
        let message = script.messages[*next];
        *next = (*next + 1) % script.messages.len();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::script::{ScriptSubjects, Sizes};

    fn encoded() -> Script {
        let subjects = ScriptSubjects::Rotating { base: "b".into(), first: 0, count: 8 };
        Script::encode(&subjects, &Sizes::around(16, 1000), 4096)
    }

    fn verifier(complete: bool) -> Verifier {
        let script = encoded();
        let order = complete.then(|| Order { scripts: vec![Arc::new(script)], per_publisher: 8 });
        Verifier::new(Expectation { base: "b".into(), own_sids: false, largest: 100, order })
    }

    /// Frames that a faithful server delivers for the script, one per entry.
    fn frames() -> Vec<String> {
        let text = script::text(100);
        let frame = |message: &ScriptMessage| {
            let payload = script::payload(&text, message.number, message.size);
            let payload = std::str::from_utf8(payload).unwrap();
            format!("MSG b.{} 1 {}\r\n{payload}\r\n", message.number, message.size)
        };
        encoded().messages.iter().map(frame).collect()
    }

    #[test]
    fn a_faithful_stream_passes_in_any_pieces() {
        for piece in [1, 7, 1000] {
            let mut verifier = verifier(true);
            let stream = format!("{}PING\r\n", frames().concat());
            stream.as_bytes().chunks(piece).for_each(|chunk| verifier.feed(chunk).unwrap());
            assert_eq!(verifier.messages() as usize, encoded().messages.len());
        }
    }

    #[test]
    fn lost_damaged_and_reordered_messages_are_found() {
        let mut lost = verifier(true);
        let stream = frames();
        assert!(lost.feed([&stream[0][..], &stream[2]].concat().as_bytes()).is_err());
        let mut queue = verifier(false);
        queue.feed([&stream[2][..], &stream[0]].concat().as_bytes()).unwrap();
        for (from, to) in [(" 1 ", " 2 "), ("b.0", "b.1"), ("b.0", "c.0"), ("\r\n\"", "\r\n!")] {
            let damaged = stream[0].replacen(from, to, 1);
            if damaged != stream[0] {
                assert!(verifier(false).feed(damaged.as_bytes()).is_err(), "{damaged:?}");
            }
        }
        let mut flipped = stream[0].clone().into_bytes();
        let place = flipped.len() - 4;
        flipped[place] ^= 1;
        assert!(verifier(false).feed(&flipped).is_err());
    }
}
