//! Figures that monitoring shows of a server in its cluster, as far as they are known without
//! asking anybody.

use crate::engine::JetStream;
use crate::engine::account::AccountStreams;
use myelin_jsapi::api::info::AccountInfo;

impl JetStream {
    /// Whether the cluster has streams of an account, on whichever of its servers.
    pub fn has_assigned(&self, account: &str) -> bool {
        self.meta().is_some_and(|meta| !meta.view().of_account(account).is_empty())
    }

    /// Info of an account as this server knows it: its own part, and of an account with limits of
    /// storage what others take and were asked, as they have said last.
    pub fn known_info(&self, account: &AccountStreams) -> AccountInfo {
        let mut info = account.info(&self.settings.domain);
        if let Some(meta) = self.meta() {
            meta.add_known_use(account.account().name(), &mut info);
        }
        info
    }
}
