//! Acknowledgements of messages of QoS 2, which their consumer confirms.
//!
//! The PUBREL of a message is stored until the client has answered it and the consumer has
//! confirmed that the message does not come again: whoever takes the session up meanwhile finds it,
//! and says both again. An acknowledgement that is lost, as a stream's leader ends, would have the
//! message delivered a second time to a session that knows nothing of it.

use super::outgoing::ACK;
use super::state::{Matter, Settling};
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::packet::PacketId;
use myelin_wire::message_buf::MessageRef;
use std::time::{Duration, Instant};

/// Time after which an acknowledgement is said again that was not confirmed.
pub(super) const SETTLE_AGAIN: Duration = Duration::from_secs(1);

/// How often one is said: its consumer may be gone for good.
const MOST_TIMES: u32 = 60;

impl Session {
    /// Tells the consumer that the client has had a message of QoS 2.
    pub(super) fn settle(&mut self, shard: &mut Shard, id: PacketId, ack: &[u8], now: Instant) {
        let Some(stored) = self.stored_mut().filter(|_| !ack.is_empty()) else { return };
        stored.pubrels.await_consumer(id);
        self.say_settled(shard, Settling { id, ack: ack.into(), times: 0 }, now);
    }

    fn say_settled(&mut self, shard: &mut Shard, settling: Settling, now: Instant) {
        let Settling { id, ack, times } = settling;
        debug_assert!(times < MOST_TIMES, "one that nobody confirms is given up");
        let msg = MessageRef { subject: &ack.clone(), payload: ACK, ..MessageRef::default() };
        self.ask(shard, msg, Matter::Settled(Settling { id, ack, times: times + 1 }), now);
    }

    /// The consumer has answered, or nobody was there.
    pub(super) fn settled(
        &mut self,
        shard: &mut Shard,
        (number, settling): (u64, Settling),
        msg: &MessageRef<'_>,
        now: Instant,
    ) {
        let Some(stored) = self.stored_mut() else { return };
        if !msg.headers.is_empty() && settling.times < MOST_TIMES {
            // No responders: its stream has no leader now. It is said again when that is due.
            stored.awaited.insert(number, (now, Matter::Settled(settling)));
            return;
        }
        self.over(shard, settling.id, now);
    }

    /// Says those again that were not confirmed in time. False where there are none.
    pub(super) fn settle_again(&mut self, shard: &mut Shard, now: Instant) -> bool {
        let Some(stored) = self.stored_mut() else { return false };
        let is_late = |_: &u64, (asked, matter): &mut (Instant, Matter)| {
            matches!(matter, Matter::Settled(_)) && *asked + SETTLE_AGAIN <= now
        };
        let late: Vec<_> = stored.awaited.extract_if(.., is_late).map(|(_, (_, matter))| matter).collect();
        let is_any = !late.is_empty();
        for matter in late {
            match matter {
                Matter::Settled(settling) if settling.times < MOST_TIMES => {
                    self.say_settled(shard, settling, now);
                }
                Matter::Settled(settling) => {
                    self.over(shard, settling.id, now);
                    // The client may have waited for that.
                    self.conn.sink().has_mqtt_mail(&self.conn);
                }
                _ => {}
            }
        }
        is_any
    }

    fn over(&mut self, shard: &mut Shard, id: PacketId, now: Instant) {
        if let Some(reply) = self.stored_mut().and_then(|stored| stored.pubrels.settled(id)) {
            self.tell_consumer(shard, &reply, ACK, now);
            self.deliver_held(shard, now);
        }
    }
}
