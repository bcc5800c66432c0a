//! A connection as other threads see it: where to put bytes for it, and what monitoring may know.
//!
//! The protocol state of a connection is its [`Session`](crate::Session), owned by one shard. What
//! is here is shared: any shard may append to the outbox and, holding its claim, write the socket.
//!
//! Subscriptions are owned by their connection; the account's index holds references. A *slot* is a
//! small number for each living connection, the index into tables of the shards. It is given back
//! when the last reference to the connection is gone, so that nothing that was staged for an old
//! connection can reach a new one.

use crate::abilities::Abilities;
use crate::closing::Closing;
use crate::conn_details::{ConnDetails, Endpoint, TlsDetails};
use crate::conn_shared::ConnShared;
use crate::delivery_rights::{DeliveryPermissions, DeliveryRights};
use crate::kept_details::KeptDetails;
use crate::link::end::LinkEnd;
use crate::link::gateway_end::GatewayEnd;
use crate::link::leaf_end::LeafEnd;
use crate::listener_info::WebSocketOrigin;
use crate::mqtt_origin::MqttOrigin;
use crate::mqtt5_client::Mqtt5Client;
use crate::outbox::{AppendCounts, Drained, Outbox, Queued, Staged};
use crate::settings::{Settings, WritesByKind};
use crate::subscription::Subscription;
use crate::traffic::{ConnKind, ConnTraffic};
use crate::waiter::Waiter;
use bytes::Bytes;
use hashbrown::HashTable;
use myelin_auth::{ClientCertificate, ConnectionType, Permissions};
use myelin_stdx::mem::Accountant;
use myelin_stdx::sync::lock;
use myelin_wire::error::{CloseReason, Quoted};
use std::hash::BuildHasher;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The transport under a connection. Implemented by the server over a socket.
pub trait Transport: Send + Sync {
    /// Writes what the transport takes now, from any thread that holds the outbox's claim.
    ///
    /// # Errors
    /// `WouldBlock` when nothing can be taken; anything else is final.
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Hands the outbox's claim to the owner shard, which goes on when the transport takes bytes
    /// again.
    fn wait_writable(&self, conn: &Arc<Conn>);

    /// Tells the owner shard to end the connection; the reason is in [`Conn::close_requested`].
    fn kick(&self, conn: &Arc<Conn>);

    /// Has the owner shard flush a link that has something to say.
    fn wake(&self, _: &Arc<Conn>) {}

    /// Has the connection's task call
    /// [`Session::take_mqtt_inbox`](crate::Session::take_mqtt_inbox).
    fn has_mqtt_mail(&self, _: &Arc<Conn>) {}
}

/// The transport of who has none.
struct Nowhere;

impl Transport for Nowhere {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn wait_writable(&self, _: &Arc<Conn>) {}

    fn kick(&self, _: &Arc<Conn>) {}
}

/// How a connection came to be.
pub(crate) enum Origin {
    /// By the clients' own listener.
    Client,
    /// By the listener of WebSockets.
    WebSocket(Box<WebSocketOrigin>),
    /// The client speaks MQTT.
    Mqtt(Box<MqttOrigin>),
    /// The other end is a server of the same cluster.
    Link(Box<LinkEnd>),
}

/// A connection, shared between shards.
pub struct Conn {
    cid: u64,
    slot: u32,
    endpoint: Endpoint,
    origin: Origin,
    pub(crate) outbox: Outbox<Waiter>,
    sink: Box<dyn Transport>,
    abilities: Abilities,
    closing: Closing,
    details: Mutex<KeptDetails>,
    subs: Mutex<Subs>,
    pub(crate) rights: DeliveryRights,
    pub(crate) traffic: ConnTraffic,
    commons: Arc<ConnShared>,
}

/// Subscriptions by sid: keyed by the subscription's own text, no second copy.
#[derive(Default)]
struct Subs {
    table: HashTable<Arc<Subscription>>,
}

