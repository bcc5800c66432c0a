//! The interest of this server that a new link with a leaf node or a hub has to be told.

use super::interest_part::{InterestKey, MAPPED_ANSWERS, sum, tell};
use super::leaf_end::LeafRole;
use crate::account::Account;
use crate::conn::Conn;
use myelin_stdx::sync::lock;
use myelin_wire::peer::leaf;
use std::borrow::Cow;
use std::sync::Arc;

/// The interest that a new link with a leaf node or a hub has to be told.
pub struct LeafAnnouncing {
    account: Arc<Account>,
    conn: Arc<Conn>,
}

impl LeafAnnouncing {
    /// Count of subjects that can be announced on a shard without its clients noticing.
    const SMALL: usize = 10_000;

    /// `id`: of the account's own subject that finds circles, unless it has one.
    pub(super) fn new(account: &Arc<Account>, conn: &Arc<Conn>, id: String) -> Self {
        account.announced.loop_subject(id);
        Self { account: Arc::clone(account), conn: Arc::clone(conn) }
    }

    /// Whether it takes long to tell it.
    pub fn is_long(&self) -> bool {
        self.account.announced.leaf_len() > Self::SMALL
    }

    /// Tells it.
    #[expect(clippy::disallowed_methods, reason = "the seed of the hash comes from outside")]
    pub fn run(self) {
        let (announced, conn) = (&self.account.announced, &self.conn);
        let Some(leaf) = conn.leaf() else { return };
        let mut lines = Vec::new();
        if let Some(own) = announced.loop_subject.get() {
            leaf::interest(&mut lines, own, None);
            conn.say(&lines);
        }
        if leaf.role == LeafRole::Hub && self.account.announced.gateways().is_some() {
            // Answers to requests of other clusters.
            lines.clear();
            leaf::interest(&mut lines, MAPPED_ANSWERS, None);
            conn.say(&lines);
        }
        for part in announced.parts() {
            let part = lock(part);
            lines.clear();
            let of_leafs = part.leaf.iter().flat_map(|leaf| leaf.keys());
            let of_leafs = of_leafs.filter(|key| !part.local.contains_key(&key[..]));
            for key in part.local.keys().map(|key| Cow::Borrowed(&**key)).chain(of_leafs) {
                let wish = InterestKey::of_key(&key);
                let is_import = part.leaf.as_ref().is_some_and(|leaf| leaf.only.contains_key(&key[..]));
                if leaf.may_tell(wish.subject) || (is_import && leaf.may_tell_import(wish.subject)) {
                    tell(&mut lines, wish, (0, sum(&part, &key, conn)));
                }
            }
            if !lines.is_empty() && conn.close_requested().is_none() {
                conn.say(&lines);
            }
        }
    }
}
