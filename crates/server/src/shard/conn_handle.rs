//! A connection as the other tasks of its shard reach it: a few flags and the waker of its task.

use super::link_codec::LinkLayers;
use super::secure::ConnTls;
use super::websocket::Outgoing;
use myelin_auth::{Identity, Reject};
use myelin_broker::Conn;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

/// The connections of a shard by client id.
pub(super) type Links = HashMap<u64, Rc<ConnHandle>>;

/// Something for a connection's task to do besides reading.
pub(super) enum ConnNotice {
    /// End with the reason that the connection holds.
    Kicked,
    /// The credentials were checked. Boxed: the task of an idle connection has room for a notice.
    Authenticated(Box<Result<Identity, Reject>>),
    /// Tell the client the new INFO.
    Announce,
    /// Tell this client to look for another server.
    AnnounceLameDuck,
    /// The broker's configuration was replaced.
    Refresh,
    /// The session's deadline has passed.
    Due,
    /// Something has come for a client that speaks MQTT.
    MqttInbox,
}

/// Layers between a connection's bytes and its socket, beside TLS.
pub(super) enum ConnLayers {
    None,
    /// Layers of a WebSocket.
    Frames(Arc<Outgoing>),
    /// Layers of a link, which may be both compressed and a WebSocket.
    OfLink(Arc<LinkLayers>),
}

/// Handle by which the other tasks of a shard reach a connection.
pub(super) struct ConnHandle {
    pub(super) conn: Arc<Conn>,
    pub(super) write: Arc<OwnedWriteHalf>,
    /// Where clients may speak TLS.
    pub(super) tls: Option<Arc<ConnTls>>,
    layers: ConnLayers,
    waker: RefCell<Option<Waker>>,
    kicked: Cell<bool>,
    announce: Cell<bool>,
    announce_lame_duck: Cell<bool>,
    refresh: Cell<bool>,
    due: Cell<bool>,
    mqtt_inbox: Cell<bool>,
    authenticated: RefCell<Option<Box<Result<Identity, Reject>>>>,
    ended: Notify,
    is_over: Cell<bool>,
    over: Notify,
}

impl ConnHandle {
    pub(super) fn new(
        conn: Arc<Conn>,
        write: Arc<OwnedWriteHalf>,
        tls: Option<Arc<ConnTls>>,
        layers: ConnLayers,
    ) -> Rc<Self> {
        Rc::new(Self {
            conn,
            write,
            tls,
            layers,
            waker: RefCell::default(),
            kicked: Cell::default(),
            announce: Cell::default(),
            announce_lame_duck: Cell::default(),
            refresh: Cell::default(),
            due: Cell::default(),
            mqtt_inbox: Cell::default(),
            authenticated: RefCell::default(),
            ended: Notify::new(),
            is_over: Cell::default(),
            over: Notify::new(),
        })
    }

    pub(super) fn kick(&self) {
        self.kicked.set(true);
        self.wake();
    }

    pub(super) fn announce(&self) {
        self.announce.set(true);
        self.wake();
    }

    pub(super) fn announce_lame_duck(&self) {
        self.announce_lame_duck.set(true);
        self.wake();
    }

    pub(super) fn refresh(&self) {
        self.refresh.set(true);
        self.wake();
    }

    pub(super) fn due(&self) {
        self.due.set(true);
        self.wake();
    }

    pub(super) fn mqtt_inbox(&self) {
        self.mqtt_inbox.set(true);
        self.wake();
    }

    pub(super) fn authenticated(&self, outcome: Result<Identity, Reject>) {
        *self.authenticated.borrow_mut() = Some(Box::new(outcome));
        self.wake();
    }

    /// Tells whoever waits for the socket that the connection is over.
    pub(super) fn end(&self) {
        self.ended.notify_one();
        self.is_over.set(true);
        self.over.notify_waiters();
    }

    /// Waits until the connection is over; unlike [`ended`](Self::ended), any number of tasks may.
    pub(super) async fn over(&self) {
        if !self.is_over.get() {
            self.over.notified().await;
        }
    }

    /// Waits for the end of the connection.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// The TLS, once the handshake is over.
    pub(super) fn secure(&self) -> Option<&ConnTls> {
        self.tls.as_deref().filter(|tls| tls.is_on())
    }

    /// Whether only this shard can write it.
    pub(super) fn is_written_by_owner(&self) -> bool {
        self.secure().is_some() || self.frames().is_some_and(|frames| frames.belong_to_owner())
    }

    /// Reads what the peer has sent, without encryption; nothing read is the end.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        read: &mut OwnedReadHalf,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.secure() {
            Some(tls) => tls.poll_read(cx, read, &self.write, into),
            None => Pin::new(read).poll_read(cx, into),
        }
    }

    /// The WebSocket, once there is one.
    pub(super) fn frames(&self) -> Option<&Arc<Outgoing>> {
        match &self.layers {
            ConnLayers::None => None,
            ConnLayers::Frames(frames) => Some(frames),
            ConnLayers::OfLink(layers) => layers.frames(),
        }
    }

    /// Writes what the peer takes now of frames, compressed as a link may be, and encrypted if it
    /// has to be.
    pub(super) fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let out = |bufs: &[IoSlice<'_>]| match self.secure() {
            Some(tls) => tls.try_write(&self.write, bufs),
            None => self.write.try_write_vectored(bufs),
        };
        match &self.layers {
            ConnLayers::OfLink(layers) => layers.pack(bufs, out),
            _ => out(bufs),
        }
    }

    /// Waits until someone asks for the end of the connection; other notices are kept.
    pub(super) async fn kicked(&self) {
        poll_fn(|cx| {
            self.remember(cx);
            if self.kicked.get() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    fn remember(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// The next notice; remembers the task that asks.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Option<ConnNotice> {
        self.remember(cx);
        // News before the end: a lame duck server says so before it closes.
        if self.announce.take() {
            return Some(ConnNotice::Announce);
        }
        if self.announce_lame_duck.take() {
            return Some(ConnNotice::AnnounceLameDuck);
        }
        if self.kicked.take() {
            return Some(ConnNotice::Kicked);
        }
        if let Some(outcome) = self.authenticated.borrow_mut().take() {
            return Some(ConnNotice::Authenticated(outcome));
        }
        if self.refresh.take() {
            return Some(ConnNotice::Refresh);
        }
        if self.mqtt_inbox.take() {
            return Some(ConnNotice::MqttInbox);
        }
        self.due.take().then_some(ConnNotice::Due)
    }
}
