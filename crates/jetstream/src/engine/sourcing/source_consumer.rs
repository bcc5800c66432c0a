//! The internal consumer behind a mirror or source whose origin has work-queue or interest
//! retention: the origin keeps for it what is not stored here yet. It is owned by the configuration
//! of the stream that its metadata names: a reader that starts again uses it again, and a source
//! that is taken out of the configuration deletes it.
//!
//! It is what the reference makes, shown in lists like it: durable, acknowledged by flow control.
//! Messages do not go through it: the source reader reads the log, and tells it what was stored.

use super::origin::sign;
use super::render::index_name;
use crate::engine::consumers::LiveConsumer;
use crate::engine::{CallScope, JetStream, LiveStream};
use myelin_broker::ServiceShard;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{StreamConfig, StreamSource};
use myelin_jsapi::consumer::config::{
    self as consumers, AckPolicy, Action, CheckContext, ConsumerConfig, ConsumerConfigLimits, Created,
    DeliverPolicy, MatchedRequest,
};
use myelin_jsapi::json::Moment;
use myelin_store::{Filter, ReadError, Seq, Timestamp, Wait};
use myelin_streams::consumer::account_hash as hash;
use myelin_wire::message_buf::MessageBuf;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

const SECOND: Timestamp = 1_000_000_000;
/// Messages that are settled at once.
const MANY: usize = 1000;

/// Consumer at the origin that keeps for a mirror or source what is not stored here yet.
#[derive(Clone)]
pub(super) struct SourceConsumer {
    origin: Weak<LiveStream>,
    consumer: Arc<LiveConsumer>,
    /// Whether it is a client's, which stays when it is not needed any more.
    is_client_made: bool,
}

/// Name of a mirror or source of a stream where its consumer is.
pub(super) struct SourceConsumerName<'a> {
    pub(super) account: &'a str,
    /// Of the stream that copies.
    pub(super) config: &'a StreamConfig,
    pub(super) source: &'a StreamSource,
    pub(super) is_mirror: bool,
}

impl SourceConsumerName<'_> {
    /// The name of its consumer: the same after a restart.
    pub(super) fn consumer_name(&self, domain: &str) -> String {
        let mut id = format!("{} {}", self.config.name, self.account);
        if !domain.is_empty() {
            id = format!("{id} {domain}");
        }
        let id = hash(&id);
        if self.is_mirror {
            return format!("JS_MIRROR_{id}");
        }
        // Compat: two sources of one stream need names of their own.
        let is_one_of_many =
            self.config.sources.iter().filter(|other| other.name == self.source.name).count() > 1;
        let id = if is_one_of_many { format!("{id} {}", index_name(self.source)) } else { id };
        format!("JS_SRC_{}", hash(&id))
    }

    /// Configuration of its consumer, which delivers there.
    pub(super) fn consumer_config(
        &self,
        domain: &str,
        deliver_subject: String,
        start: Start,
    ) -> ConsumerConfig {
        let source = self.source;
        let filters: Vec<String> = match source.subject_transforms.as_slice() {
            [] => {
                Some(source.filter_subject.clone()).filter(|filter| !filter.is_empty()).into_iter().collect()
            }
            pairs => pairs.iter().map(|pair| pair.source.clone()).collect(),
        };
        let one = filters.len() == 1;
        let (deliver_policy, opt_start_seq, opt_start_time) = match start {
            Start::At(seq) if seq > 1 => (DeliverPolicy::ByStartSequence, seq, None),
            Start::At(_) | Start::First => (DeliverPolicy::All, 0, None),
            Start::Since(time) => (DeliverPolicy::ByStartTime, 0, Some(Moment::from(time))),
        };
        ConsumerConfig {
            name: self.consumer_name(domain),
            deliver_subject,
            deliver_policy,
            opt_start_seq,
            opt_start_time,
            ack_policy: AckPolicy::None,
            ack_wait: 22 * 3600 * SECOND,
            max_deliver: 1,
            flow_control: true,
            idle_heartbeat: SECOND,
            inactive_threshold: 10 * SECOND,
            direct: true,
            sourcing: true,
            filter_subject: if one { filters[0].clone() } else { String::new() },
            filter_subjects: if one { Vec::new() } else { filters },
            metadata: self.metadata(domain),
            ..ConsumerConfig::default()
        }
    }

    fn metadata(&self, domain: &str) -> BTreeMap<String, String> {
        let all = [(STREAM, self.config.name.as_str()), (ACCOUNT, self.account), (DOMAIN, domain)];
        let said = all.into_iter().filter(|(_, value)| !value.is_empty());
        said.map(|(key, value)| (label(self.is_mirror, key), value.to_owned())).collect()
    }
}

