//! The broker's view of a TCP socket.

use super::{Mail, Mailbox};
use myelin_broker::{Conn, Sink};
use std::io::{self, IoSlice};
use std::sync::{Arc, Weak};
use tokio::net::tcp::OwnedWriteHalf;

/// Any shard may write; what would block goes to the owner. Holds the socket weakly: a connection may be
/// remembered by a route cache long after its end, its file descriptor must not.
pub(super) struct Socket {
    pub(super) write: Weak<OwnedWriteHalf>,
    pub(super) owner: Mailbox,
}

impl Sink for Socket {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let write = self.write.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        write.try_write_vectored(bufs)
    }

    fn wait_writable(&self, conn: &Arc<Conn>) {
        self.owner.post(Mail::Drain(Arc::clone(conn)));
    }

    fn kick(&self, conn: &Arc<Conn>) {
        self.owner.post(Mail::Kick(conn.cid()));
    }
}
