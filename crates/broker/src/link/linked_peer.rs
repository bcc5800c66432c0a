//! Another server at the other end of a link for an internal account, as whoever sends to it knows
//! it.

use crate::conn::Conn;
use std::fmt;
use std::sync::Arc;

/// A server, of this cluster or another one, to which there is a link for an internal account.
/// Cheap to clone, and may be asked on any thread.
#[derive(Clone)]
pub struct LinkedPeer {
    conn: Arc<Conn>,
    said: Arc<SaidPeer>,
}

/// A server, as it has said of itself when its link began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidPeer {
    /// The internal account of the link.
    pub account: String,
    /// Name of the server.
    pub name: String,
    /// Name of its cluster, at the time.
    pub cluster: String,
    /// Whether that is another one than this server's, which may be called differently by now.
    pub is_foreign: bool,
    /// Id of the server, another one in each of its lives.
    pub id: String,
    /// Id of its store.
    pub store: String,
    /// Number of the life of that store.
    pub incarnation: u64,
}

/// Hears which servers are linked for internal accounts. Told on shards' threads, in the order of
/// what happens; must not wait.
pub trait PeerObserver: Send + Sync {
    /// A link to this server for an account has its place. It may take that of one that there was,
    /// and frames that are sent before the other's interest has come are lost.
    fn peer_linked(&self, peer: &LinkedPeer);

    /// A link that was told of has ended, and none has taken its place. Another one may lead to
    /// another life of the same store, and be told of before: compare with
    /// [`LinkedPeer::is_same_link`].
    fn peer_unlinked(&self, peer: &LinkedPeer);

    /// Another cluster has said, over a gateway, which of its servers take part; `has_any`: some
    /// do.
    fn cluster_heard(&self, _cluster: &str, _has_any: bool) {}

    /// A route that is configured leads to this server itself, as was found when it was dialled.
    fn route_is_own(&self, _host: &str, _port: u16) {}
}

impl LinkedPeer {
    /// The server at the other end of `conn`.
    pub fn new(conn: &Arc<Conn>, said: SaidPeer) -> Self {
        Self { conn: Arc::clone(conn), said: Arc::new(said) }
    }

    /// The server, as it has said of itself.
    pub fn said(&self) -> &SaidPeer {
        &self.said
    }

    /// Bytes that wait for the server's socket, of all that was flushed. Nothing bounds them: a
    /// link to a server of the cluster is not ended for what waits, so whoever sends has to ask
    /// before. Costs one load.
    pub fn waiting(&self) -> usize {
        self.conn.pending()
    }

    /// Whether the link has not begun to end. What is sent over one that has is lost.
    pub fn is_open(&self) -> bool {
        self.conn.close_requested().is_none()
    }

    /// Whether both stand for the same link, and not for two to the same server.
    pub fn is_same_link(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.conn, &other.conn)
    }
}

impl fmt::Debug for LinkedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cid = self.conn.cid();
        f.debug_struct("LinkedPeer").field("cid", &cid).field("said", &self.said).finish()
    }
}
