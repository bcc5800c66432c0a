//! Cluster of a run: how many servers, which streams, what the network and the disks are like. All
//! of it follows from the seed.

use myelin_jetstream::KeptLogBounds;
use myelin_stdx::rng::Rng;

use super::node::LEAN;

/// Streams of a cluster, at most.
pub(super) const MOST_STREAMS: u64 = 8;
/// Seconds that a message lives which ends by itself.
pub(super) const LIFETIME: u64 = 10;

/// When a message goes that nobody has removed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// At limits.
    Limits,
    /// When it is acknowledged.
    WorkQueue,
    /// When all consumers have acknowledged it.
    Interest,
}

/// A stream that is replicated on all servers, or on three of them; or that is on one alone.
#[derive(Clone, Debug)]
pub(super) struct StreamPlan {
    pub(super) name: String,
    pub(super) replicas: usize,
    pub(super) kept: Kept,
    pub(super) is_in_memory: bool,
    /// Messages of a subject that stay; 0: all.
    pub(super) per_subject: u64,
    /// Whether half of the messages end by themselves, after [`LIFETIME`].
    pub(super) has_lifetimes: bool,
    /// Subjects that clients publish to.
    pub(super) subjects: u64,
    pub(super) has_consumer: bool,
}

impl StreamPlan {
    fn draw(rng: &mut Rng, number: u64, size: usize) -> Self {
        let kept = match rng.below(6) {
            0 | 1 => Kept::WorkQueue,
            2 => Kept::Interest,
            _ => Kept::Limits,
        };
        let per_subject = if kept == Kept::Limits && rng.below(3) == 0 { 1 + rng.below(4) } else { 0 };
        Self {
            name: format!("S{number}"),
            replicas: if size == 5 && rng.below(2) == 0 { 3 } else { size },
            kept,
            is_in_memory: rng.below(6) == 0,
            per_subject,
            has_lifetimes: kept == Kept::Limits && per_subject == 0 && rng.below(4) == 0,
            subjects: 1 + rng.below(4),
            has_consumer: kept != Kept::Limits || rng.below(3) > 0,
        }
    }

    /// Request that makes it.
    pub(super) fn request(&self) -> String {
        let Self { name, replicas, .. } = self;
        let storage = if self.is_in_memory { "memory" } else { "file" };
        let retention = match self.kept {
            Kept::Limits => "limits",
            Kept::WorkQueue => "workqueue",
            Kept::Interest => "interest",
        };
        let per_subject = if self.per_subject == 0 { -1 } else { self.per_subject.cast_signed() };
        format!(
            r#"{{"name":"{name}","subjects":["{name}.>"],"storage":"{storage}","retention":"{retention}","#
        ) + &format!(
            r#""num_replicas":{replicas},"max_msgs_per_subject":{per_subject},"allow_atomic":true,"allow_batched":true,"allow_msg_ttl":{},"duplicate_window":3600000000000}}"#,
            self.has_lifetimes
        )
    }
}

/// The cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterPlan {
    pub(super) size: usize,
    pub(super) is_always_synced: bool,
    pub(super) segment_bytes: Option<u32>,
    /// How much of the log stays for servers that are behind, if not as much as usual.
    pub(super) kept_log: Option<KeptLogBounds>,
    pub(super) streams: Vec<StreamPlan>,
    /// Messages of a thousand that are lost, and as many that come twice.
    pub(super) loss: u64,
    /// Whether what one server says to another comes in order.
    pub(super) is_ordered: bool,
    /// Nanoseconds that a message takes at most, on a usual link.
    pub(super) delay: u64,
    pub(super) do_disks_fail: bool,
    /// Whether clocks of servers go differently.
    pub(super) do_clocks_drift: bool,
}

impl ClusterPlan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let size = if rng.below(3) == 0 { 5 } else { 3 };
        let count = if rng.below(2) == 0 { 1 + rng.below(2) } else { 1 + rng.below(MOST_STREAMS) };
        let streams: Vec<_> = (0..count).map(|number| StreamPlan::draw(rng, number, size)).collect();
        Self {
            size,
            is_always_synced: rng.below(2) == 0,
            segment_bytes: [None, Some(32 << 10), Some(4 << 10)][rng.below(3) as usize],
            kept_log: (rng.below(4) == 0).then_some(LEAN),
            streams,
            loss: if rng.below(2) == 0 { 0 } else { rng.below(40) },
            is_ordered: rng.below(2) == 0,
            delay: [100_000, 2_000_000, 20_000_000][rng.below(3) as usize],
            do_disks_fail: rng.below(4) == 0,
            do_clocks_drift: rng.below(3) == 0,
        }
    }

    /// Has a stream have one replica, of a cluster that was drawn before there was such a thing.
    pub(super) fn draw_extras(&mut self, extras: &mut Rng) {
        let may_be_alone = |stream: &&mut StreamPlan| {
            stream.kept == Kept::Limits && !stream.is_in_memory && !stream.has_lifetimes
        };
        if self.do_disks_fail || extras.below(2) == 0 {
            return;
        }
        let alone = self.streams.iter_mut().filter(may_be_alone).last();
        alone.into_iter().for_each(|stream| stream.replicas = 1);
    }

    /// Whether messages end by themselves; then no time of day is set.
    pub(super) fn has_lifetimes(&self) -> bool {
        self.streams.iter().any(|stream| stream.has_lifetimes)
    }

    /// Whether a stream has all its messages in memory, so that any end of a server costs its copy.
    pub(super) fn has_memory(&self) -> bool {
        self.streams.iter().any(|stream| stream.is_in_memory)
    }
}
