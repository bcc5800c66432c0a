//! Calls in a cluster: who answers, and what the meta leader decides.
//!
//! Every server of the cluster hears each request, and one answers: the meta leader what makes,
//! changes, removes and lists streams, the leader of a stream what is about it. All others are
//! silent, as with nats-server.

use super::cluster::AccountPurge;
use super::listing::page_of;
use super::unanswerable::refusal;
use super::{Call, CallResponse, respond_to_any};
use crate::engine::meta::{AccountView, AnswerKind, Asked, Assignment, LEADERLESS, Meta, Route, peer_of};
use crate::engine::{JetStream, LiveStream};
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::AUDIT;
use myelin_jsapi::api::consumer::ConsumerInfo;
use myelin_jsapi::api::info::{
    ClusterInfo, DesiredInfo, DesiredOrigin, DesiredReplica, DesiredStatus, ReplicaInfo, StreamAlternate,
    StreamInfo as Info,
};
use myelin_jsapi::api::request::{StepDownRequest, StreamsRequest, is_empty};
use myelin_jsapi::api::response::{
    AccountInfo, ApiResponse, ListedStream, Paging, StreamCancelMove, StreamCreate, StreamDelete, StreamList,
    StreamNames, StreamUpdate,
};
use myelin_jsapi::api::{LIST_LIMIT, NAMES_LIMIT};
use myelin_jsapi::config::{self, Created, StreamConfigRequest};
use myelin_replica::{Peer, Status};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Outcome of a look at a call that may be another server's.
pub(super) enum Handled {
    /// The call is for this server, and answered as on a server alone.
    Usual,
    /// The call has this answer, or none.
    Done(Option<CallResponse>),
}

/// Another server is to lead.
#[derive(Default, Serialize)]
struct SteppedDown {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    success: bool,
}

/// Answers that say so, each of its own type.
macro_rules! stepped_down {
    ($($answer:ident: $name:literal,)*) => {
        $(#[derive(Default, Serialize)]
        pub(super) struct $answer {
            #[serde(flatten)]
            done: SteppedDown,
        }

        impl From<SteppedDown> for $answer {
            fn from(done: SteppedDown) -> Self {
                Self { done }
            }
        }

        impl ApiResponse for $answer {
            const TYPE: &'static str = concat!("io.nats.jetstream.api.v1.", $name, "_leader_stepdown_response");
        })*
    };
}

stepped_down! {
    StreamSteppedDown: "stream",
    ConsumerSteppedDown: "consumer",
    MetaSteppedDown: "meta",
}

/// Nobody can answer now.
fn unavailable(tokens: &[&str]) -> CallResponse {
    CallResponse::audited(refusal(tokens, &ApiError::CLUSTER_NOT_AVAIL), true)
}

/// No server is there that has what a call is about.
fn offline(tokens: &[&str]) -> CallResponse {
    let is_of_consumer = tokens.first() == Some(&"CONSUMER");
    let error = if is_of_consumer { ApiError::CONSUMER_OFFLINE } else { ApiError::STREAM_OFFLINE };
    CallResponse::audited(refusal(tokens, &error), true)
}

