//! What services publish: acknowledgements, answers, republished messages.

use super::route::Scope;
use super::rules::{Access, access};
use super::{Message, Publisher, Shard};
use crate::account::Account;
use crate::parcel::{Letter, Parcel};
use myelin_auth::Permissions;
use myelin_wire::encode;
use std::sync::Arc;
use std::time::Instant;

/// Buffers that are kept from one message to the next.
#[derive(Default)]
pub(super) struct Rendering {
    body: Vec<u8>,
    tail: Vec<u8>,
    header_len: Vec<u8>,
    size: Vec<u8>,
}

impl Rendering {
    /// Renders the body, if there are headers, and everything of a frame behind the sid.
    fn render(&mut self, letter: &Letter<'_>) {
        let Letter { reply, headers, payload, .. } = *letter;
        self.tail.clear();
        self.header_len.clear();
        self.size.clear();
        if !headers.is_empty() {
            encode::number(&mut self.header_len, headers.len());
        }
        encode::number(&mut self.size, headers.len() + payload.len());
        self.body.clear();
        let body = if headers.is_empty() {
            payload
        } else {
            self.body.extend_from_slice(headers);
            self.body.extend_from_slice(payload);
            &self.body
        };
        encode::tail(&mut self.tail, reply, &self.header_len, &self.size, body);
    }
}

impl Shard {
    /// A number below `below`.
    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.rng.below(below)
    }

    /// Whether who has these permissions may publish to `subject`, mapped or not.
    pub(crate) fn may_publish(
        &self,
        account: &Arc<Account>,
        permissions: Option<&Arc<Permissions>>,
        subject: &[u8],
    ) -> bool {
        let scope = Scope { account, permissions, is_mapped: false, is_imported: false };
        access(scope, subject) == Access::Allowed
    }

    /// Publishes messages of a service in `account`, in order, and empties the parcel. What subscribers get is staged.
    pub fn send(&mut self, account: &Arc<Account>, parcel: &mut Parcel, now: Instant) {
        self.send_with(None, account, parcel, now);
    }

    /// The same for a question about a login, which nobody but the server may put.
    pub fn send_question(&mut self, account: &Arc<Account>, parcel: &mut Parcel, now: Instant) {
        let rights = self.broker.callouts().map(|callouts| Arc::clone(callouts.rights()));
        self.send_with(rights.as_ref(), account, parcel, now);
    }

    fn send_with(
        &mut self,
        permissions: Option<&Arc<Permissions>>,
        account: &Arc<Account>,
        parcel: &mut Parcel,
        now: Instant,
    ) {
        let conn = Arc::clone(self.broker.services());
        let from = Publisher {
            conn: &conn,
            account,
            permissions,
            echo: true,
            verbose: false,
            no_responders: false,
            tracing: false,
            now,
            is_service: true,
            // Compat: mappings are for what clients publish.
            is_mapped: false,
            hop: None,
            trace: None,
        };
        let mut rendering = std::mem::take(&mut self.rendering);
        for letter in parcel.iter() {
            rendering.render(&letter);
            let Letter { to, subject, reply, headers, payload } = letter;
            let body = if headers.is_empty() { payload } else { &rendering.body };
            let (header_len, tail) = (headers.len(), &rendering.tail[..]);
            let message = Message { to, subject, reply, header_len, body, tail, shared_tail: None };
            // A service is refused nothing, and to pause it is its own business.
            let _ = self.publish(from, message);
        }
        parcel.clear();
        self.rendering = rendering;
    }
}
