//! `MYELIN.SCRUB.*`: has what is stored of a stream read, so that damage is found, and says how far
//! that is. The stream's leader answers, or the server that is named behind the stream.

use super::{Call, CallResponse};
use crate::engine::reasons;
use crate::engine::scrub::Scrubbed;
use myelin_jsapi::ApiError;
use myelin_jsapi::api::request::is_empty;
use myelin_jsapi::api::scrub::{ReplicaScrub, Scrub};
use std::sync::Arc;

impl Call {
    /// `None`: a request that means nothing, or another server.
    pub(super) async fn dispatch_of_scrub(&mut self, tokens: &[&str]) -> Option<CallResponse> {
        let &[verb @ ("BEGIN" | "STATE"), stream, ref server @ ..] = tokens else { return None };
        // Names of servers may have dots.
        let is_here = server.is_empty() || server.join(".") == self.jetstream.settings.server_name;
        if !is_here {
            return None;
        }
        Some(self.respond(async |call| call.scrub(stream, verb == "BEGIN")).await)
    }

    fn scrub(&mut self, name: &str, begins: bool) -> Result<Scrub, ApiError> {
        if !is_empty(self.body()) {
            return Err(ApiError::NOT_EMPTY_REQUEST);
        }
        let stream = self.account.stream(name).ok_or(ApiError::STREAM_NOT_FOUND)?;
        if begins {
            self.jetstream.background.scrubber.read(&(Arc::clone(&stream) as Arc<dyn Scrubbed>));
        }
        let (pass, totals) = (stream.scrub_pass(), stream.reader().state().totals);
        let up_to = |seq: u64| seq.saturating_sub(totals.first_seq);
        let percent = match pass.next.or(pass.stopped_at) {
            Some(next) => reasons::percent(up_to(next), up_to(totals.last_seq + 1)).min(99),
            None => 100,
        };
        let server = self.jetstream.settings.server_name.clone();
        let assignment =
            self.jetstream.meta().and_then(|meta| meta.view().get(self.account.account().name(), name));
        let servers = assignment.map_or_else(|| vec![server.clone()], |assigned| assigned.peers.clone());
        let pass = ReplicaScrub {
            server,
            under_way: pass.next.is_some(),
            percent,
            is_stopped: pass.stopped_at.is_some(),
            bytes: pass.bytes,
            began: pass.began,
            ended: pass.ended,
            lost_messages: stream.lost_messages(),
            is_repaired: stream.is_damaged() && stream.reader().is_mended(),
        };
        Ok(Scrub { stream: name.to_owned(), pass: Some(pass), servers })
    }
}
