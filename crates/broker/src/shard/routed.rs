//! Messages that come from other servers: to clients and services of this one, and no further.
//!
//! Permissions, mappings and imports were applied where the message was published. Queue groups get
//! it if the other server has chosen them for this one.

use super::Shard;
use super::fanout::{Message, Publisher};
use crate::account::Account;
use crate::conn::Conn;
use bytes::Bytes;
use myelin_wire::encode;
use myelin_wire::peer::parser::Routed;
use std::sync::Arc;
use std::time::Instant;

/// Memory that is kept from one message to the next.
#[derive(Default)]
pub(crate) struct RoutedBuffers {
    tail: Vec<u8>,
}

/// Tails from this size on are shared by their receivers if they stand in memory of their own.
const SHARE_TAIL: usize = 16 * 1024;

/// Replies behind which the subject may stand that receivers are to see.
const ACKNOWLEDGEMENT: &[u8] = b"$JS.ACK.";

impl Shard {
    /// Routes one message that has come over `conn`.
    pub(crate) fn publish_routed(
        &mut self,
        conn: &Arc<Conn>,
        account: &Arc<Account>,
        (routed, backing): (&Routed<'_>, Option<&Bytes>),
        buffers: &mut RoutedBuffers,
        now: Instant,
    ) {
        let (to, subject, reply) = addressed(routed);
        let is_as_it_came = !routed.tail.is_empty() && reply.len() == routed.reply.len();
        let tail = if is_as_it_came {
            routed.tail
        } else {
            buffers.tail.clear();
            encode::tail(&mut buffers.tail, reply, routed.digits.0, routed.digits.1, routed.body);
            &buffers.tail
        };
        let is_shared = is_as_it_came && tail.len() >= SHARE_TAIL;
        let shared_tail = backing.filter(|_| is_shared).map(|memory| memory.slice_ref(tail));
        let from = Publisher {
            conn,
            account,
            permissions: None,
            echo: true,
            verbose: false,
            no_responders: false,
            logs_protocol: false,
            now,
            is_service: true,
            is_mapped: false,
            hop: None,
            trace: None,
            routed: Some(&routed.queues),
        };
        let message = Message {
            to,
            subject,
            reply,
            header_len: routed.header_len as usize,
            body: routed.body,
            tail,
            shared_tail: shared_tail.as_ref(),
        };
        // There is nobody to be told that nobody listens: the other server thought that somebody
        // does.
        let _ = self.publish_onward(from, message);
    }
}

/// The subject that decides who gets a message, if that is not the one which receivers see; that
/// one; and the reply.
fn addressed<'a>(routed: &Routed<'a>) -> (&'a [u8], &'a [u8], &'a [u8]) {
    if routed.reply.starts_with(ACKNOWLEDGEMENT)
        && let Some(at) = routed.reply.iter().position(|byte| *byte == b'@')
        && at + 1 < routed.reply.len()
    {
        return (routed.subject, &routed.reply[at + 1..], &routed.reply[..at]);
    }
    (&[], routed.subject, routed.reply)
}