/// Where a mirror or source begins, as far as the origin is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    First,
    At(Seq),
    Since(Timestamp),
}

/// Beginning of the subjects to which the consumer of a mirror or source delivers; a token follows.
pub(super) fn deliver_prefix(source: &StreamSource, is_mirror: bool) -> String {
    let deliver = match &source.external {
        Some(external) if !external.deliver.is_empty() => external.deliver.as_str(),
        _ => "$JS",
    };
    format!("{deliver}.{}.", sign(is_mirror)).replace("..", ".")
}

const STREAM: &str = "stream";
const ACCOUNT: &str = "acc";
const DOMAIN: &str = "domain";

fn label(is_mirror: bool, key: &str) -> String {
    format!("_nats.{}.{key}", if is_mirror { "mirror" } else { "src" })
}

/// Owner of the internal consumer behind a mirror or source: the account, the stream, and whether
/// it is the stream's mirror.
pub(super) fn owner(consumer: &ConsumerConfig) -> Option<(&str, &str, bool)> {
    let of = |is_mirror: bool| {
        let said = |key| consumer.metadata.get(&label(is_mirror, key)).map(String::as_str);
        Some((said(ACCOUNT)?, said(STREAM)?, is_mirror))
    };
    of(true).or_else(|| of(false))
}

impl SourceConsumer {
    /// The consumer that a client has made for the source.
    ///
    /// # Errors
    /// It cannot be used. `None`: it is not there, and nobody says so.
    pub(super) fn given(
        origin: &Arc<LiveStream>,
        name: &str,
        is_mirror: bool,
    ) -> Result<Self, Option<ApiError>> {
        let all = origin.consumers();
        let (Some(consumer), Some(config)) = (all.find(name), all.config(name)) else {
            return Err(None);
        };
        if config.ack_policy != AckPolicy::FlowControl {
            let [mirror, source] =
                [ApiError::MIRROR_CONSUMER_REQUIRES_ACK_FC, ApiError::SOURCE_CONSUMER_REQUIRES_ACK_FC];
            return Err(Some(if is_mirror { mirror } else { source }));
        }
        Ok(Self { origin: Arc::downgrade(origin), consumer, is_client_made: true })
    }

    /// Makes the consumer, or finds it as it was left, where the origin is or is about to be as
    /// `stream` says. Only on the thread that answers the API.
    ///
    /// # Errors
    /// The origin may have no more, or it cannot be written.
    pub(super) fn make(
        jetstream: &JetStream,
        origin: &Arc<LiveStream>,
        stream: &StreamConfig,
        name: &SourceConsumerName<'_>,
        start: Seq,
    ) -> Result<Self, ApiError> {
        let (consumers, source) = (origin.consumers(), name.source);
        let domain = &jetstream.settings.domain;
        let account = jetstream.account(origin.account_name()).and_then(|account| account.limits());
        let (account, server) = (account.unwrap_or_default(), jetstream.limits().consumers);
        let limits = ConsumerConfigLimits { account, server };
        let token: String = jetstream.host.unique_id().chars().rev().take(8).collect();
        let deliver_subject = deliver_prefix(source, name.is_mirror) + &token;
        let config = name.consumer_config(domain, deliver_subject, Start::At(start));
        let config = ConsumerConfig { is_own: true, ..config };
        let mut out = MessageBuf::default();
        // Nobody listens there: the log is read instead.
        let has_interest = |_: &str| false;
        let world =
            CheckContext { stream, consumers: &**consumers, limits: &limits, has_interest: &has_interest };
        let name = config.name.clone();
        let config = match consumers.config(&name) {
            // Where it begins is not for a second request to say.
            Some(known) => ConsumerConfig {
                deliver_policy: known.deliver_policy,
                opt_start_seq: known.opt_start_seq,
                opt_start_time: known.opt_start_time,
                deliver_subject: known.deliver_subject.clone(),
                // What somebody else has made under this name is not this stream's to end.
                is_own: known.is_own,
                ..config
            },
            None => config,
        };
        let wanted = MatchedRequest { config, action: Action::CreateOrUpdate, pedantic: false };
        match consumers::create(wanted, &world, &mut || jetstream.host.unique_id())? {
            Created::New(config) => {
                let context = jetstream.create_context(stream);
                let live = consumers.create(*config, &context, &mut out)?;
                let wake = move || live.wake_behind();
                jetstream.host.spawn_api(CallScope::Nothing, Box::new(wake));
            }
            Created::Changed(config) => {
                let live = consumers.find(&name).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
                if consumers.config(&name).is_none_or(|known| *known != *config) {
                    consumers.update_and_wait(&live, *config)?;
                }
            }
        }
        jetstream.host.publish(origin.account(), out);
        if jetstream.settings.sync_always && origin.is_stored() {
            // After a loss of power the origin must know that somebody wants its messages.
            let round = jetstream.journal().round_now(&|| jetstream.host.now().unsigned_abs());
            round.map_err(ApiError::consumer_create)?;
        }
        let consumer = consumers.find(&name).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
        Ok(Self { origin: Arc::downgrade(origin), consumer, is_client_made: false })
    }

