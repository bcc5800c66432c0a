//! Calls that only a cluster can do, and those that only the system account may make.

use super::{Call, CallResponse, REQUEST_INFO, respond_to_any};
use crate::engine::meta::{Meta, Route, peer_of};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::request::{PeerRequest, RescueRequest};
use myelin_jsapi::api::response::{ApiResponse, granted, refused, refused_with};
use myelin_wire::header;
use myelin_wire::message_buf::MessageBuf;
use serde::Serialize;

/// An answer that never says yes on a server alone.
macro_rules! clustered {
    ($($answer:ident: $name:literal,)*) => {
        $(#[derive(Default, Serialize)]
        pub(super) struct $answer {}

        impl ApiResponse for $answer {
            const TYPE: &'static str = concat!("io.nats.jetstream.api.v1.", $name, "_response");
        })*
    };
}

/// A server has no replica any more, or soon.
#[derive(Default, Serialize)]
pub(super) struct PeerRemoved {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) success: bool,
}

/// Answers that say so, each of its own type.
macro_rules! peer_removed {
    ($($answer:ident: $name:literal,)*) => {
        $(#[derive(Default, Serialize)]
        pub(super) struct $answer {
            #[serde(flatten)]
            done: PeerRemoved,
        }

        impl From<PeerRemoved> for $answer {
            fn from(done: PeerRemoved) -> Self {
                Self { done }
            }
        }

        impl ApiResponse for $answer {
            const TYPE: &'static str = concat!("io.nats.jetstream.api.v1.", $name, "_response");
        })*
    };
}

peer_removed! {
    RemovePeer: "stream_remove_peer",
    RemovePeerOfConsumer: "consumer_remove_peer",
    EvacuatePeerOfConsumer: "consumer_evacuate_peer",
    EvacuatePeer: "stream_evacuate_peer",
    RemoveServer: "meta_server_remove",
    EvacuateServer: "meta_server_evacuate",
}

/// The server that a request names, or whose peer id it has.
pub(super) fn find_peer<'a>(peer: &str, servers: &'a [String]) -> Option<&'a String> {
    let has_id = |server: &String| peer_of(server).is_some_and(|known| known.to_string() == peer);
    servers.iter().find(|server| *server == peer || has_id(server))
}

/// Manner in which a server is left: at once, or when it has been replaced; the same here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Remove,
    Evacuate,
}

/// To `META.RESCUE`, from one server.
#[derive(Default, Serialize)]
pub(super) struct MetaRescued {
    server: String,
    server_id: String,
    #[serde(skip_serializing_if = "is_none")]
    prev_quorum: usize,
    #[serde(skip_serializing_if = "is_none")]
    new_quorum: usize,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

impl ApiResponse for MetaRescued {
    const TYPE: &'static str = "io.nats.jetstream.api.v1.meta_rescue_response";
}

clustered! {
    CancelMove: "stream_cancel_move",
    System: "system",
}

/// To `ACCOUNT.PURGE`.
#[derive(Default, Serialize)]
pub(super) struct AccountPurge {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) initiated: bool,
}

impl ApiResponse for AccountPurge {
    const TYPE: &'static str = "io.nats.jetstream.api.v1.account_purge_response";
}

impl Call {
    /// Compat: whoever is alone is told so before anything else is looked at.
    pub(super) fn needs_cluster<A: ApiResponse>(&self) -> CallResponse {
        CallResponse::audited(refused::<A>(&ApiError::CLUSTER_REQUIRED), true)
    }

    /// Requests of the system account. Compat: what concerns clusters is not answered by a server
    /// alone, and what a member of another account has asked by no server.
    pub(super) async fn dispatch_of_system(&mut self, tokens: &[&str]) -> Option<CallResponse> {
        // A server without JetStream imports the whole API from the system account for its clients,
        // and sends what they ask twice: in their account, where it is answered, and through the
        // system account. What clears accounts and removes servers is not for them.
        if self.comes_from_another_account() {
            return None;
        }
        let not_enabled = |body| CallResponse::audited(body, true);
        let error = ApiError::NOT_ENABLED_FOR_ACCOUNT;
        if let ["META", "LEADER", "STEPDOWN"] = tokens {
            return self.step_down_of_meta().await;
        }
        if let (Some(meta), ["META", "RESCUE"]) = (self.jetstream.meta(), tokens) {
            return Some(self.rescue(&meta));
        }
        if let (Some(meta), ["MYELIN", "RECOVER", action]) = (self.jetstream.meta(), tokens) {
            return self.dispatch_of_recovery(&meta, action).await;
        }
        if let (Some(meta), ["ACCOUNT", "PURGE", name]) = (self.jetstream.meta(), tokens) {
            return self.purge_assigned(&meta, name).await;
        }
        if let (Some(meta), ["SERVER", action @ ("REMOVE" | "EVACUATE")]) = (self.jetstream.meta(), tokens) {
            return match *action {
                "REMOVE" => self.remove_server(&meta).await,
                _ => self.evacuate_server(&meta).await,
            };
        }
        if let (Some(meta), &["ACCOUNT", "STREAM", action @ ("MOVE" | "CANCEL_MOVE"), account, name]) =
            (self.jetstream.meta(), tokens)
        {
            return self.operate_stream(&meta, (action, account, name)).await;
        }
        Some(match tokens {
            ["META" | "SERVER", ..] | ["ACCOUNT", "STREAM", ..] => return None,
            ["ACCOUNT", "PURGE", name] => respond_to_any(self.purge_account(name).await),
            ["INFO"] => not_enabled(refused::<myelin_jsapi::api::response::AccountInfo>(&error)),
            _ => not_enabled(refused::<System>(&error)),
        })
    }

