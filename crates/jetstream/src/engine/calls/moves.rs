//! Calls that have a stream be on other servers: updates that move or scale it, moves by operators,
//! their cancellation, and servers that it is to leave.

use super::cluster::{
    EvacuatePeer, EvacuatePeerOfConsumer, Leave, PeerRemoved, RemovePeer, RemovePeerOfConsumer, find_peer,
};
use super::{Call, CallResponse, respond_to_any};
use crate::engine::consumers::refuse_limits;
use crate::engine::meta::{AnswerKind, Asked, Assignment, Meta, PlaceTerms, Route, peer_of};
use crate::engine::reservations::{place, reserved_here};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::request::{MoveRequest, PeerRequest};
use myelin_jsapi::api::response::{ApiResponse, StreamCancelMove, StreamUpdate};
use myelin_jsapi::config::{self, Storage, StreamConfig, StreamConfigRequest};
use std::sync::Arc;

impl Call {
    /// Limits for a stream of the cluster: what servers have room for is looked at when it is known
    /// which have it.
    pub(super) fn limits_in_cluster(&self) -> config::Limits {
        let mut limits = config::Limits { has_replicas: true, ..self.account.all_limits(&self.jetstream) };
        (limits.server.max_memory, limits.server.max_storage) = (i64::MAX, i64::MAX);
        limits
    }

    /// Whether the servers that have a stream, and keep it, have room for what it is to reserve
    /// more, as far as they say: others were chosen for what they have.
    async fn check_room(
        &self,
        meta: &Meta,
        (known, changed): (&Assignment, &Assignment),
    ) -> Result<(), ApiError> {
        let (before, now) = (reserved_here(&known.config), reserved_here(&changed.config));
        let more = [0, 1].map(|at| now[at] - before[at]);
        if more.iter().all(|&bytes| bytes <= 0) {
            return Ok(());
        }
        let facts = meta.facts(&self.jetstream).await;
        let kept = changed.peers.iter().filter(|server| known.is_on(server));
        for known in kept.filter_map(|server| facts.get(server)) {
            let lacks = |storage, free: i64| more[place(storage)] > i128::from(free.max(0));
            if lacks(Storage::Memory, known.free_memory) {
                return Err(ApiError::MEMORY_RESOURCES_EXCEEDED);
            }
            if lacks(Storage::File, known.free_storage) {
                return Err(ApiError::STORAGE_RESOURCES_EXCEEDED);
            }
        }
        Ok(())
    }

    pub(super) async fn assign_changed(&mut self, meta: &Meta, name: &str) -> Result<(), ApiError> {
        let account = self.account.account().name();
        meta.decide_on((account, name), async |known| self.changed(meta, name, known).await).await
    }

    async fn changed(
        &self,
        meta: &Meta,
        name: &str,
        known: Option<Arc<Assignment>>,
    ) -> Result<Option<Assignment>, ApiError> {
        let request = StreamConfigRequest::read(self.body(), self.is_strict())?;
        let limits = self.limits_in_cluster();
        let is_there = |one: &Arc<Assignment>| one.servers().any(|server| meta.was_there_lately(server));
        if known.as_ref().is_some_and(|known| !is_there(known)) {
            // Nobody would answer, and it would be done when one of its servers is there again.
            return Err(ApiError::STREAM_OFFLINE);
        }
        let config = self.beside_others(meta, |others| config::update(request, name, others, &limits))?;
        let known = known.ok_or(ApiError::STREAM_NOT_FOUND)?;
        if config.consumer_limits.are_new(&known.config.consumer_limits) {
            let limits = &config.consumer_limits;
            refuse_limits(&meta.consumers_exceeding(&self.jetstream, &known, limits).await)?;
        }
        let changed = Assignment { config: config.clone(), ..self.placed_for(meta, &known, &config).await? };
        // What the cluster does by itself is none of this request's, and cannot be cancelled.
        let replicas = |one: &Assignment| one.config.num_replicas;
        let is_asked = changed.peers != known.peers || replicas(&changed) != replicas(&known);
        let changed = if is_asked { changed.with_origin(&known) } else { changed };
        self.check_room(meta, (&known, &changed)).await?;
        if changed == *known {
            return Ok(self.unchanged(meta, &known, AnswerKind::Update).await);
        }
        Ok(Some(self.proposal(AnswerKind::Update, changed)))
    }

