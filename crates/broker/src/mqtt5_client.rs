//! A client that speaks MQTT 5, as those see it who deliver to it: what it takes, and what it has
//! asked for that is not the same for all.
//!
//! Shared between shards. A message to a client without topic aliases, subscription identifiers and
//! a longest packet looks at nothing here.

use crate::mqtt5_requests::Requests;
use myelin_mqtt::packet::SubscriptionId;
use myelin_stdx::sync::lock;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Mutex;

/// The most topic aliases that are used towards a client, whatever it takes: the server remembers
/// the subjects.
const MOST_ALIASES: u16 = 64;

/// The longest subject that is worth an alias and is remembered for it.
const LONGEST_ALIASED: usize = 256;

/// Client of MQTT 5, for those who deliver to it.
#[derive(Debug)]
pub(crate) struct Mqtt5Client {
    /// The longest packet that it takes, in bytes.
    max_packet: Option<u32>,
    /// The highest topic alias that it takes.
    max_alias: u16,
    aliases: Mutex<HashMap<Box<[u8]>, SentAlias>>,
    wishes: Mutex<HashMap<Box<[u8]>, Wishes>>,
    pub(crate) requests: Requests,
}

/// Alias that the client was told.
#[derive(Debug, Clone, Copy)]
struct SentAlias {
    alias: NonZeroU16,
    /// The shard that tells it. What another shard sends may come before that.
    shard: usize,
    /// Whether a message that tells it is on its way.
    is_told: bool,
}

/// How a topic is named to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AliasUse {
    /// In full.
    None,
    /// In full, with an alias that stands for it from then on: to be [noted](Mqtt5Client::told)
    /// when the message is on its way.
    Tell(NonZeroU16),
    /// By its alias.
    Short(NonZeroU16),
}

/// Wishes of a subscription that make its messages differ from those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wishes {
    /// Number that messages come with.
    pub(crate) id: Option<SubscriptionId>,
    /// The client's own messages stay away.
    pub(crate) no_local: bool,
    /// Messages keep the retain flag that they were published with.
    pub(crate) as_published: bool,
}

impl Mqtt5Client {
    pub(crate) fn new(max_packet: Option<u32>, max_alias: u16) -> Self {
        let (aliases, wishes) = (Mutex::default(), Mutex::default());
        Self { max_packet, max_alias, aliases, wishes, requests: Requests::default() }
    }

    /// Whether its messages depend on more than its subscriptions.
    pub(crate) fn is_particular(&self) -> bool {
        self.max_alias > 0 || self.max_packet.is_some()
    }

    /// Whether it takes a packet of so many bytes.
    pub(crate) fn takes(&self, packet_len: usize) -> bool {
        self.max_packet.is_none_or(|max| packet_len <= max as usize)
    }

    /// How `shard` names `subject` to the client.
    pub(crate) fn alias(&self, subject: &[u8], shard: usize) -> AliasUse {
        if self.max_alias == 0 || subject.len() > LONGEST_ALIASED {
            return AliasUse::None;
        }
        let mut aliases = lock(&self.aliases);
        match aliases.get(subject) {
            Some(sent) if sent.shard != shard => AliasUse::None,
            Some(sent) if sent.is_told => AliasUse::Short(sent.alias),
            Some(sent) => AliasUse::Tell(sent.alias),
            None => {
                let next = u16::try_from(aliases.len() + 1).ok().and_then(NonZeroU16::new);
                let next = next.filter(|next| next.get() <= self.max_alias.min(MOST_ALIASES));
                let Some(alias) = next else { return AliasUse::None };
                aliases.insert(subject.into(), SentAlias { alias, shard, is_told: false });
                AliasUse::Tell(alias)
            }
        }
    }

    /// Notes that a message that tells the alias of `subject` is on its way.
    pub(crate) fn told(&self, subject: &[u8]) {
        if let Some(sent) = lock(&self.aliases).get_mut(subject) {
            sent.is_told = true;
        }
    }

    /// The wishes of the subscription that the client has under this name.
    pub(crate) fn wishes(&self, sid: &[u8]) -> Wishes {
        lock(&self.wishes).get(sid).copied().unwrap_or_default()
    }

    /// Sets the wishes of a subscription; answers whether they were others.
    pub(crate) fn set_wishes(&self, sid: &[u8], wishes: Wishes) -> bool {
        let mut all = lock(&self.wishes);
        let before = match wishes == Wishes::default() {
            true => all.remove(sid),
            false => all.insert(sid.into(), wishes),
        };
        before.unwrap_or_default() != wishes
    }
}
