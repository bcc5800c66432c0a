//! The handshake of a link for an internal account with a server of another cluster, which begins
//! as that of a gateway: INFO of who accepts, CONNECT and INFO of who has dialled. The INFO of who
//! has dialled names the account; from there on the link is as one within a cluster.

use super::{LinkPhase, LinkSession, Step};
use crate::peers::{LinkFacts, Mesh};
use crate::session::LinkSide;
use myelin_broker::{Broker, Conn};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::{PeerConnect, PeerInfo};
use std::sync::Arc;
use std::time::Instant;

impl LinkSession {
    /// Session of a link for which another cluster's server has said CONNECT to the gateway. Its
    /// INFO has to be [heard](Self::hear_foreign) next.
    pub(crate) fn open_foreign(
        mesh: &Arc<Mesh>,
        broker: &Arc<Broker>,
        conn: &Arc<Conn>,
        (cluster, key): (&str, &str),
        now: Instant,
    ) -> Self {
        let mut session = Self::open(mesh, broker, conn, LinkSide::Accepted, now);
        session.known.set_foreign(cluster);
        session.known.update(|facts| facts.key = Some(key.to_owned()).filter(|key| !key.is_empty()));
        session.state = LinkPhase::AwaitInfo;
        session
    }

    /// Hears the first INFO of a server of another cluster.
    pub(crate) fn hear_foreign(&mut self, info: &PeerInfo, now: Instant) -> Step {
        let config = self.mesh.config();
        let LinkFacts { account, url, did_solicit, .. } = self.known.facts();
        let cluster = self.known.foreign().cloned().unwrap_or_default();
        self.check_names(info)?;
        let is_sought = self.known.sought().is_none_or(|id| id == info.id);
        if info.gateway != cluster || info.id == config.info.id || !is_sought {
            self.known.update(|facts| facts.is_surplus = true);
            return Err(CloseReason::WrongGateway);
        }
        if info.domain != config.info.domain {
            // Each domain has a JetStream of its own.
            self.known.update(|facts| facts.is_surplus = true);
            return Err(CloseReason::RouteRemoved);
        }
        let account = if did_solicit { account } else { Some(info.route_account.clone()) };
        let Some(account) = account.filter(|account| config.is_internal(Some(account))) else {
            self.fail(format_args!("No route for account {:?}", info.route_account));
            return Err(CloseReason::ProtocolViolation);
        };
        if let (true, Some(url)) = (did_solicit, &url) {
            let Some((connect, own)) = self.mesh.greeting_foreign((&cluster, url), &account) else {
                return Err(CloseReason::ServerShutdown);
            };
            self.link.say(&connect.line());
            self.link.say(&own.line());
        }
        self.known.update(|facts| {
            facts.remote_id.clone_from(&info.id);
            facts.remote_name.clone_from(&info.name);
            facts.account = Some(account.clone());
        });
        let entered = self.mesh.enter_internal(&self.known, info, &account);
        self.begin_if_entered(entered, (info, Some(account)), now)
    }

    /// Whether the other server is one of another cluster.
    pub(super) fn is_foreign(&self) -> bool {
        self.known.foreign().is_some()
    }
}

impl Mesh {
    /// CONNECT and INFO for the gateway of a server of another cluster; `None` without a gateway.
    fn greeting_foreign(
        &self,
        (cluster, url): (&str, &crate::RouteUrl),
        account: &str,
    ) -> Option<(PeerConnect, PeerInfo)> {
        let gateways = self.gateways.get()?;
        let remote = gateways.remote(cluster);
        let known =
            remote.into_iter().flat_map(|remote| remote.urls()).find(|known| known.is_same_place(url));
        let connect = gateways.connect(known.and_then(|known| known.login));
        Some((connect, PeerInfo { route_account: account.to_owned(), ..gateways.info() }))
    }
}
