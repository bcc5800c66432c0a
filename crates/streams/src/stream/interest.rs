//! Interest of a stream's consumers in its messages: asked when a message is published, and when
//! one may go.
//!
//! The stream asks from inside its turn, so whoever answers may take no turn for it and should be
//! quick: a look at patterns, at the most under a leaf lock.

use myelin_store::Seq;

/// Interest of a stream's consumers in its messages. It matters to streams with work-queue or
/// interest retention.
///
/// A consumer must be counted before it is said to exist, and what it settled must be known here
/// before the stream is told ([`StreamCore::acknowledged`](super::StreamCore::acknowledged)). In
/// doubt the answer is yes: a message that stays too long goes with the next
/// [`StreamCore::reconcile`](super::StreamCore::reconcile), one that went too early is lost.
pub trait Interest: Send + Sync {
    /// Whether any consumer is interested in messages of this subject.
    fn wants(&self, subject: &[u8]) -> bool;

    /// Whether any consumer has still to acknowledge this message, or to be delivered it. Also one
    /// that does not deliver it any more but was never told that it is settled: a message that
    /// reached `max_deliver` stays.
    ///
    /// `looks` is raised by how many were asked: what the answer has cost.
    fn needs(&self, subject: &[u8], seq: Seq, looks: &mut usize) -> bool;

    /// Whether another stream that copies this one has still to get this message. Nothing else
    /// keeps a message of a work queue that was settled: each is one consumer's, and a consumer
    /// that is made before it is removed must not get it.
    fn is_to_be_copied(&self, subject: &[u8], seq: Seq) -> bool {
        let _ = (subject, seq);
        false
    }

    /// Whether there are consumers at all. Without any, all messages of a stream with interest
    /// retention go at once.
    fn has_consumers(&self) -> bool {
        true
    }
}

/// The interest in a stream without consumers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoConsumers;

impl Interest for NoConsumers {
    fn wants(&self, _: &[u8]) -> bool {
        false
    }

    fn needs(&self, _: &[u8], _: Seq, _: &mut usize) -> bool {
        false
    }

    fn has_consumers(&self) -> bool {
        false
    }
}
