//! Fan-out as the protocol log shows it. Cold.

use super::Fanout;
use crate::conn::Conn;
use crate::log::Level;
use crate::subscription::Subscription;
use std::sync::Arc;

impl Fanout<'_> {
    #[cold]
    pub(super) fn log_last(&self, sub: &Subscription) {
        let (max, sid) = (sub.max(), String::from_utf8_lossy(sub.sid()));
        let line = format_args!("Auto-unsubscribe limit of {max} reached for sid '{sid}'");
        self.broker.log_for(Level::Debug, sub.conn(), line);
    }

    /// Logs what was staged for a receiver.
    #[cold]
    pub(super) fn trace(&mut self, conn: &Arc<Conn>, head: &[u8]) {
        let (message, header_len) = (self.message, self.message.header_len);
        let headers = header_len > 0 && conn.headers();
        let frame = Self::frame((message, self.shared_tail), &mut self.stripped, head, headers);
        let (body, header_len) =
            if headers { (message.body, header_len) } else { (&message.body[header_len..], 0) };
        self.broker.log_delivery(conn, (frame.head, frame.tail), body, header_len);
    }

    /// Ends what had its last message, where the protocol log expects it: right behind that
    /// message.
    #[cold]
    pub(super) fn end_finished(&mut self) {
        for sub in self.finished.drain(..) {
            // The shard is at work: who watches finds another way.
            match sub.shadowed() {
                None => self.from.account.end(&sub, None),
                Some((own, stream)) => {
                    self.broker.account(stream.importer()).is_some_and(|home| home.end(own, None))
                }
            };
            self.broker.log_delsub(&sub);
        }
    }
}
