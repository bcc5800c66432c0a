//! Questions of a consumer's turn, and its effects: run after it by whoever embeds the consumer
//! (contracts.md C3).

use myelin_jsapi::advisory::consumer::Unpinned;
use myelin_store::consumer::DeliverySeq;
use myelin_store::{Seq, Timestamp};
use myelin_wire::message_buf::MessageBuf;

/// Questions that a turn may ask of its embedder.
pub trait Env {
    /// Whether anybody receives `subject`.
    fn has_interest(&self, subject: &[u8]) -> bool;

    /// Whether anybody listens to `subject` itself, in this queue group or in none.
    fn listens(&self, subject: &[u8], group: Option<&[u8]>) -> bool;

    /// Whether whoever receives `subject` is so far behind that it gets nothing now. The consumer
    /// is woken when that ends.
    fn is_congested(&mut self, subject: &[u8]) -> bool;

    /// The receiver of `subject` for which the consumer waits since
    /// [`is_congested`](Self::is_congested) has said so, if there is one.
    fn awaited_receiver(&self, subject: &[u8]) -> Option<SlowReceiver>;

    /// A name that nobody has guessed or used.
    fn unique_id(&self) -> String;
}

/// Receiver that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReceiver {
    /// Number of its connection.
    pub conn: u64,
    /// Bytes that wait for it.
    pub bytes: u64,
    /// Bytes from which on it gets nothing.
    pub bound: u64,
}

/// Effects of a consumer's turn: run after it by whoever embeds the consumer.
#[derive(Default)]
pub struct Effects {
    /// Messages to be sent, in order.
    pub out: MessageBuf,
    /// Answers to acknowledgements: to be sent behind `out` once the consumer's state counts as
    /// stored.
    pub confirmations: MessageBuf,
    /// Messages that the consumer needs no more, with work-queue and interest retention.
    pub settled: Vec<Seq>,
    /// Events for those who listen.
    pub events: Vec<ConsumerEvent>,
    /// Whether the consumer has ended: nobody has used it for too long.
    pub is_over: bool,
}

/// Event that advisories and metrics tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerEvent {
    /// A message was delivered as often as it may be.
    MaxDeliveries {
        /// Which.
        seq: Seq,
        /// How often.
        deliveries: u64,
    },
    /// A client wants it again.
    Nak(AckedDelivery),
    /// A client wants it no more.
    Terminated(AckedDelivery, String),
    /// A client has acknowledged it, and this one is among the sampled; when it was delivered.
    Acknowledged(AckedDelivery, Timestamp),
    /// A client was chosen for a group.
    Pinned {
        /// The group.
        group: String,
        /// The number that its requests must show.
        id: String,
    },
    /// The client is chosen no more.
    Unpinned {
        /// The group.
        group: String,
        /// Why.
        reason: Unpinned,
    },
    /// A pause has begun or ended.
    Pause,
    /// Dead letters cannot be moved, or can again.
    DeadLetters(DeadLetterNews),
}

/// News of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLetterNews {
    /// One was refused, the first for a while: they stay, and are tried again.
    Refused {
        /// The stream that was to take it.
        stream: String,
        /// Words for why.
        why: String,
    },
    /// One was taken, after others were not.
    Taken {
        /// By this stream.
        stream: String,
    },
}

/// A delivery to which a client has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedDelivery {
    /// Its number.
    pub delivery: DeliverySeq,
    /// The message.
    pub seq: Seq,
    /// Which delivery of the message it was, from 1.
    pub deliveries: u64,
}