impl Call {
    /// Does a call as a server of a cluster does it.
    pub(super) async fn dispatch_clustered(&mut self, meta: &Arc<Meta>, tokens: &[&str]) -> Handled {
        if let ["ACCOUNT", "STREAM", action @ ("MOVE" | "CANCEL_MOVE"), account, name] = *tokens {
            return Handled::Done(self.operate_stream(meta, (action, account, name)).await);
        }
        let Some((_, is_here)) = self.route(meta, tokens) else { return Handled::Usual };
        match self.certain_route(meta, tokens, is_here).await {
            Route::Silent | Route::InDoubt => return Handled::Done(None),
            // Compat: how it stands each of its servers says that is there.
            Route::Unavailable if matches!(tokens, ["STREAM", "INFO", _]) && self.has_stream(tokens[2]) => {}
            // That nobody leads is the answer.
            Route::Unavailable if matches!(tokens, ["MYELIN", "WHY", _, name, ..] if self.has_stream(name)) =>
                {}
            Route::Unavailable => return Handled::Done(Some(unavailable(tokens))),
            Route::Offline => return Handled::Done(Some(offline(tokens))),
            Route::Here => {}
        }
        Handled::Done(match *tokens {
            ["STREAM", "CREATE", name] => {
                self.pass_on::<StreamCreate>(async |call| call.assign_new(meta, name).await).await
            }
            ["STREAM", "UPDATE", name] => {
                self.pass_on::<StreamUpdate>(async |call| call.assign_changed(meta, name).await).await
            }
            ["STREAM", "DELETE", name] => {
                self.pass_on::<StreamDelete>(async |call| call.assign_removed(meta, name).await).await
            }
            ["STREAM", "RESTORE", name] => {
                Some(self.respond(async |call| call.restore_assigned(meta, name).await).await)
            }
            ["STREAM", "NAMES"] => Some(self.respond(async |call| call.assigned_names(meta)).await),
            ["STREAM", "LIST"] => Some(self.respond(async |call| call.assigned_list(meta).await).await),
            ["STREAM", "LEADER", "STEPDOWN", name] => {
                Some(self.respond(async |call| call.step_down::<StreamSteppedDown>(meta, name).await).await)
            }
            ["CONSUMER", "LEADER", "STEPDOWN", name, consumer] => {
                let act = async |call: &mut Self| call.step_down_of_consumer(meta, (name, consumer)).await;
                Some(self.respond(act).await)
            }
            ["STREAM", "CANCEL_MOVE", name] => {
                self.pass_on::<StreamCancelMove>(async |call| call.cancel_own_move(meta, name).await).await
            }
            ["STREAM" | "CONSUMER", "PEER", ..] => self.leave_peer(meta, tokens).await,
            ["INFO"] => Some(self.respond(async |call| call.info_of_all(meta).await).await),
            _ => return Handled::Usual,
        })
    }

    /// Whether a call is for this server, and whether it is about a stream that is here. `None`: it
    /// is as on a server alone.
    fn route(&self, meta: &Meta, tokens: &[&str]) -> Option<(Route, bool)> {
        match *tokens {
            ["INFO"]
            | ["STREAM", "NAMES" | "LIST"]
            | ["STREAM", "CREATE" | "UPDATE" | "DELETE" | "RESTORE", _]
            | ["STREAM", "CANCEL_MOVE", _]
            | ["STREAM", "PEER", _, _] => Some((meta.route_to_leader(), false)),
            ["STREAM", "MSG" | "LEADER", _, name]
            | ["STREAM", _, name]
            | ["CONSUMER", "DURABLE", "CREATE", name, ..]
            | ["CONSUMER", "LEADER" | "PEER", _, name, ..]
            | ["CONSUMER", _, name, ..]
            | ["MYELIN", "WHY", _, name, ..]
            | ["MYELIN", "SCRUB", _, name] => {
                Some((meta.route_to_stream(&self.account, name), self.has_stream(name)))
            }
            _ => None,
        }
    }

    /// Whether a call is for this server, once that is certain.
    async fn certain_route(&self, meta: &Meta, tokens: &[&str], is_here: bool) -> Route {
        let of_stream = tokens.get(2).filter(|_| is_here).and_then(|name| self.account.stream(name));
        let group = of_stream.unwrap_or_else(|| meta.live());
        let route = || self.route(meta, tokens).map_or(Route::Silent, |(route, _)| route);
        let (mut found, mut came) = meta.certain(&group, route).await;
        if found == Route::Here && !is_here && meta.is_behind() {
            // What is not known here may be committed: a client that has heard of it asks.
            meta.catch_up().await;
            let (again, waited) = meta.certain(&group, route).await;
            (found, came) = (again, came.or(waited));
        }
        let asked = (&*self.subject, &*self.request.reply);
        // It came between two leaders, of which the first one has decided on it.
        let was_taken = came.is_some_and(|came| meta.view().was_taken(came, asked));
        if was_taken { Route::Silent } else { found }
    }

    /// Use of JetStream by the account, on all servers.
    async fn info_of_all(&self, meta: &Meta) -> Result<AccountInfo, ApiError> {
        Ok(AccountInfo { info: Some(meta.account_info(&self.jetstream, &self.account).await) })
    }

    fn has_stream(&self, name: &str) -> bool {
        self.account.stream(name).is_some()
    }

    /// A server of a cluster whose meta group is still to be formed decides nothing: it is silent
    /// for a while, and then says that nobody can answer.
    pub(super) fn before_meta(&self, tokens: &[&str]) -> Handled {
        let Some(groups) = self.jetstream.cluster.groups.get() else { return Handled::Usual };
        let is_over = groups.age() >= LEADERLESS;
        Handled::Done(is_over.then(|| unavailable(tokens)))
    }

