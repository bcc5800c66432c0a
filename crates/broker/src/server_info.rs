//! Identity of the server: what it says of itself in INFO, and in events, for which there is one
//! document; and its clock, which dates them.

use arc_swap::ArcSwap;
use myelin_stdx::rfc3339;
use myelin_stdx::sync::{read_lock, write_lock};
use myelin_wire::REFERENCE_VERSION;
use myelin_wire::info::Info;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Instant, SystemTime};

/// Labels by which the operator calls the server beside its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// `server_tags`.
    pub tags: Vec<String>,
    /// `server_metadata`.
    pub metadata: BTreeMap<String, String>,
    /// Every feature flag, on or off.
    pub feature_flags: BTreeMap<String, bool>,
}

/// JetStream, snapshots of streams in binary, consensus within accounts: what the reference has
/// where it has JetStream.
const CAPABILITIES: u64 = 1 | 2 | 4;

/// Object `server` in everything that the server says of itself, in the reference's order.
#[derive(Debug, Serialize)]
pub struct ServerInfo {
    name: String,
    host: String,
    id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    domain: String,
    ver: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    feature_flags: BTreeMap<String, bool>,
    jetstream: bool,
    flags: u64,
    seq: u64,
    time: String,
}

/// Identity of the server, which all shards share.
pub(crate) struct OwnIdentity {
    /// The server's name, which never changes.
    name: String,
    info: RwLock<Info>,
    labels: ArcSwap<Labels>,
    lame_duck: AtomicBool,
    /// Events so far.
    events: AtomicU64,
    /// See [`OwnIdentity::wall`].
    clock: OnceLock<(Instant, SystemTime)>,
}

impl OwnIdentity {
    /// Identity of a server without labels and without a clock.
    pub(crate) fn new(info: Info) -> Arc<Self> {
        Arc::new(Self {
            name: info.server_name.clone(),
            info: RwLock::new(info),
            labels: ArcSwap::default(),
            lame_duck: AtomicBool::new(false),
            events: AtomicU64::new(0),
            clock: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn info(&self) -> Info {
        read_lock(&self.info).clone()
    }

    pub(crate) fn update_info(&self, update: impl FnOnce(&mut Info)) {
        update(&mut write_lock(&self.info));
    }

    pub(crate) fn labels(&self) -> Arc<Labels> {
        self.labels.load_full()
    }

    pub(crate) fn set_labels(&self, labels: Labels) {
        self.labels.store(Arc::new(labels));
    }

    pub(crate) fn enter_lame_duck(&self) {
        self.lame_duck.store(true, Relaxed);
        self.update_info(|info| info.ldm = true);
    }

    pub(crate) fn is_lame_duck(&self) -> bool {
        self.lame_duck.load(Relaxed)
    }

    /// From the first connection on it is known what time it is: a moment, and what the clock on
    /// the wall said.
    pub(crate) fn set_clock(&self, now: Instant, wall: SystemTime) {
        self.clock.get_or_init(|| (now, wall));
    }

    /// Time of day at that moment. It is not set anew when the machine's is.
    pub(crate) fn wall(&self, moment: Instant) -> SystemTime {
        let Some((known, wall)) = self.clock.get() else { return SystemTime::UNIX_EPOCH };
        match moment.checked_duration_since(*known) {
            Some(later) => *wall + later,
            None => *wall - known.duration_since(moment),
        }
    }

    /// The server, as it speaks `now`. Events and answers are one sequence: each has the next
    /// number.
    pub(crate) fn server_info(&self, now: SystemTime) -> ServerInfo {
        let (info, labels) = (self.info(), self.labels());
        ServerInfo {
            name: info.server_name,
            host: info.host,
            id: info.server_id,
            cluster: info.cluster,
            domain: info.domain,
            ver: REFERENCE_VERSION,
            tags: labels.tags.clone(),
            metadata: labels.metadata.clone(),
            feature_flags: labels.feature_flags.clone(),
            jetstream: info.jetstream,
            flags: if info.jetstream { CAPABILITIES } else { 0 },
            seq: self.events.fetch_add(1, Relaxed) + 1,
            time: rfc3339::of_system_time(now),
        }
    }
}