impl Conn {
    pub(crate) fn new(
        cid: u64,
        endpoint: Endpoint,
        mut origin: Origin,
        sink: Box<dyn Transport>,
        commons: &Arc<ConnShared>,
    ) -> Arc<Self> {
        let tls = match &mut origin {
            Origin::WebSocket(websocket_origin) => websocket_origin.tls.take().map(Box::new),
            Origin::Mqtt(mqtt) => mqtt.websocket.as_mut().and_then(|origin| origin.tls.take()).map(Box::new),
            Origin::Client | Origin::Link(_) => None,
        };
        let mut details = KeptDetails::default();
        tls.into_iter().for_each(|tls| details.set_tls(tls));
        Arc::new(Self {
            cid,
            slot: commons.slots.take(),
            endpoint,
            origin,
            outbox: Outbox::default(),
            sink,
            abilities: Abilities::default(),
            closing: Closing::default(),
            details: Mutex::new(details),
            subs: Mutex::default(),
            rights: DeliveryRights::default(),
            traffic: ConnTraffic::default(),
            commons: Arc::clone(commons),
        })
    }

    /// The publisher of what services send: nobody, nowhere, and nothing can be delivered to it.
    pub(crate) fn of_services(commons: &Arc<ConnShared>) -> Arc<Self> {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let endpoint = Endpoint { peer: nowhere, start: SystemTime::UNIX_EPOCH };
        Self::new(0, endpoint, Origin::Client, Box::new(Nowhere), commons)
    }

    /// The client id of INFO and `/connz`.
    pub fn cid(&self) -> u64 {
        self.cid
    }

    /// A small number, unique among living connections: the index of shard-local tables.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// Where it comes from: the client, also where a proxy stands between.
    pub fn endpoint(&self) -> Endpoint {
        let peer = self.look(KeptDetails::client).unwrap_or(self.endpoint.peer);
        Endpoint { peer, ..self.endpoint }
    }

    /// The other end of the socket, which may be a proxy.
    pub fn peer(&self) -> SocketAddr {
        self.endpoint.peer
    }

    /// The peer is a proxy, and this is its client. Only the first call counts.
    pub fn set_client(&self, client: SocketAddr) {
        self.update_details(|details| details.set_client(client));
    }

    /// Names in the client's certificate, if it has shown one.
    pub(crate) fn certificate(&self) -> Option<Arc<ClientCertificate>> {
        self.look(|details| details.certificate().cloned())
    }

    /// How it came in, if not by the clients' own listener.
    pub(crate) fn websocket_origin(&self) -> Option<&WebSocketOrigin> {
        match &self.origin {
            Origin::WebSocket(websocket_origin) => Some(websocket_origin),
            Origin::Mqtt(mqtt) => mqtt.websocket.as_deref(),
            Origin::Client | Origin::Link(_) => None,
        }
    }

    /// The part that only clients have that speak MQTT.
    #[inline]
    pub(crate) fn mqtt(&self) -> Option<&MqttOrigin> {
        match &self.origin {
            Origin::Mqtt(mqtt) => Some(mqtt),
            Origin::Client | Origin::WebSocket(_) | Origin::Link(_) => None,
        }
    }

    /// The part that only clients have that speak MQTT 5.
    #[inline]
    pub(crate) fn mqtt5(&self) -> Option<&Mqtt5Client> {
        self.mqtt()?.five()
    }

    /// Whether it leads to another server of the cluster.
    pub fn is_link(&self) -> bool {
        self.link().is_some()
    }

    /// Whether it stands for the services of this server: for what the server itself publishes.
    pub fn is_own(&self) -> bool {
        self.cid == 0
    }

    /// The part that only links have.
    #[inline]
    pub(crate) fn link(&self) -> Option<&LinkEnd> {
        match &self.origin {
            Origin::Link(link) => Some(link),
            Origin::Client | Origin::WebSocket(_) | Origin::Mqtt(_) => None,
        }
    }