    /// Does a call whose answer the stream's leader gives, unless it is refused here.
    async fn pass_on<A: ApiResponse>(
        &mut self,
        act: impl AsyncFnOnce(&mut Self) -> Result<(), ApiError>,
    ) -> Option<CallResponse> {
        let outcome = match self.admit() {
            Ok(()) => act(self).await,
            Err(error) => Err(error),
        };
        outcome.err().map(|error| respond_to_any::<A>(Err(error)))
    }

    /// Streams of the account in the cluster.
    fn assigned(&self, meta: &Meta) -> Vec<Arc<Assignment>> {
        meta.view().of_account(self.account.account().name())
    }

    /// Looks at a configuration beside those of the account's streams in the cluster.
    pub(super) fn beside_others<T>(&self, meta: &Meta, look: impl FnOnce(&AccountView<'_>) -> T) -> T {
        look(&AccountView { view: &meta.view(), account: self.account.account().name() })
    }

    async fn assign_new(&mut self, meta: &Meta, name: &str) -> Result<(), ApiError> {
        let account = self.account.account().name();
        meta.decide_on((account, name), async |known| self.new_assigned(meta, name, known).await).await
    }

    async fn new_assigned(
        &self,
        meta: &Meta,
        name: &str,
        known: Option<Arc<Assignment>>,
    ) -> Result<Option<Assignment>, ApiError> {
        let request = StreamConfigRequest::read(self.body(), self.is_strict())?;
        let limits = self.limits_in_cluster();
        let created = self.beside_others(meta, |others| config::create(request, name, others, &limits))?;
        Ok(match (created, known) {
            (Created::Same, Some(known)) => {
                return Ok(self.unchanged(meta, &known, AnswerKind::Create).await);
            }
            (Created::Same, None) => return Err(ApiError::STREAM_NOT_FOUND),
            (Created::New(config), _) => {
                let facts = meta.facts_for(&self.jetstream, &config).await;
                let peers = meta.place_stream(&config, &facts, &self.asking_clusters())?;
                let now = self.jetstream.host.now();
                let replaces = meta.view().removed(self.account.account().name(), name);
                let made = self.jetstream.new_assignment(self.account.account().name(), *config, peers, now);
                let nonce = made.nonce;
                let asked = self.proposal(AnswerKind::Create, Assignment { replaces, ..made });
                // Whether it is the first one of the stream is told by it.
                Some(Assignment { nonce, ..asked })
            }
        })
    }

    /// Has the leader of a stream answer this call, which has found nothing to change. Where it
    /// does not, the assignment is to be proposed once more, for whoever leads then to answer.
    ///
    /// The meta stream keeps the last assignment of a stream: of many that are committed at once a
    /// leader does not see all, and whose proposal it does not see has no answer.
    pub(super) async fn unchanged(
        &self,
        meta: &Meta,
        known: &Assignment,
        answer: AnswerKind,
    ) -> Option<Assignment> {
        let proposal = self.proposal(answer, known.clone());
        let asked = (proposal.asked.clone(), answer);
        let is_answered = meta.is_answered_by_leader(&self.jetstream, known, asked).await;
        (!is_answered).then_some(proposal)
    }

    async fn assign_removed(&mut self, meta: &Meta, name: &str) -> Result<(), ApiError> {
        if !is_empty(self.body()) {
            return Err(ApiError::NOT_EMPTY_REQUEST);
        }
        let account = self.account.account().name();
        let removed = async |known: Option<Arc<Assignment>>| {
            let known = known.ok_or(ApiError::STREAM_NOT_FOUND)?;
            Ok(self.proposal(AnswerKind::Delete, Assignment { is_removed: true, ..(*known).clone() }))
        };
        meta.decide_on((account, name), removed).await
    }

    /// An assignment as this call proposes it.
    pub(super) fn proposal(&self, answer: AnswerKind, assignment: Assignment) -> Assignment {
        let account = self.account.account();
        let asked = Asked {
            reply: String::from_utf8_lossy(&self.request.reply).into_owned(),
            is_for_system: account.is_system(),
            subject: self.subject.clone(),
            client: if account.has_interest(AUDIT) { self.client() } else { None },
        };
        Assignment { nonce: self.jetstream.seed(), asked, answer, ..assignment }
    }

    fn assigned_names(&mut self, meta: &Meta) -> Result<StreamNames, ApiError> {
        let request = StreamsRequest::names(self.body(), self.is_strict())?;
        let (paging, page) = self.assigned_page(meta, &request, NAMES_LIMIT);
        let names: Vec<String> = page.iter().map(|one| one.key.stream.clone()).collect();
        // Compat: a page behind the last one is there.
        Ok(StreamNames { streams: (paging.total > 0).then_some(names), paging })
    }

    /// Streams of the account on all servers: of those that others lead these say how they stand.
    async fn assigned_list(&mut self, meta: &Meta) -> Result<StreamList, ApiError> {
        let request = StreamsRequest::list(self.body(), self.is_strict())?;
        let (mut paging, page) = self.assigned_page(meta, &request, LIST_LIMIT);
        // Compat: behind the end it counts nothing, where names do.
        if page.is_empty() {
            paging.total = 0;
        }
        let led_here = |one: &Arc<Assignment>| {
            self.account.stream(&one.key.stream).is_some_and(|live| live.role().leads())
        };
        let elsewhere: Vec<_> = page.iter().filter(|one| !led_here(one)).map(Arc::clone).collect();
        let mut found = meta.gather_assigned(&self.jetstream, &self.account, &elsewhere).await;
        let (mut streams, mut missing) = (Vec::new(), Vec::new());
        for one in page {
            match (self.account.stream(&one.key.stream), found.remove(&one.key.stream)) {
                (_, Some(info)) => streams.push(ListedStream::Elsewhere(info)),
                (Some(live), None) => {
                    let info = live.as_listed(self.jetstream.clustered_info(&live, false));
                    streams.push(ListedStream::Here(Box::new(info)));
                }
                (None, None) => missing.push(one.key.stream.clone()),
            }
        }
        Ok(StreamList { paging, streams, missing, ..StreamList::default() })
    }

    fn assigned_page(
        &self,
        meta: &Meta,
        request: &StreamsRequest,
        limit: usize,
    ) -> (Paging, Vec<Arc<Assignment>>) {
        page_of(self.assigned(meta), request, limit, |one, collides| one.config.subjects.iter().any(collides))
    }

    /// Has another server lead the stream, and all of its consumers.
    async fn step_down<A: From<SteppedDown>>(&mut self, meta: &Meta, name: &str) -> Result<A, ApiError> {
        let live = self.account.stream(name).ok_or(ApiError::STREAM_NOT_FOUND)?;
        let assignment = meta.view().get(self.account.account().name(), name);
        let servers = assignment.map(|assignment| assignment.peers.clone()).unwrap_or_default();
        self.hand_over(meta, &live, &servers).await?;
        Ok(SteppedDown { success: true }.into())
    }

    /// Has another server lead a group that is led here: the one that the request names, if any.
    ///
    /// Compat: a stream that has no group steps down with success, and nothing happens.
    async fn hand_over(
        &mut self,
        meta: &Meta,
        live: &Arc<LiveStream>,
        servers: &[String],
    ) -> Result<(), ApiError> {
        let wanted = StepDownRequest::read(self.body(), self.is_strict())?.placement;
        if !live.is_of_group() {
            return Ok(());
        }
        let heir = match wanted {
            None => None,
            Some(wanted) => {
                let has_tags = wanted.tags.is_some();
                let facts = if has_tags { meta.facts(&self.jetstream).await } else { BTreeMap::new() };
                let me = &self.jetstream.settings.server_name;
                let heir = meta.successor((&wanted, &facts), (me, servers))?;
                peer_of(&heir)
            }
        };
        live.hand_over_to(heir);
        Ok(())
    }

    /// Has another server lead one of the stream's consumers: they are where the stream is led.
    async fn step_down_of_consumer(
        &mut self,
        meta: &Meta,
        (name, consumer): (&str, &str),
    ) -> Result<ConsumerSteppedDown, ApiError> {
        let live = self.account.stream(name).ok_or(ApiError::STREAM_NOT_FOUND)?;
        live.consumers().find(consumer).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
        self.step_down(meta, name).await
    }

    /// Has another server lead the meta group; `None`: that is not for this one to answer.
    pub(super) async fn step_down_of_meta(&mut self) -> Option<CallResponse> {
        let meta = self.jetstream.meta()?;
        if !meta.leads() {
            return None;
        }
        let servers = meta.servers();
        let outcome = self.hand_over(&meta, &meta.live(), &servers).await;
        Some(respond_to_any(outcome.map(|()| MetaSteppedDown::from(SteppedDown { success: true }))))
    }

    /// Removes all streams of an account, whichever servers have them. `None`: that is not for this
    /// server to answer.
    pub(super) async fn purge_assigned(&mut self, meta: &Meta, account: &str) -> Option<CallResponse> {
        match meta.certain(&meta.live(), || meta.route_to_leader()).await.0 {
            Route::Here => {}
            Route::Silent | Route::InDoubt => return None,
            Route::Unavailable | Route::Offline => {
                return Some(respond_to_any::<AccountPurge>(Err(ApiError::CLUSTER_NOT_AVAIL)));
            }
        }
        let assigned = meta.view().of_account(account);
        for stream in assigned.iter().map(|assigned| &assigned.key.stream) {
            let removed = async |known: Option<Arc<Assignment>>| {
                let (nonce, asked) = (self.jetstream.seed(), Asked::default());
                let answer = AnswerKind::Delete;
                let of = |known: Arc<Assignment>| Assignment {
                    is_removed: true,
                    nonce,
                    asked,
                    answer,
                    ..(*known).clone()
                };
                Ok(known.map(of))
            };
            if let Err(error) = meta.decide_on((account, stream), removed).await {
                return Some(respond_to_any::<AccountPurge>(Err(error)));
            }
        }
        Some(respond_to_any(Ok(AccountPurge { initiated: true })))
    }

    /// Mirrors of a stream beside itself, those nearest to who asks first; nothing where there are
    /// none.
    pub(super) fn alternates_of(&self, name: &str) -> Vec<StreamAlternate> {
        let Some(meta) = self.jetstream.meta() else { return Vec::new() };
        let account = self.account.account().name();
        let mirrors = meta.view().mirrors_of(account, name);
        if mirrors.is_empty() {
            return Vec::new();
        }
        let names = [name].into_iter().chain(mirrors.iter().map(String::as_str));
        let assigned: Vec<_> = names.filter_map(|name| meta.view().get(account, name)).collect();
        let alternate = |one: Arc<Assignment>| StreamAlternate {
            name: one.key.stream.clone(),
            domain: self.jetstream.settings.domain.clone(),
            cluster: meta.cluster_for_now(&one),
        };
        let mut all: Vec<_> = assigned.into_iter().map(alternate).collect();
        let near = self.asking_clusters();
        let place = |of: &StreamAlternate| near.iter().position(|cluster| *cluster == of.cluster);
        all.sort_by_key(|of| place(of).unwrap_or(near.len()));
        all
    }

    /// Place of a consumer of a stream; `None` where the server is alone.
    pub(super) fn place_of_consumer(&self, stream: &LiveStream, info: &ConsumerInfo) -> Option<ClusterInfo> {
        self.jetstream.meta()?;
        let place = self.jetstream.cluster_info(stream);
        self.jetstream.place_of_known((&place, &stream.config()), info)
    }
}

impl JetStream {
    /// Info of a stream with where it is.
    pub(in crate::engine) fn clustered_info(&self, live: &LiveStream, with_deleted: bool) -> Info {
        Info { cluster: Some(self.cluster_info(live)), ..self.stream_info(live, with_deleted) }
    }

