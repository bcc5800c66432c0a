//! Answers of a server to published messages: the common ones are read by comparison, all others as
//! JSON.
//!
//! Owns the rule that everything but the expected answer fails the run. Knows no sockets and no
//! counts.

use serde_json::Value;

use crate::error::BenchError;
use crate::jetstream::envelope::{Envelope, number};

/// Acknowledgements of one stream.
#[derive(Debug)]
pub(crate) struct Acknowledgement {
    stream: String,
    /// Start of an acknowledgement, up to the sequence.
    start: Vec<u8>,
}

/// Answer of a server to a publisher of a fast batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastAnswer {
    /// The batch is handled up to here; the next such answer comes after that many messages.
    Flow { sequence: u64, every: u64 },
    /// The batch is closed, and this many messages of it are stored.
    Committed { sequence: u64, count: u64 },
}

impl Acknowledgement {
    /// Reads acknowledgements of this stream; those of another are errors.
    pub(crate) fn of(stream: &str) -> Self {
        let start = format!("{{\"stream\":\"{stream}\",\"seq\":").into_bytes();
        Self { stream: stream.to_owned(), start }
    }

    /// The sequence that a message was stored under.
    pub(crate) fn sequence(&self, envelope: &Envelope<'_>) -> Result<u64, BenchError> {
        match self.quick(envelope.payload) {
            Some(sequence) if envelope.header.is_empty() => Ok(sequence),
            _ => self.stored(&json(envelope)?),
        }
    }

    fn quick(&self, payload: &[u8]) -> Option<u64> {
        let mut rest = payload.strip_prefix(&self.start[..])?;
        let sequence = number(&mut rest)?;
        (rest == b"}" && sequence > 0).then_some(sequence)
    }

    fn stored(&self, answer: &Value) -> Result<u64, BenchError> {
        match (answer["stream"].as_str(), answer["seq"].as_u64()) {
            (Some(stream), Some(sequence)) if stream == self.stream && sequence > 0 => Ok(sequence),
            _ => Err(BenchError::Protocol(format!("not an acknowledgement of {}: {answer}", self.stream))),
        }
    }

    /// The sequence of the last message of the batch with this id, and how many there are.
    pub(crate) fn committed(&self, envelope: &Envelope<'_>, id: &str) -> Result<(u64, u64), BenchError> {
        self.closed(&json(envelope)?, id)
    }

    fn closed(&self, answer: &Value, id: &str) -> Result<(u64, u64), BenchError> {
        let sequence = self.stored(answer)?;
        match (answer["batch"].as_str(), answer["count"].as_u64()) {
            (Some(batch), Some(count)) if batch == id && count <= sequence => Ok((sequence, count)),
            _ => Err(BenchError::Protocol(format!("not the commit of batch {id}: {answer}"))),
        }
    }

    /// An answer within the fast batch with this id.
    pub(crate) fn fast(&self, envelope: &Envelope<'_>, id: &str) -> Result<FastAnswer, BenchError> {
        if let Some(flow) = quick_flow(envelope.payload) {
            return Ok(flow);
        }
        let answer = json(envelope)?;
        match answer["type"].as_str() {
            Some("ack") => match (answer["seq"].as_u64(), answer["msgs"].as_u64()) {
                (Some(sequence), Some(every)) => Ok(FastAnswer::Flow { sequence, every }),
                _ => Err(BenchError::Protocol(format!("not a flow acknowledgement: {answer}"))),
            },
            Some(_) => Err(BenchError::Lost(format!("batch {id}: {answer}"))),
            None => {
                self.closed(&answer, id).map(|(sequence, count)| FastAnswer::Committed { sequence, count })
            }
        }
    }
}

fn quick_flow(payload: &[u8]) -> Option<FastAnswer> {
    let mut rest = payload.strip_prefix(b"{\"type\":\"ack\",\"seq\":")?;
    let sequence = number(&mut rest)?;
    rest = rest.strip_prefix(b",\"msgs\":")?;
    let every = number(&mut rest)?;
    (rest == b"}").then_some(FastAnswer::Flow { sequence, every })
}

