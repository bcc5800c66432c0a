//! Rescue of a meta group that has lost too many of its servers for good: for a while fewer are
//! enough, so that those that are lost can be removed.
//!
//! Each server does it for itself, because none decides for others while nobody leads. Nothing of
//! it is stored: whoever begins anew needs as many as before.

use super::Meta;
use super::roster::Rescue;
use crate::engine::JetStream;
use myelin_broker::Level;
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::leadership;
use myelin_replica::Peer;
use myelin_stdx::sync::lock;
use std::time::Duration;

/// Compat: it ends by itself after so long.
const LASTS: Duration = Duration::from_secs(300);

impl Meta {
    /// Has so many servers be enough, as far as this one is concerned. Answers the quorum before
    /// and now.
    ///
    /// # Errors
    /// Not lower, or the group can do without: in the reference's words.
    pub(in crate::engine) fn rescue(
        &self,
        jetstream: &JetStream,
        wanted: i64,
    ) -> Result<(usize, usize), ApiError> {
        let (live, me) = (self.live(), self.groups.me);
        let voters = live.voters();
        let status = live.group_status();
        let mut rescue = lock(&self.members.rescue);
        let natural = voters.len() / 2 + 1;
        let before = rescue.map_or(natural, |rescue| rescue.quorum.min(natural));
        let quorum = usize::try_from(wanted).unwrap_or(0);
        if quorum < 1 || quorum > before {
            return Err(ApiError::cluster_rescue("raft: rescue quorum must be between 1 and current quorum"));
        }
        let Some(status) = status else { return Err(ApiError::CLUSTER_NOT_AVAIL) };
        let reason = match status {
            _ if status.leader.is_some() => Some("raft: leader is known"),
            _ if !voters.contains(&me) => Some("raft: not a voting member"),
            _ if status.last == 0 => Some("raft: log is empty"),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(ApiError::cluster_rescue(reason));
        }
        *rescue = Some(Rescue { quorum, ends: jetstream.host.instant() + LASTS });
        drop(rescue);
        live.rescue(Some(self.who_counts(&voters, quorum)));
        let line = format_args!("Unsafe quorum rescue applied, quorum lowered {before} -> {quorum} for 5m0s");
        jetstream.host.log(Level::Warn, line);
        let (server, id) = (&jetstream.settings.server_name, &jetstream.settings.server_id);
        let cluster = jetstream.host.cluster();
        jetstream
            .tell_system(|header| leadership::meta_rescue(header, (server, id), (before, quorum), &cluster));
        Ok((before, quorum))
    }

    /// Servers that count while so many are enough: all that are there, and others up to as many as
    /// have such a majority.
    fn who_counts(&self, voters: &[Peer], quorum: usize) -> Vec<Peer> {
        let is_here = |peer: &Peer| *peer == self.groups.me || self.groups.is_there(*peer);
        let (mut few, mut absent): (Vec<Peer>, Vec<Peer>) = voters.iter().copied().partition(is_here);
        absent.sort_unstable();
        let free = (2 * quorum - 1).saturating_sub(few.len());
        few.extend(absent.into_iter().take(free));
        few
    }

    /// Ends a rescue that is over: its time has passed, or the group needs no more than that.
    pub(super) fn look_at_rescue(&self, jetstream: &JetStream) {
        let mut rescue = lock(&self.members.rescue);
        let Some(Rescue { quorum, ends }) = *rescue else { return };
        let natural = self.live().voters().len() / 2 + 1;
        if jetstream.host.instant() >= ends {
            let line = format_args!("Unsafe quorum rescue expired, quorum restored to {natural}");
            jetstream.host.log(Level::Warn, line);
        } else if natural <= quorum {
            let line = format_args!("Unsafe quorum rescue stopped, quorum updated to {natural}");
            jetstream.host.log(Level::Warn, line);
        } else {
            return;
        }
        *rescue = None;
        drop(rescue);
        self.live().rescue(None);
    }
}
