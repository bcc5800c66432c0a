//! Copies of a stream anywhere in the cluster, when it begins to keep only what consumers want.
//!
//! Those on this server that read its log are known to it; of those that are led by other servers
//! the cluster's assignments tell. Consumers that stand for them are made before the first message
//! goes, at the first message that there is: a copy that has more passes over what it has. What a
//! copy had followed by until then does not keep messages until they are stored, and ends: the copy
//! asks anew, and gets the one that was made for it.

use super::origin::{self, FoundOrigin};
use super::source_consumer::{SourceConsumer, SourceConsumerName};
use crate::engine::{JetStream, LiveStream};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Retention, StreamConfig};
use myelin_wire::message_buf::MessageBuf;
use std::sync::Arc;

/// Makes the consumers that stand for who copies the stream. Answers the names of those that stand
/// for streams of other servers. Only on the thread that answers the API.
///
/// # Errors
/// One cannot be made, or the stream's group has not agreed.
pub(in crate::engine) async fn hold(
    jetstream: &JetStream,
    origin: &Arc<LiveStream>,
) -> Result<Vec<String>, ApiError> {
    let leadership = origin.consumers().leadership()?;
    origin.downstreams().make_source_consumer(origin)?;
    let names = hold_for_others(jetstream, origin)?;
    // Before the first removal in the group's log.
    origin.consumers().agreed(leadership).await?;
    Ok(names)
}

fn hold_for_others(jetstream: &JetStream, origin: &Arc<LiveStream>) -> Result<Vec<String>, ApiError> {
    let Some(meta) = jetstream.meta() else { return Ok(Vec::new()) };
    let about_to_be = StreamConfig { retention: Retention::Interest, ..(*origin.config()).clone() };
    let first = origin.reader().state().totals.first_seq.max(1);
    let mut names = Vec::new();
    let copies = meta.view().copies();
    for copy in copies {
        let Some(account) = jetstream.account(&copy.key.account) else { continue };
        let mirror = copy.config.mirror.iter().map(|mirror| (mirror, true));
        let all = mirror.chain(copy.config.sources.iter().map(|source| (source, false)));
        for (source, is_mirror) in all.filter(|(source, _)| source.consumer.is_none()) {
            match origin::find(jetstream, account.account(), source, is_mirror) {
                FoundOrigin::Here(found) if Arc::ptr_eq(&found, origin) => {}
                _ => continue,
            }
            let (account, config) = (account.account().name(), &copy.config);
            let name = SourceConsumerName { account, config, source, is_mirror };
            names.push(name.consumer_name(&jetstream.settings.domain));
            if names.last().is_some_and(|name| origin.consumers().find(name).is_none()) {
                SourceConsumer::make(jetstream, origin, &about_to_be, &name, first)?;
            }
        }
    }
    Ok(names)
}

/// Ends what was followed by where consumers of these names were made.
pub(in crate::engine) async fn end_followed(origin: &Arc<LiveStream>, held: &[String]) {
    let all = origin.consumers();
    let mut out = MessageBuf::default();
    for live in all.all() {
        let of = live.name().rsplit_once('-').map(|(of, _)| of);
        let is_direct = || all.config(live.name()).is_some_and(|config| config.direct && config.sourcing);
        if of.is_some_and(|of| held.iter().any(|name| name == of)) && is_direct() {
            // One that stays is followed still.
            let _ = all.delete(&live, &mut out).await;
        }
    }
    origin.host().publish(origin.account(), out);
}
