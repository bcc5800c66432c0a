//! Reload of JetStream: whether there is any, limits of the server, and more room, not less.

use super::{Changes, GoDuration, NotReloadable, path, text};
use crate::bytes::Bytes;
use crate::options::{JetStreamOptions, Options, StoreCipher, SyncInterval};
use crate::secret::Secret;
use std::fmt::{self, Display};
use std::time::Duration;

impl Changes<'_> {
    pub(super) fn jetstream(&mut self) {
        if self.old.jetstream.enabled != self.new.jetstream.enabled {
            self.report("Reloaded: JetStream".to_owned());
        }
        self.fixed("NoJetStreamStrict", |o| !o.jetstream.strict);
        self.room("max_mem_store", |o| o.max_memory_store);
        self.room("max_file_store", |o| o.max_file_store);
        self.fixed("JetStreamDomain", |o| text(o.jetstream.domain.as_ref()));
        self.fixed("JsAccDefaultDomain", |o| {
            let domains = o.jetstream.default_domains.iter();
            let domains: Vec<_> = domains.map(|(name, domain)| format!("{name}:{domain}")).collect();
            format!("map[{}]", domains.join(" "))
        });
        self.fixed("JetStreamExtHint", |o| o.jetstream.extension_hint.clone());
        self.hidden("JetStreamKey", |o| o.encryption_key.as_ref());
        self.hidden("JetStreamOldKey", |o| o.prev_encryption_key.as_ref());
        self.fixed("JetStreamCipher", |o| cipher(&o.jetstream));
        self.fixed("JetStreamUniqueTag", |o| text(o.jetstream.unique_tag.as_ref()));
        self.quiet("JetStream limits", |o| o.jetstream.limits.clone());
        // Compat: what was left out is shown as nothing.
        self.fixed("JetStreamMaxCatchup", |o| match o.jetstream.max_outstanding_catchup {
            JetStreamOptions::DEFAULT_CATCHUP => 0,
            bytes => bytes,
        });
        self.fixed("JetStreamRequestQueueLimit", |o| o.jetstream.request_queue_limit);
        self.fixed("JetStreamInfoQueueLimit", |o| o.jetstream.info_queue_limit.unwrap_or(0));
        self.fixed("JetStreamConcurrentIOs", |o| o.jetstream.max_concurrent_io);
        self.fixed("StreamMaxBufferedMsgs", |o| o.jetstream.max_buffered_msgs);
        self.fixed("StreamMaxBufferedSize", |o| o.jetstream.max_buffered_size);
        self.store_dir();
        self.fixed("SyncInterval", |o| GoDuration(interval(&o.jetstream)));
        self.fixed("SyncAlways", |o| o.jetstream.sync_interval == SyncInterval::Always);
    }

    /// Bytes that may be stored, `None` as many as the machine has.
    fn room(&mut self, name: &str, get: impl Fn(&JetStreamOptions) -> Option<u64>) {
        let is_served = self.old.jetstream.enabled;
        match (get(&self.old.jetstream), get(&self.new.jetstream)) {
            (old, new) if old == new || !is_served => {}
            (Some(old), Some(new)) if new > old => {
                self.report(format!("Reloaded: JetStream {name} = {}", Bytes(new)));
            }
            (Some(_), None) if !self.new.jetstream.enabled => {}
            (Some(_), None) => self.refuse(NotReloadable::Change("jetstream max memory and max store")),
            (None, _) => self.refuse(NotReloadable::Change("jetstream dynamic max memory and store")),
            _ => self.refuse(NotReloadable::Change("decreasing jetstream max memory and store")),
        }
    }

    /// Compat: the reference writes both keys to the log.
    fn hidden(&mut self, field: &'static str, get: fn(&JetStreamOptions) -> Option<&Secret>) {
        let key = |o: &Options| Hidden(get(&o.jetstream).cloned());
        self.fixed(field, key);
    }

    fn store_dir(&mut self) {
        let directory = |o: &Options| path(o.jetstream.store_dir.as_ref());
        let (old, new) = (directory(self.old), directory(self.new));
        if old == new || !self.old.jetstream.enabled {
            return;
        }
        match new.is_empty() {
            true if !self.new.jetstream.enabled => {}
            true => self.refuse(NotReloadable::Change("jetstream storage dir")),
            false => self.refuse(NotReloadable::Change("jetstream storage directory")),
        }
    }
}

fn cipher(options: &JetStreamOptions) -> &'static str {
    match options.cipher {
        StoreCipher::ChaCha => "ChaCha20-Poly1305",
        StoreCipher::Aes => "AES-GCM",
    }
}

fn interval(options: &JetStreamOptions) -> Duration {
    match options.sync_interval {
        SyncInterval::Every(interval) => interval,
        SyncInterval::Always => JetStreamOptions::DEFAULT_SYNC,
    }
}

/// A secret that is compared and not shown.
#[derive(PartialEq)]
struct Hidden(Option<Secret>);

impl Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "[REDACTED]" } else { "" })
    }
}
