//! `MYELIN.RECOVER.*`: a stream whose group has lost its majority for good goes on with the servers
//! that are left.
//!
//! Requests of the system account. `PLAN` changes nothing: each server with a replica says what it
//! has, and the meta leader who is gone, and what the plan is called. `STREAM` is answered by the
//! meta leader, and carried out as an assignment: the group begins an epoch in which just those
//! that are left vote, and in which what the others say, should they come back, counts no more.
//! Nothing here decides that servers are lost: an operator says so, and names them.

use super::{Call, CallResponse, respond_to_any};
use crate::engine::meta::{AnswerKind, Asked, Assignment, Meta, peer_of};
use myelin_broker::Level;
use myelin_jsapi::ApiError;
use myelin_jsapi::api::response::ApiResponse;
use serde::{Deserialize, Serialize};

/// Stream that is meant, and for `STREAM` what was decided.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RecoverRequest {
    account: String,
    stream: String,
    /// Servers that are given up: all that are away.
    lost: Vec<String>,
    /// Name of the plan that was looked at.
    plan: String,
}

/// To `MYELIN.RECOVER.PLAN`, from one server.
#[derive(Default, Serialize)]
struct RecoveryPlan {
    server: String,
    /// Replica of the stream here, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<LeftReplica>,
    /// Loss of the group, which only the meta leader knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupLoss>,
}

/// A replica that is left.
#[derive(Serialize)]
struct LeftReplica {
    /// Whether a leader is known.
    has_leader: bool,
    /// Last entry in its log, and up to which it knows that a majority had them.
    last_index: u64,
    committed: u64,
    term: u64,
    messages: u64,
    first_seq: u64,
    last_seq: u64,
    /// Whether its disk has lost something of it.
    damaged: bool,
}

/// Loss of a group as the meta leader sees it.
#[derive(Serialize)]
struct GroupLoss {
    /// Changes when anything is decided about the stream.
    plan: String,
    /// Servers that vote, and those that are to have a replica.
    voting: Vec<String>,
    assigned: Vec<String>,
    lost: Vec<LostServer>,
    /// Whether a majority is missing: only then there is something to recover.
    lacks_majority: bool,
}

/// Server that is away.
#[derive(Serialize)]
struct LostServer {
    name: String,
    /// Seconds since it was heard; `null` where it was not in this life of the meta leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
}

/// To `MYELIN.RECOVER.STREAM`.
#[derive(Default, Serialize)]
struct StreamRecovered {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    success: bool,
    /// Servers that are the group from now on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<String>,
}

impl ApiResponse for RecoveryPlan {
    const TYPE: &'static str = "io.myelin.jetstream.api.v1.recover_plan_response";
}

impl ApiResponse for StreamRecovered {
    const TYPE: &'static str = "io.myelin.jetstream.api.v1.recover_stream_response";
}

impl Call {
    /// `None`: another server answers.
    pub(super) async fn dispatch_of_recovery(&mut self, meta: &Meta, action: &str) -> Option<CallResponse> {
        let read = serde_json::from_slice(self.body()).map_err(|_| ApiError::BAD_REQUEST);
        let request: RecoverRequest = match read {
            Ok(request) => request,
            Err(_) if !meta.leads() => return None,
            Err(error) => return Some(respond_to_any::<StreamRecovered>(Err(error))),
        };
        match action {
            "PLAN" => self.plan_recovery(meta, &request).map(respond_to_any),
            "STREAM" if meta.leads() => Some(respond_to_any(self.recover_stream(meta, &request).await)),
            _ => None,
        }
    }

    fn plan_recovery(&self, meta: &Meta, request: &RecoverRequest) -> Option<Result<RecoveryPlan, ApiError>> {
        let (known, _) = meta.known(&request.account, &request.stream);
        let Some(known) = known else { return meta.leads().then_some(Err(ApiError::STREAM_NOT_FOUND)) };
        let account = self.jetstream.account(&request.account);
        let live = account.and_then(|account| account.stream(&request.stream));
        let replica = live.filter(|live| live.created() == known.created).and_then(|live| {
            let (status, state) = (live.group_status()?, live.state(false));
            Some(LeftReplica {
                has_leader: status.leader.is_some(),
                last_index: status.last,
                committed: status.committed,
                term: live.group_vote().map_or(0, |(_, term)| term),
                messages: state.messages,
                first_seq: state.first_seq,
                last_seq: state.last_seq,
                damaged: live.is_damaged(),
            })
        });
        let group = meta.leads().then(|| {
            let lost = away(meta, &known).into_iter().map(|name| {
                let ago = peer_of(&name).map_or(0, |peer| meta.heard_ago(peer));
                let seconds = u64::try_from(ago).ok().filter(|ago| *ago > 0).map(|ago| ago / 1_000_000_000);
                LostServer { name, seconds }
            });
            GroupLoss {
                plan: known.nonce.to_string(),
                voting: known.voting().to_vec(),
                assigned: known.peers.clone(),
                lost: lost.collect(),
                lacks_majority: lacks_majority(meta, &known),
            }
        });
        let server = self.jetstream.settings.server_name.clone();
        (replica.is_some() || group.is_some()).then_some(Ok(RecoveryPlan { server, replica, group }))
    }

    async fn recover_stream(
        &self,
        meta: &Meta,
        request: &RecoverRequest,
    ) -> Result<StreamRecovered, ApiError> {
        let refused = |why: &str| Err(ApiError::stream_general(format!("stream is not recovered: {why}")));
        let (known, on) = meta.known(&request.account, &request.stream);
        let known = known.ok_or(ApiError::STREAM_NOT_FOUND)?;
        if !known.has_group() {
            return refused("it has one replica, which is lost with its server or comes back with it");
        }
        if request.plan != known.nonce.to_string() {
            return refused("something was decided about it since the plan was made: look at it again");
        }
        if !lacks_majority(meta, &known) {
            return refused("a majority of its servers is there");
        }
        let (mut lost, away) = (request.lost.clone(), away(meta, &known));
        lost.sort_unstable();
        if lost != away {
            return refused(&format!(
                "the servers to give up have to be those that are away: {}",
                away.join(", ")
            ));
        }
        let recovered = known.recovered(lost, self.jetstream.host.now());
        if recovered.peers.is_empty() {
            return refused("no server is left that has it: restore a backup");
        }
        let (servers, given_up) = (recovered.peers.clone(), request.lost.join(", "));
        let proposal = self.proposal(AnswerKind::Update, recovered);
        // This server answers.
        meta.propose(&Assignment { asked: Asked::default(), ..proposal }, on).await?;
        let RecoverRequest { account, stream, .. } = request;
        let left = servers.join(", ");
        let line = format_args!(
            "JetStream stream '{account} > {stream}' goes on with {left}, as an operator has said; given up: {given_up}"
        );
        self.jetstream.host.log(Level::Warn, line);
        Ok(StreamRecovered { success: true, servers })
    }
}

/// Servers that vote in a stream's group, have a replica or are to have one, and are not there.
fn away(meta: &Meta, known: &Assignment) -> Vec<String> {
    let mut away: Vec<String> =
        known.voting().iter().chain(known.servers()).filter(|server| !meta.has(server)).cloned().collect();
    away.sort_unstable();
    away.dedup();
    away
}

/// Whether those that vote and are there are too few to agree on anything.
fn lacks_majority(meta: &Meta, known: &Assignment) -> bool {
    let voting = known.voting();
    voting.iter().filter(|server| meta.has(server)).count() * 2 <= voting.len()
}