    /// The assignment with the servers that another configuration wants.
    ///
    /// Compat: a move goes with nothing else, neither in one request nor while something else is
    /// under way; replicas can be changed again before they are what was asked for.
    async fn placed_for(
        &self,
        meta: &Meta,
        known: &Assignment,
        config: &StreamConfig,
    ) -> Result<Assignment, ApiError> {
        let moves = config.placement.is_some() && config.placement != known.config.placement;
        let is_scaled = config.num_replicas != known.config.num_replicas;
        let is_more = is_scaled || config.retention != known.config.retention;
        match (moves, is_more) {
            (true, true) => return Err(ApiError::STREAM_MOVE_AND_SCALE),
            (true, false) => Self::may_move(known)?,
            (false, true) if known.is_moving() => return Err(ApiError::STREAM_MOVE_IN_PROGRESS),
            (false, _) => {}
        }
        let now = self.jetstream.host.now();
        if moves {
            let asking = self.asking_clusters();
            let peers = meta.place_moved(&self.jetstream, (known, config), &asking).await?;
            return Ok(Self::on_the_move(known, peers, now));
        }
        if !is_scaled {
            return Ok(known.clone());
        }
        let replicas = usize::try_from(config.num_replicas).unwrap_or(1).max(1);
        Ok(known.moved(meta.place_anew(&self.jetstream, (known, config), replicas).await?, now))
    }

    /// Compat: one move at a time, and none while something else is under way.
    fn may_move(known: &Assignment) -> Result<(), ApiError> {
        match &known.change {
            Some(change) if change.is_move => Err(ApiError::STREAM_MOVE_IN_PROGRESS),
            Some(_) => Err(ApiError::STREAM_RECONFIGURE_IN_PROGRESS),
            None => Ok(()),
        }
    }

    fn on_the_move(known: &Assignment, peers: Vec<String>, now: i64) -> Assignment {
        if known.peers == peers {
            // Where it is already is where it should be.
            return known.clone();
        }
        let mut moved = known.moved(peers, now);
        moved.change.iter_mut().for_each(|change| change.is_move = true);
        moved
    }

    /// Cancels a change of a stream of the account that asks.
    pub(super) async fn cancel_own_move(&mut self, meta: &Meta, name: &str) -> Result<(), ApiError> {
        let account = self.account.account().name().to_owned();
        self.cancel_move(meta, (&account, name)).await
    }

    /// Has a stream go back to where it was before a change that is under way.
    async fn cancel_move(&mut self, meta: &Meta, (account, name): (&str, &str)) -> Result<(), ApiError> {
        meta.decide_on((account, name), async |known| self.moved_back(meta, known).await).await
    }

    async fn moved_back(&self, meta: &Meta, known: Option<Arc<Assignment>>) -> Result<Assignment, ApiError> {
        let known = known.ok_or(ApiError::STREAM_NOT_FOUND)?;
        let origin = known.change.as_ref().and_then(|change| change.origin.clone());
        let origin = origin.ok_or(ApiError::STREAM_RECONFIGURE_NOT_IN_PROGRESS)?;
        let config = StreamConfig {
            num_replicas: origin.replicas,
            placement: origin.placement(),
            ..known.config.clone()
        };
        let members = meta.servers();
        let is_left = |server: &String| known.leaves.contains(server);
        let known_still = |server: &String| members.contains(server);
        // One that was removed since, or that it is to leave, does not come back: to that only as
        // long as there is no other place.
        let (leaving, rest): (Vec<_>, Vec<_>) =
            origin.peers.into_iter().filter(known_still).partition(is_left);
        let mut peers = rest;
        if !leaving.is_empty() {
            let facts = meta.facts_for(&self.jetstream, &config).await;
            let cluster = leaving.first().map(|server| meta.cluster_of(server)).unwrap_or_default();
            let terms = PlaceTerms::new(&config, &facts, (&known.leaves, &cluster));
            let wanted = peers.len() + leaving.len();
            peers = match meta.place_with(&peers, wanted, &terms) {
                Ok(placed) => placed,
                Err(_) => [peers, leaving].concat(),
            };
        }
        if peers.is_empty() {
            return Err(ApiError::PEER_REMAP);
        }
        let back = Assignment { config, ..known.moved(peers, self.jetstream.host.now()) };
        Ok(self.proposal(AnswerKind::CancelMove, back))
    }