    /// Where a stream is, as the API shows it.
    pub(in crate::engine) fn cluster_info(&self, live: &LiveStream) -> ClusterInfo {
        self.cluster_info_beside(live, |replica, leader| replica != leader)
    }

    /// Where a stream is, with the replicas that are to be shown beside the leader.
    pub(in crate::engine) fn cluster_info_beside(
        &self,
        live: &LiveStream,
        is_shown: impl Fn(&str, &str) -> bool,
    ) -> ClusterInfo {
        let (mut name, me) = (self.host.cluster(), self.settings.server_name.clone());
        let alone = ClusterInfo { name: name.clone(), leader: me, ..ClusterInfo::default() };
        let Some(meta) = self.meta() else { return alone };
        let assignment = meta.view().get(live.account_name(), live.name());
        let (Some(leadership), Some(assignment)) = (live.group_leadership(), assignment) else {
            return alone;
        };
        if assignment.peers.len() == 1 && assignment.before.is_empty() {
            return alone;
        }
        let leader = leadership.leader.map(|leader| meta.name_of(leader)).unwrap_or_default();
        if !leader.is_empty() {
            // While it moves to another one this server may be there already.
            name = meta.cluster_of(&leader);
        }
        let servers: Vec<String> = assignment.servers().cloned().collect();
        let mut replicas = self.replicas_of(&meta, live, &servers);
        replicas.retain(|replica| is_shown(&replica.name, &leader));
        let leads = leader == self.settings.server_name;
        let desired = self.desired_of(&meta, live, &assignment).map(Box::new);
        ClusterInfo {
            name,
            raft_group: assignment.group.name.clone(),
            leader_since: if leads { leadership.since } else { 0 },
            leader,
            system_account: true,
            traffic_account: self.host.system_account().map(|one| one.name().to_owned()).unwrap_or_default(),
            replicas,
            desired,
        }
    }