    /// The part that only links of leaf nodes and hubs have, once their handshake is over.
    #[inline]
    pub(crate) fn leaf(&self) -> Option<&LeafEnd> {
        self.link()?.leaf()
    }

    /// The part that only gateways have, once their handshake is over.
    #[inline]
    pub(crate) fn gateway(&self) -> Option<&GatewayEnd> {
        self.link()?.gateway()
    }

    /// Whether it is a client's or a link, and of which kind.
    pub fn kind(&self) -> ConnKind {
        match self.link() {
            Some(link) if link.is_of_leaf_node() => ConnKind::LeafNode,
            Some(link) if link.is_of_gateway() => ConnKind::Gateway,
            Some(_) => ConnKind::Route,
            None => ConnKind::Client,
        }
    }

    /// Whether it is a link whose other side says who has sent requests to JetStream
    /// ([`ASKER`](crate::ASKER)): what else says that is not true.
    pub fn says_askers(&self) -> bool {
        self.link().is_some_and(LinkEnd::says_askers)
    }

    /// Whether it is a link over WebSocket.
    pub fn is_web_socket_link(&self) -> bool {
        self.link().is_some_and(LinkEnd::is_web_socket)
    }

    /// Whether it is a link with a leaf node or a hub.
    pub fn is_leaf_link(&self) -> bool {
        self.link().is_some_and(LinkEnd::is_of_leaf_node)
    }

    /// Which kind of connection it is.
    pub fn via(&self) -> ConnectionType {
        if self.kind() == ConnKind::LeafNode {
            return ConnectionType::Leafnode;
        }
        if let Some(mqtt) = self.mqtt() {
            return mqtt.via();
        }
        self.websocket_origin()
            .map_or(ConnectionType::Standard, |websocket_origin| websocket_origin.listener_info.via)
    }

    pub(crate) fn memory(&self) -> &Accountant {
        &self.commons.memory
    }

    /// Memory that several connections will share: it counts once, for as long as any of them holds
    /// it.
    pub fn share(&self, bytes: Bytes) -> Bytes {
        self.commons.share(bytes)
    }

    pub(crate) fn sink(&self) -> &dyn Transport {
        &*self.sink
    }

    pub(crate) fn headers(&self) -> bool {
        self.abilities.headers.load(Relaxed)
    }

    pub(crate) fn set_headers(&self, on: bool) {
        self.abilities.headers.store(on, Relaxed);
    }

    pub(crate) fn wants_no_responders(&self) -> bool {
        self.abilities.no_responders.load(Relaxed)
    }

    pub(crate) fn set_no_responders(&self, on: bool) {
        self.abilities.no_responders.store(on, Relaxed);
    }

    /// Whether it has shown that it takes an INFO out of turn: by its protocol and a first PING.
    pub fn accepts_async_info(&self) -> bool {
        self.abilities.accepts_async_info.load(Relaxed)
    }

    pub(crate) fn set_accepts_async_info(&self) {
        self.abilities.accepts_async_info.store(true, Relaxed);
    }

    /// How long its other side may take nothing, and whether it is given more time then.
    pub fn write_terms(&self, settings: &Settings) -> (Duration, bool) {
        let Some(link) = self.link() else { return (settings.write_deadline, settings.retry_writes) };
        let WritesByKind { routes, leaf_nodes, gateways } = settings.link_writes;
        let writes = match link {
            link if link.is_of_leaf_node() => leaf_nodes,
            link if link.is_of_gateway() => gateways,
            _ => routes,
        };
        (writes.deadline.unwrap_or(settings.write_deadline), !writes.closes)
    }

    /// Bytes that may wait to be written before it is cut off.
    ///
    /// Compat: a link may be behind as far as it is, for what waits for it is lost otherwise; the
    /// write deadline watches over it. Safer than the reference: a leaf node, which may be
    /// anybody's server, cannot take all memory.
    pub(crate) fn max_pending(&self, settings: &Settings) -> usize {
        match self.link() {
            None => settings.max_pending,
            Some(link) if link.leaf().is_some_and(|leaf| leaf.is_accepted) => {
                settings.link_writes.leaf_nodes.max_pending.unwrap_or(usize::MAX)
            }
            Some(_) => usize::MAX,
        }
    }