    /// Has a stream leave a server for another one, as an operator asks for.
    async fn move_stream(&mut self, meta: &Meta, (account, name): (&str, &str)) -> Result<(), ApiError> {
        let request = MoveRequest::read(self.body(), self.is_strict())?;
        self.jetstream.account(account).ok_or(ApiError::NO_ACCOUNT)?;
        meta.decide_on((account, name), async |known| self.moved(meta, &request, known).await).await
    }

    async fn moved(
        &self,
        meta: &Meta,
        request: &MoveRequest,
        known: Option<Arc<Assignment>>,
    ) -> Result<Assignment, ApiError> {
        let known = known.ok_or(ApiError::STREAM_NOT_FOUND)?;
        let gone = match request.server.as_str() {
            "" => known.peers.first().cloned().unwrap_or_default(),
            server => self.named_member(meta, request, server)?,
        };
        if !known.peers.contains(&gone) {
            return Err(ApiError::CLUSTER_PEER_NOT_MEMBER);
        }
        let mut config = known.config.clone();
        if !request.tags.is_empty() {
            let placement = config.placement.get_or_insert_default();
            placement.tags.get_or_insert_default().extend_from_slice(&request.tags);
        }
        let facts = meta.facts_for(&self.jetstream, &config).await;
        let peers = meta.place_away(&known, &gone, (&config, &facts))?;
        Self::may_move(&known)?;
        let moved = Self::on_the_move(&known, peers, self.jetstream.host.now()).with_origin(&known);
        Ok(self.proposal(AnswerKind::Update, moved))
    }

    fn named_member(&self, meta: &Meta, request: &MoveRequest, server: &str) -> Result<String, ApiError> {
        let is_of = |wanted: &str, own: &str| wanted.is_empty() || wanted == own;
        let is_here = is_of(&request.cluster, &meta.cluster_of(server))
            && is_of(&request.domain, &self.jetstream.settings.domain);
        let known = meta.servers().iter().find(|known| is_here && *known == server).cloned();
        known.ok_or(ApiError::CLUSTER_SERVER_NOT_MEMBER)
    }

    /// Moves and cancellations by an operator, or by the account itself. `None`: this server does
    /// not answer.
    pub(super) async fn operate_stream(
        &mut self,
        meta: &Meta,
        tokens: (&str, &str, &str),
    ) -> Option<CallResponse> {
        let (action, account, name) = tokens;
        let own = self.account.account();
        let may = own.is_system() || own.name() == account;
        if !may || meta.certain(&meta.live(), || meta.route_to_leader()).await.0 != Route::Here {
            return None;
        }
        match action {
            "MOVE" => {
                let outcome = self.move_stream(meta, (account, name)).await;
                outcome.err().map(|error| respond_to_any::<StreamUpdate>(Err(error)))
            }
            _ => {
                let outcome = match self.jetstream.account(account) {
                    Some(_) => self.cancel_move(meta, (account, name)).await,
                    None => Err(ApiError::NO_ACCOUNT),
                };
                outcome.err().map(|error| respond_to_any::<StreamCancelMove>(Err(error)))
            }
        }
    }

    fn named_peer(&self) -> Result<String, ApiError> {
        let PeerRequest { peer, .. } = PeerRequest::read(self.body(), self.is_strict())?;
        if peer.is_empty() { Err(ApiError::BAD_REQUEST) } else { Ok(peer) }
    }