    /// Position and filter of the consumer. From now on nothing is pushed. Waits for its turn.
    pub(super) fn place(&self) -> Option<(Seq, Filter)> {
        let place = self.consumer.query_soon(|core, turn| {
            core.set_read(true, turn);
            (core.acknowledged_through(), core.filter().clone())
        });
        place.wait()
    }

    /// Messages up to `through` were stored here before; the consumer may not know. Only for
    /// threads that may wait.
    pub(super) fn catch_up(&self, from: Seq, through: Seq, filter: &Filter) {
        let Some(origin) = self.origin.upgrade() else { return };
        let mut cursor = origin.reader().cursor(filter.clone(), from);
        let mut had = Vec::new();
        loop {
            let at = cursor.position();
            match cursor.next(Wait::Allowed) {
                Ok(Some(message)) if message.seq <= through => had.push(message.seq),
                // What is damaged there is not here, and those behind it may be.
                Err(ReadError::Damaged(_)) => cursor.skip(at.max(cursor.position())),
                // What a device refuses to read is acknowledged with the next start.
                Ok(_) | Err(_) => break,
            }
            if had.len() == MANY {
                self.acknowledge(std::mem::take(&mut had), None);
            }
        }
        self.acknowledge(had, None);
    }

    /// Tells that messages are stored here: the origin needs not keep them for this consumer. Not
    /// inside a turn.
    pub(super) fn acknowledge(&self, seqs: Vec<Seq>, shard: Option<&mut ServiceShard>) {
        match shard {
            _ if seqs.is_empty() => {}
            Some(shard) => self.consumer.act_on_shard(move |core, turn| core.sourced(seqs, turn), shard),
            None => {
                self.consumer.act(move |core, turn| core.sourced(seqs, turn));
            }
        }
    }

    /// Until when a client has paused it. Compat: nothing is copied meanwhile.
    pub(super) fn paused(&self, now: Timestamp) -> Option<Timestamp> {
        let config = self.origin.upgrade()?.consumers().config(self.name())?;
        config.pause_until.map(|until| until.timestamp()).filter(|until| *until > now)
    }

    pub(super) fn is(&self, consumer: &Arc<LiveConsumer>) -> bool {
        Arc::ptr_eq(&self.consumer, consumer)
    }

    pub(super) fn name(&self) -> &str {
        self.consumer.name()
    }

    /// Whether a client has made it.
    pub(super) fn is_client_made(&self) -> bool {
        self.is_client_made
    }

    /// Whether this server has made it, and removes it with the stream that copies.
    pub(super) fn is_own(&self) -> bool {
        let config = self.origin.upgrade().and_then(|origin| origin.consumers().config(self.name()));
        config.is_none_or(|config| config.is_own)
    }

    /// The log is not read for it any more: it pushes again, to whom a client has it push, or to
    /// another server, if the stream that copies is led there now. Waits for nothing.
    pub(super) fn release(&self) {
        drop(self.consumer.act_soon(|core, turn| core.set_read(false, turn)));
    }
}