    /// Has fewer servers be enough for the meta group. Compat: each server that hears it does, and
    /// answers for itself.
    fn rescue(&mut self, meta: &Meta) -> CallResponse {
        let answer = |prev_quorum, new_quorum| MetaRescued {
            server: self.jetstream.settings.server_name.clone(),
            server_id: self.jetstream.settings.server_id.clone(),
            prev_quorum,
            new_quorum,
        };
        let request = RescueRequest::read(self.body(), self.is_strict());
        let outcome = request.and_then(|request| meta.rescue(&self.jetstream, request.quorum_needed));
        match outcome {
            Ok((before, now)) => CallResponse::audited(granted(&answer(before, now)), false),
            Err(error) => CallResponse::audited(refused_with(&answer(0, 0), &error), true),
        }
    }

    /// Whether this server surely leads the meta group, and has seen what is committed there.
    /// Compat: only the leader hears what is asked about servers, and nobody where there is none.
    async fn leads_for_servers(meta: &Meta) -> bool {
        if meta.route_to_leader() == Route::Here && meta.is_behind() {
            meta.catch_up().await;
        }
        meta.route_to_leader() == Route::Here
    }

    /// Removes a server from the meta group. `None`: another server answers.
    async fn remove_server(&mut self, meta: &Meta) -> Option<CallResponse> {
        if !Self::leads_for_servers(meta).await {
            return None;
        }
        let outcome = match self.named_server(meta) {
            Ok(name) => meta.remove_server(&name).await,
            Err(error) => Err(error),
        };
        Some(respond_to_any(outcome.map(|()| RemoveServer::from(PeerRemoved { success: true }))))
    }

    /// Has all streams leave a server. `None`: another server answers.
    async fn evacuate_server(&mut self, meta: &Meta) -> Option<CallResponse> {
        if !Self::leads_for_servers(meta).await {
            return None;
        }
        let outcome = match self.named_server(meta) {
            Ok(name) => meta.evacuate_server(&self.jetstream, &name).await,
            Err(error) => Err(error),
        };
        Some(respond_to_any(outcome.map(|()| EvacuateServer::from(PeerRemoved { success: true }))))
    }

    /// The server of the meta group that the request names. Compat: its peer id goes before.
    fn named_server(&self, meta: &Meta) -> Result<String, ApiError> {
        let request = PeerRequest::read(self.body(), self.is_strict())?;
        let servers = meta.servers();
        let is_meant = |server: &&String| match request.peer_id.as_str() {
            "" => **server == request.peer,
            id => peer_of(server).is_some_and(|peer| peer.to_string() == id),
        };
        servers.iter().find(is_meant).cloned().ok_or(ApiError::CLUSTER_SERVER_NOT_MEMBER)
    }

    fn comes_from_another_account(&self) -> bool {
        header::get(&self.request.headers, REQUEST_INFO).is_some()
    }

    /// Deletes all streams of an account, also those that nobody serves: it may have no token any
    /// more, or they cannot be opened. Compat: one that does not exist is purged as well.
    async fn purge_account(&mut self, name: &str) -> Result<AccountPurge, ApiError> {
        if name.contains(['/', '\\']) {
            return Err(ApiError::stream_general("account name can not contain path separators"));
        }
        if let Some(account) = self.jetstream.account(name) {
            for stream in account.streams() {
                match account.delete(&self.jetstream, &stream, &mut MessageBuf::default()).await {
                    // Its account has deleted it meanwhile.
                    Err(error) if error == ApiError::STREAM_NOT_FOUND => {}
                    deleted => deleted?,
                }
            }
            account.delete_unrestored(&self.jetstream)?;
        }
        self.jetstream.delete_unopened(name)?;
        Ok(AccountPurge { initiated: true })
    }
}
