//! Upkeep of shares beside the session: when it ends, its memberships are removed, and the
//! consumers of shares that nobody has any more; and a consumer that is gone is made again for
//! those who are members.

use super::api;
use super::shares::{consumer_request, leave_request, members_request, removal_request};
use crate::account::Account;
use crate::mqtt_storage::MqttStorage;
use crate::service::{Binding, Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::{shares, streams};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Kinds of answers, as their subjects say them: the session's membership is removed, and the
/// members of the share are known.
const LEFT: &str = "left";
const MEMBERS: &str = "members";

/// Time for which answers are awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// Upkeep of the shares of a session, until all answers have come.
struct Upkeep {
    account: Arc<Account>,
    storage: Arc<MqttStorage>,
    /// Shares and their patterns.
    shares: Vec<(String, String)>,
    /// Beginning of the subjects on which answers come.
    answers: String,
    binding: OnceLock<Arc<Binding>>,
    since: Instant,
    /// Shares that wait for an answer.
    missing: AtomicUsize,
}

impl Session {
    /// Has the consumers of the session's shares fit those who stay. `leaves`: the session does
    /// not.
    pub(super) fn look_after_shares(&self, shard: &mut Shard, leaves: bool, now: Instant) {
        let Some(stored) = self.stored() else { return };
        let shares: Vec<_> = stored
            .stored_shares()
            .map(|(share, filter)| (share, self.shared_pattern(filter).unwrap_or_default()))
            .collect();
        if shares.is_empty() {
            return;
        }
        let (node, unique) = (&stored.store.node, self.broker.unique_id());
        let account = Arc::clone(stored.store.account());
        let upkeep = Arc::new(Upkeep {
            answers: format!("{}{node}.{unique}.", streams::ANSWERS_PREFIX),
            missing: AtomicUsize::new(shares.len()),
            storage: Arc::clone(&stored.storage),
            binding: OnceLock::new(),
            account: Arc::clone(&account),
            since: now,
            shares,
        });
        let service: Arc<dyn Service> = Arc::<Upkeep>::clone(&upkeep);
        let binding = account.bind(format!("{}>", upkeep.answers).as_bytes(), service);
        let binding = upkeep.binding.get_or_init(|| binding);
        self.broker.registry.mqtt_stores.await_upkeep(&account, binding, (now, now + PATIENCE));
        let mut msgs = shard.spare_buf();
        for (at, (share, _)) in upkeep.shares.iter().enumerate() {
            if leaves {
                let (request, body) = leave_request(&upkeep.storage, share, &stored.hash);
                upkeep.ask(&mut msgs, (LEFT, at), &request, body.as_bytes());
            } else {
                upkeep.ask_for_members(&mut msgs, at);
            }
        }
        shard.send(&account, &mut msgs, now);
        shard.keep_buf(msgs);
    }
}

impl Upkeep {
    fn ask(&self, msgs: &mut MessageBuf, (kind, at): (&str, usize), request: &str, body: &[u8]) {
        let (to, reply) = (self.storage.api(request), format!("{}{kind}.{at}", self.answers));
        let (subject, reply) = (to.as_bytes(), reply.as_bytes());
        msgs.push(MessageRef { subject, reply, payload: body, ..MessageRef::default() });
    }

    fn ask_for_members(&self, msgs: &mut MessageBuf, at: usize) {
        let Some((share, _)) = self.shares.get(at) else { return };
        let (request, body) = members_request(&self.storage, share);
        self.ask(msgs, (MEMBERS, at), &request, body.as_bytes());
    }

    /// Removes the consumer of a share that has no members, or has it last as long as they do.
    fn settle(&self, msgs: &mut MessageBuf, at: usize, answer: &[u8]) {
        let members = api::read(answer).and_then(api::MembersAnswer::subjects);
        let (Ok(members), Some((share, pattern))) = (members, self.shares.get(at)) else { return };
        let expiries: Vec<_> =
            members.iter().filter_map(|subject| Some(shares::member_of(subject)?.expiry)).collect();
        let (request, body) = match expiries.is_empty() {
            true => (removal_request(share), Vec::new()),
            false => consumer_request(&self.storage, (share, pattern), expiries),
        };
        let to = self.storage.api(&request);
        msgs.push(MessageRef { subject: to.as_bytes(), payload: &body, ..MessageRef::default() });
    }
}

impl Service for Upkeep {
    fn serve(&self, batch: &mut ServiceBatch, shard: &mut ServiceShard) {
        let mut msgs = shard.spare_buf();
        for msg in batch.iter() {
            let rest = msg.subject.strip_prefix(self.answers.as_bytes());
            let rest = rest.and_then(|rest| std::str::from_utf8(rest).ok()?.split_once('.'));
            let Some((kind, Ok(at))) = rest.map(|(kind, at)| (kind, at.parse())) else { continue };
            if kind == LEFT {
                self.ask_for_members(&mut msgs, at);
                continue;
            }
            self.settle(&mut msgs, at, msg.payload);
            let was_last = self.missing.fetch_sub(1, Relaxed) == 1;
            if let Some(binding) = self.binding.get().filter(|_| was_last) {
                self.account.unbind(binding);
            }
        }
        shard.send(&self.account, &mut msgs, self.since);
        shard.keep_buf(msgs);
    }
}