    /// The change of a stream's servers that is under way.
    fn desired_of(&self, meta: &Meta, live: &LiveStream, of: &Assignment) -> Option<DesiredInfo> {
        let change = of.change.as_ref()?;
        let origin = change.origin.as_ref();
        let origin =
            origin.map(|origin| DesiredOrigin { replicas: origin.replicas, placement: origin.placement() });
        // Compat: which servers stay where some go is not shown.
        let has_fewer = origin.as_ref().is_some_and(|origin| origin.replicas > of.config.num_replicas);
        let shown = |name: &String| {
            let (peer, offline) = (peer_of(name)?.to_string(), !meta.has(name));
            Some(DesiredReplica { name: name.clone(), offline, peer })
        };
        let is_hidden = has_fewer && !change.is_move;
        let replicas = of.peers.iter().filter(|_| !is_hidden).filter_map(shown).collect();
        let status = live.role().leads().then(|| self.status_of_change(meta, live, of));
        let (created, name) = (change.created, meta.cluster_of_stream(of));
        Some(DesiredInfo { created, name, replicas, origin, status })
    }

    /// Progress of a change, as the leader of the stream sees it.
    fn status_of_change(&self, meta: &Meta, live: &LiveStream, of: &Assignment) -> DesiredStatus {
        let voters = live.voters();
        let votes = |server: &String| peer_of(server).is_some_and(|peer| voters.contains(&peer));
        let mut coming = of.peers.iter().filter(|server| !votes(server)).peekable();
        let (kind, description) = if coming.peek().is_none() {
            let stays = of.peers.contains(&self.settings.server_name);
            let waits = "waiting for a desired peer to step down to";
            ("membership", if stays { "waiting for membership change to commit" } else { waits })
        } else if coming.any(|server| !meta.has(server)) {
            ("quorum", "waiting for quorum to add peer")
        } else {
            ("catchup", "waiting for desired peers to catch up")
        };
        DesiredStatus { description: description.to_owned(), kind: kind.to_owned() }
    }