    /// Bytes that wait to be written.
    pub fn pending(&self) -> usize {
        self.outbox.pending()
    }

    /// Pieces of memory in which they wait.
    pub fn pending_chunks(&self) -> usize {
        self.outbox.chunks()
    }

    /// Messages and payload bytes delivered to it.
    pub fn sent(&self) -> (u64, u64) {
        self.outbox.sent()
    }

    /// Messages and payload bytes received from it.
    pub fn received(&self) -> (u64, u64) {
        (self.traffic.in_msgs.get(), self.traffic.in_bytes.get())
    }

    /// How often publishers were paused because this connection was far behind.
    pub fn stalls(&self) -> u64 {
        self.traffic.stalls.load(Relaxed)
    }

    /// When it last sent or got something.
    pub fn last_activity(&self) -> SystemTime {
        self.endpoint.start + Duration::from_millis(self.traffic.last_activity.load(Relaxed))
    }

    pub(crate) fn touch(&self, since_start: Duration) {
        self.traffic.last_activity.store(since_start.as_millis() as u64, Relaxed);
    }

    /// Details of the connection for monitoring.
    pub fn details(&self) -> ConnDetails {
        self.look(KeptDetails::shown)
    }

    /// Looks at what monitoring shows, of which a copy is made.
    pub fn with_details<R>(&self, look: impl FnOnce(&ConnDetails) -> R) -> R {
        look(&self.details())
    }

    /// Whether it is in this account, asked without a copy of its details.
    pub fn is_in_account(&self, account: &str) -> bool {
        self.look(|details| *details.account == *account)
    }

    /// Looks at the details without a copy. `look` runs under a lock and must be short; it cannot
    /// ask the connection for its [`endpoint`](Self::endpoint) or [`label`](Self::label).
    pub(crate) fn look<R>(&self, look: impl FnOnce(&KeptDetails) -> R) -> R {
        look(&lock(&self.details))
    }

    /// Notes what a handshake has agreed on.
    pub fn note_tls(&self, tls: TlsDetails) {
        self.update_details(|details| details.set_tls(Box::new(tls)));
    }

    pub(crate) fn update_details(&self, update: impl FnOnce(&mut KeptDetails)) {
        update(&mut lock(&self.details));
    }

    /// Name of a client's connection in the log.
    pub(crate) fn name(&self) -> String {
        match &self.origin {
            Origin::WebSocket(websocket_origin) => websocket_origin.name(self.peer(), self.cid),
            Origin::Mqtt(mqtt) => mqtt.name(self.peer(), self.cid),
            Origin::Client | Origin::Link(_) => format!("{} - cid:{}", self.peer(), self.cid),
        }
    }

    /// Text behind the client id in each line of the log; empty before CONNECT.
    pub(crate) fn label(&self) -> String {
        self.look(|details| match details.mqtt_client() {
            Some(client_id) => format!(" - {}", Quoted(client_id.as_bytes())),
            None => details.label().unwrap_or_default().to_owned(),
        })
    }

    /// Compat: only the first CONNECT names a client, whatever a later one says.
    pub(crate) fn set_label(&self, label: &str) {
        self.update_details(|details| details.set_label(label));
    }

    /// Permissions of the connection; `None` allows everything.
    pub fn permissions(&self) -> Option<Arc<Permissions>> {
        Some(Arc::clone(&self.rights()?.permissions))
    }

    pub(crate) fn rights(&self) -> Option<Arc<DeliveryPermissions>> {
        self.rights.get()
    }

    pub(crate) fn set_rights(&self, rights: Option<Arc<DeliveryPermissions>>) {
        let cuts = |rights: &Arc<DeliveryPermissions>| {
            self.subscriptions().iter().any(|sub| rights.permissions.needs_delivery_filter(sub.subject()))
        };
        let cuts = rights.as_ref().is_some_and(cuts);
        self.rights.set(rights, cuts);
    }