    /// Has a stream or a consumer leave a server, as `tokens` say behind `PEER`.
    pub(super) async fn leave_peer(&mut self, meta: &Meta, tokens: &[&str]) -> Option<CallResponse> {
        let (leave, rest) = match *tokens {
            ["STREAM", "PEER", "REMOVE", ref rest @ ..] => (Leave::Remove, rest),
            ["STREAM", "PEER", "EVACUATE", ref rest @ ..] => (Leave::Evacuate, rest),
            ["CONSUMER", "PEER", "REMOVE", ref rest @ ..] => (Leave::Remove, rest),
            ["CONSUMER", "PEER", "EVACUATE", ref rest @ ..] => (Leave::Evacuate, rest),
            _ => return None,
        };
        Some(match (rest, leave) {
            (&[name], Leave::Remove) => {
                let act = async |call: &mut Self| call.remove_peer(meta, (name, leave)).await;
                self.respond::<RemovePeer>(act).await
            }
            (&[name], Leave::Evacuate) => {
                let act = async |call: &mut Self| call.remove_peer(meta, (name, leave)).await;
                self.respond::<EvacuatePeer>(act).await
            }
            (&[name, consumer], Leave::Remove) => {
                let act = async |call: &mut Self| call.remove_peer_of_consumer(meta, name, consumer);
                self.respond::<RemovePeerOfConsumer>(act).await
            }
            (&[name, consumer], Leave::Evacuate) => {
                let act = async |call: &mut Self| call.remove_peer_of_consumer(meta, name, consumer);
                self.respond::<EvacuatePeerOfConsumer>(act).await
            }
            _ => return None,
        })
    }

    /// Has a stream have a replica on another server in the place of one that is named.
    async fn remove_peer<A: From<PeerRemoved>>(
        &mut self,
        meta: &Meta,
        (name, leave): (&str, Leave),
    ) -> Result<A, ApiError> {
        let peer = self.named_peer()?;
        let account = self.account.account().name();
        let decide = async |known| self.without_peer(meta, (&peer, leave), known).await;
        meta.decide_on((account, name), decide).await?;
        Ok(PeerRemoved { success: true }.into())
    }

    /// `None`: the stream is about to leave it already.
    async fn without_peer(
        &self,
        meta: &Meta,
        (peer, leave): (&str, Leave),
        known: Option<Arc<Assignment>>,
    ) -> Result<Option<Assignment>, ApiError> {
        let known = known.ok_or(ApiError::STREAM_NOT_FOUND)?;
        let Some(gone) = find_peer(peer, &known.peers) else {
            find_peer(peer, &known.before).ok_or(ApiError::CLUSTER_PEER_NOT_MEMBER)?;
            return if leave == Leave::Remove { Ok(None) } else { Err(ApiError::PEER_REMAP) };
        };
        let facts = meta.facts_for(&self.jetstream, &known.config).await;
        let cluster = meta.cluster_of_stream(&known);
        let terms = PlaceTerms::new(&known.config, &facts, (&known.leaves, &cluster));
        let peers = meta.place_without(&known, gone, &terms).map_err(|_| ApiError::PEER_REMAP)?;
        let proposal = self.proposal(AnswerKind::Update, known.moved(peers, self.jetstream.host.now()));
        // This server answers.
        Ok(Some(Assignment { asked: Asked::default(), ..proposal }))
    }

    /// Consumers are where their stream is. One that has as many replicas has no other server; one
    /// with fewer counts as being where the stream is led, and goes where that goes.
    fn remove_peer_of_consumer<A: ApiResponse + From<PeerRemoved>>(
        &mut self,
        meta: &Meta,
        name: &str,
        consumer: &str,
    ) -> Result<A, ApiError> {
        let peer = self.named_peer()?;
        let known = meta.view().get(self.account.account().name(), name);
        let known = known.ok_or(ApiError::STREAM_NOT_FOUND)?;
        let live = self.account.stream(name).ok_or(ApiError::STREAM_NOT_FOUND)?;
        let found = live.consumers().config(consumer).ok_or(ApiError::CONSUMER_NOT_FOUND)?;
        let gone = find_peer(&peer, &known.peers).ok_or(ApiError::CLUSTER_PEER_NOT_MEMBER)?;
        let replicas = found.replicas(&known.config);
        let leads = *gone == self.jetstream.settings.server_name;
        if replicas >= i64::try_from(known.peers.len()).unwrap_or(i64::MAX) {
            return Err(ApiError::PEER_REMAP);
        }
        if !leads && replicas == 1 {
            return Err(ApiError::CLUSTER_PEER_NOT_MEMBER);
        }
        if leads {
            let is_there = |server: &&String| *server != gone && meta.has(server);
            let heir = known.peers.iter().find(is_there).ok_or(ApiError::PEER_REMAP)?;
            live.hand_over_to(peer_of(heir));
        }
        Ok(PeerRemoved { success: true }.into())
    }
}