    /// All replicas of a stream, by name, as this one knows them.
    pub(in crate::engine) fn replicas_of(
        &self,
        meta: &Meta,
        live: &LiveStream,
        servers: &[String],
    ) -> Vec<ReplicaInfo> {
        let Some(status) = live.group_status() else { return Vec::new() };
        let known = |server: &String| {
            let peer = peer_of(server)?;
            let is_me = *server == self.settings.server_name;
            let is_lacking = if is_me { live.is_damaged() } else { live.is_sent_to(peer) };
            let replica = self.replica(meta, &status, server, peer);
            Some(ReplicaInfo { current: replica.current && !is_lacking, ..replica })
        };
        let mut replicas: Vec<_> = servers.iter().filter_map(known).collect();
        replicas.sort_by(|one, other| one.name.cmp(&other.name));
        replicas
    }

    fn replica(&self, meta: &Meta, status: &Status, server: &str, peer: Peer) -> ReplicaInfo {
        let is_me = server == self.settings.server_name;
        let is_there = is_me || meta.is_there(peer);
        let member = status.members.iter().find(|member| member.peer == peer);
        let is_pending = !status.members.is_empty() && member.is_none();
        let lag = member.map_or(0, |member| status.committed.saturating_sub(member.matched));
        ReplicaInfo {
            name: server.to_owned(),
            current: is_there && lag == 0 && !is_pending,
            offline: !is_there,
            active: if is_me { 0 } else { meta.heard_ago(peer) },
            lag: i64::try_from(lag).unwrap_or(i64::MAX),
            peer: peer.to_string(),
            pending: is_pending,
        }
    }
}