    /// Whether deny rules are to be asked before it is shown a subject that is not the one by which
    /// the message came.
    pub(crate) fn is_filtered(&self) -> bool {
        self.rights.is_filtered()
    }

    /// Asks the owner shard to end this connection. The first reason stays.
    pub fn close(self: &Arc<Self>, reason: CloseReason) {
        if self.closing.begin(reason) {
            self.sink.kick(self);
        }
    }

    /// Notes that the connection is over, so that queue groups pass it by.
    pub(crate) fn mark_closed(&self, reason: CloseReason) {
        self.closing.begin(reason);
    }

    /// Why the connection is to end, once someone has asked for it.
    #[inline]
    pub fn close_requested(&self) -> Option<CloseReason> {
        self.closing.reason()
    }

    /// Refuses further bytes and throws away what waits. Called by the owner at the very end.
    pub fn discard(&self) {
        self.outbox.close(self.memory());
    }

    /// Number of subscriptions; of a link, what its other side is interested in.
    pub fn subscription_count(&self) -> usize {
        self.link().map_or_else(|| lock(&self.subs).table.len(), |link| link.subscriptions.load(Relaxed))
    }

    /// All subscriptions, for monitoring.
    #[expect(clippy::disallowed_methods, reason = "the seed of the hash comes from outside")]
    pub fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        lock(&self.subs).table.iter().cloned().collect()
    }

    fn sid_hash(&self, sid: &[u8]) -> u64 {
        self.commons.sids.hash_one(sid)
    }

    pub(crate) fn subscription(&self, sid: &[u8]) -> Option<Arc<Subscription>> {
        lock(&self.subs).table.find(self.sid_hash(sid), |s| s.sid() == sid).cloned()
    }

    pub(crate) fn remember(&self, sub: Arc<Subscription>) {
        debug_assert!(self.subscription(sub.sid()).is_none(), "a sid names one subscription");
        debug_assert!(std::ptr::eq(&raw const **sub.conn(), self), "a subscription is its connection's own");
        lock(&self.subs).table.insert_unique(self.sid_hash(sub.sid()), sub, |s| self.sid_hash(s.sid()));
    }

    /// Forgets one subscription, which is still in the index; `false` when it had ended already.
    pub(crate) fn forget(&self, sub: &Arc<Subscription>) -> bool {
        let mut subs = lock(&self.subs);
        let found = subs.table.find_entry(self.sid_hash(sub.sid()), |known| Arc::ptr_eq(known, sub));
        found.map(|entry| drop(entry.remove())).is_ok()
    }

    /// Forgets all subscriptions and returns them, still in the index.
    pub(crate) fn take_subscriptions(&self) -> Vec<Arc<Subscription>> {
        std::mem::take(&mut lock(&self.subs).table).into_iter().collect()
    }

    /// Moves what a shard has staged into the outbox.
    ///
    /// Perf: inlined into the flush, its one caller (row `1:64` of docs/count.md).
    #[inline(always)]
    pub(crate) fn queue(&self, segments: &mut Staged, load: AppendCounts) -> Queued {
        match self.link() {
            None => self.outbox.append(segments, load, self.memory()),
            Some(link) => link.queue(&self.outbox, self.memory(), segments, load),
        }
    }

    /// Writes what waits for the socket. The caller holds the claim. Emptied buffers go to
    /// `recycle`.
    pub(crate) fn drain(&self, recycle: &mut dyn FnMut(Vec<u8>)) -> Drained {
        self.outbox.drain(|slices| self.sink.try_write(slices), self.memory(), recycle)
    }
}

impl Drop for Conn {
    /// A slot is free again only when no shard can hold anything staged for it.
    fn drop(&mut self) {
        self.commons.slots.release(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection has one, with two counts in front of it: a class of sizes of the allocator.
    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Conn>() + 16 <= 448, "{}", size_of::<Conn>());
    }
}
