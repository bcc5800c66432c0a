//! A server that is to end, or to give nobody JetStream for a while: others lead before it does.

use super::JetStream;
use super::live::LiveStream;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at what is still led here.
const LOOK: Duration = Duration::from_millis(2);

impl JetStream {
    /// Has other servers lead all groups that this one leads, and takes no lead any more. Waits
    /// until they do and publishers were told, at most for `patience`: groups without a majority
    /// are not waited for.
    pub fn hand_over(&self, patience: Duration) {
        let Some(groups) = self.cluster.groups.get() else { return };
        groups.leave();
        let deadline = self.host.instant() + patience;
        loop {
            let busy: Vec<_> = self.members_of_groups();
            let busy: Vec<_> = busy.into_iter().filter(|live| live.can_hand_over()).collect();
            let is_over = busy.is_empty() || self.host.instant() >= deadline;
            if is_over {
                return;
            }
            busy.iter().for_each(|live| live.hand_over());
            std::thread::sleep(LOOK);
        }
    }

    /// May lead again: the server goes on, after [`JetStream::hand_over`].
    pub fn lead_again(&self) {
        self.cluster.groups.get().into_iter().for_each(|groups| groups.come_back());
    }

    /// Has other servers lead the groups of an account that this one leads now, and takes no lead
    /// of any of them until [`JetStream::lead_again_in`]. Does not wait until they do. For a server
    /// that clients of the account cannot reach, as the link to its hub is down
    /// (`jetstream_cluster_migrate`). A stream stays where it is as long as none of its other
    /// servers may lead it either. Streams that are made meanwhile are not concerned. Only for
    /// threads that may wait.
    pub fn set_aside_in(&self, account: &str) {
        for live in self.members_in(account) {
            live.set_aside(true);
            if live.can_hand_over() {
                live.hand_over();
            }
        }
    }

    /// May lead groups of an account again, after [`JetStream::set_aside_in`].
    pub fn lead_again_in(&self, account: &str) {
        self.cluster.groups.get().into_iter().for_each(|groups| groups.come_back_in(account));
        self.members_in(account).iter().for_each(|live| live.set_aside(false));
    }

    fn members_in(&self, account: &str) -> Vec<Arc<LiveStream>> {
        let streams = self.account(account).map(|account| account.streams());
        streams.into_iter().flatten().filter(|live| live.is_of_group()).collect()
    }

    /// Streams of this server that have a group, the meta stream among them.
    fn members_of_groups(&self) -> Vec<Arc<LiveStream>> {
        let streams = self.accounts().into_iter().flat_map(|account| account.streams());
        let meta = self.cluster.meta.get().map(|meta| meta.meta_stream());
        streams.chain(meta).filter(|live| live.is_of_group()).collect()
    }
}
