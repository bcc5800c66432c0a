//! Encoding of what a server says to its peers.
//!
//! Everything appends to a byte vector that the caller owns. `account` is `None` on a link that is
//! dedicated to one account.

use crate::encode::number;

/// Largest number of a queue group's members that is said. Compat: nats-server reads nine digits,
/// and takes a longer number for one member.
const MOST_MEMBERS: u32 = 999_999_999;

/// Appends a queue group and how many members it has, at most [`MOST_MEMBERS`].
pub(super) fn members(out: &mut Vec<u8>, queue: &[u8], weight: u32) {
    out.push(b' ');
    out.extend_from_slice(queue);
    out.push(b' ');
    number(out, weight.min(MOST_MEMBERS));
}

/// Appends `RS+ [account ]<subject>[ <queue> <weight>]`.
pub fn interest(out: &mut Vec<u8>, account: Option<&[u8]>, subject: &[u8], queue: Option<(&[u8], u32)>) {
    begin(out, b"RS+ ", account, subject);
    if let Some((queue, weight)) = queue {
        members(out, queue, weight);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `RS- [account ]<subject>[ <queue>]`.
pub fn no_interest(out: &mut Vec<u8>, account: Option<&[u8]>, subject: &[u8], queue: Option<&[u8]>) {
    begin(out, b"RS- ", account, subject);
    if let Some(queue) = queue {
        out.push(b' ');
        out.extend_from_slice(queue);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `RMSG [account ]<subject> `: what stands in front of a message's tail, which is the same
/// as that of a client's MSG. With H for R it is the head of a message with headers.
pub fn message_head(out: &mut Vec<u8>, account: Option<&[u8]>, subject: &[u8]) {
    begin(out, b"RMSG ", account, subject);
    out.push(b' ');
}

/// Appends `+ <reply> <queue>… ` or `| <queue>… `, which stands between the head and the sizes of a
/// message that is for members of queue groups.
pub fn queue_words<'a>(out: &mut Vec<u8>, reply: &[u8], queues: impl Iterator<Item = &'a [u8]>) {
    if reply.is_empty() {
        out.extend_from_slice(b"| ");
    } else {
        out.extend_from_slice(b"+ ");
        out.extend_from_slice(reply);
        out.push(b' ');
    }
    for queue in queues {
        out.extend_from_slice(queue);
        out.push(b' ');
    }
}

fn begin(out: &mut Vec<u8>, verb: &[u8], account: Option<&[u8]>, subject: &[u8]) {
    out.extend_from_slice(verb);
    if let Some(account) = account {
        out.extend_from_slice(account);
        out.push(b' ');
    }
    out.extend_from_slice(subject);
}