/// A JSON answer without an error in it.
pub(crate) fn json(envelope: &Envelope<'_>) -> Result<Value, BenchError> {
    if envelope.header.starts_with(b"NATS/1.0 503") {
        return Err(BenchError::NoResponder);
    }
    let answer: Value = serde_json::from_slice(envelope.payload).map_err(|_| {
        let [header, payload] = [envelope.header, envelope.payload].map(String::from_utf8_lossy);
        BenchError::Protocol(format!("neither an acknowledgement nor an error: {header}{payload}"))
    })?;
    match &answer["error"] {
        Value::Null => Ok(answer),
        error => Err(BenchError::Refused(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(payload: &str) -> Envelope<'_> {
        Envelope { tail: b"", header: b"", payload: payload.as_bytes() }
    }

    const ERROR: &str = r#"{"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},"stream":"S","seq":0}"#;

    #[test]
    fn acknowledgements_say_the_sequence() {
        let stream = Acknowledgement::of("S");
        assert_eq!(stream.sequence(&says(r#"{"stream":"S","seq":12}"#)).unwrap(), 12);
        assert_eq!(stream.sequence(&says(r#"{"stream":"S","domain":"d","seq":3}"#)).unwrap(), 3);
        for wrong in [r#"{"stream":"S","seq":0}"#, r#"{"stream":"T","seq":1}"#, "{}", "", "+OK"] {
            assert!(matches!(stream.sequence(&says(wrong)), Err(BenchError::Protocol(_))), "{wrong}");
        }
        assert!(
            matches!(stream.sequence(&says(ERROR)), Err(BenchError::Refused(text)) if text.contains("10208"))
        );
        let nobody = Envelope { header: b"NATS/1.0 503\r\n\r\n", ..says("") };
        assert!(matches!(stream.sequence(&nobody), Err(BenchError::NoResponder)));
    }

    #[test]
    fn commits_belong_to_their_batch() {
        let stream = Acknowledgement::of("S");
        let commit = says(r#"{"stream":"S","seq":4,"batch":"B","count":3}"#);
        assert_eq!(stream.committed(&commit, "B").unwrap(), (4, 3));
        assert!(stream.committed(&commit, "C").is_err());
        assert!(stream.committed(&says(r#"{"stream":"S","seq":4}"#), "B").is_err());
        assert!(stream.committed(&says(r#"{"stream":"S","seq":4,"batch":"B","count":5}"#), "B").is_err());
    }

    #[test]
    fn a_fast_batch_has_flow_acknowledgements_and_one_commit() {
        let stream = Acknowledgement::of("S");
        let answer = |text| stream.fast(&says(text), "B");
        let flow = FastAnswer::Flow { sequence: 8, every: 4 };
        assert_eq!(answer(r#"{"type":"ack","seq":8,"msgs":4}"#).unwrap(), flow);
        assert_eq!(answer(r#"{"type":"ack","msgs":4,"seq":8}"#).unwrap(), flow);
        let committed = FastAnswer::Committed { sequence: 17, count: 13 };
        assert_eq!(answer(r#"{"stream":"S","seq":17,"batch":"B","count":13}"#).unwrap(), committed);
        for lost in [r#"{"type":"gap","last_seq":1,"seq":3}"#, r#"{"type":"other"}"#] {
            assert!(matches!(answer(lost), Err(BenchError::Lost(_))));
        }
        assert!(matches!(
            answer(r#"{"type":"err","seq":3,"error":{"code":400}}"#),
            Err(BenchError::Refused(_))
        ));
        assert!(matches!(answer(ERROR), Err(BenchError::Refused(_))));
        assert!(answer(r#"{"type":"ack","seq":"x"}"#).is_err());
    }
}
