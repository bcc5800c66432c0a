//! The broker's view of a TCP socket.

use super::secure::ConnTls;
use super::{Mail, Mailbox};
use myelin_broker::{Conn, Transport};
use std::io::{self, IoSlice};
use std::sync::{Arc, Weak};
use tokio::net::tcp::OwnedWriteHalf;

/// Any shard may write; what would block goes to the owner. Holds the socket weakly: a connection
/// may be remembered by a route cache long after its end, its file descriptor must not.
pub(super) struct Socket {
    pub(super) write: Weak<OwnedWriteHalf>,
    pub(super) owner: Mailbox,
}

impl Transport for Socket {
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

    fn wake(&self, conn: &Arc<Conn>) {
        self.owner.flush_link(conn);
    }

    fn has_mqtt_mail(&self, conn: &Arc<Conn>) {
        self.owner.post(Mail::MqttInbox(conn.cid()));
    }
}

/// Socket on which clients may speak TLS: plain until the handshake is over.
pub(super) struct SecureSocket {
    pub(super) plain: Socket,
    pub(super) tls: Weak<ConnTls>,
}

impl Transport for SecureSocket {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.tls.upgrade() {
            Some(tls) if tls.is_on() => {
                let write = self.plain.write.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
                tls.try_write(&write, bufs)
            }
            _ => self.plain.try_write(bufs),
        }
    }

    fn wait_writable(&self, conn: &Arc<Conn>) {
        self.plain.wait_writable(conn);
    }

    fn kick(&self, conn: &Arc<Conn>) {
        self.plain.kick(conn);
    }
    fn wake(&self, conn: &Arc<Conn>) {
        self.plain.wake(conn);
    }

    fn has_mqtt_mail(&self, conn: &Arc<Conn>) {
        self.plain.has_mqtt_mail(conn);
    }
}
