//! Outgoing messages of a stream: what publishers are told, what is published again, what of both
//! waits for its release, and how many publishers could not be told.

use super::drops::Drops;
use super::group_consumers::StreamGroup;
use super::release_queue::ReleaseQueue;
use super::reply::PublishReplies;
use super::republish::Republish;
use super::settings::StreamSettings;
use myelin_jsapi::config::StreamConfig;

/// Everything that a stream says.
pub(super) struct OutgoingMsgs {
    /// The texts of replies.
    pub(super) replies: PublishReplies,
    /// Republishing of stored messages, if the configuration asks for it.
    pub(super) republish: Option<Republish>,
    /// Messages that wait until the store has released what they tell of, in order.
    pub(super) release_queue: ReleaseQueue,
    /// Messages that were not taken and whose publishers gave no reply subject.
    pub(super) drops: Drops,
    /// Consumers, where what they say waits for a group.
    pub(super) group: Option<Box<StreamGroup>>,
    /// Whether the stream has failed because these were not as the group has them.
    pub(super) has_diverged: bool,
}

impl OutgoingMsgs {
    /// Starts with nothing said.
    pub(super) fn new(config: &StreamConfig, settings: &StreamSettings) -> Self {
        Self {
            replies: PublishReplies::new(&config.name, &settings.domain),
            republish: Republish::new(config, settings.seed),
            release_queue: ReleaseQueue::default(),
            drops: Drops::default(),
            group: None,
            has_diverged: false,
        }
    }
}
