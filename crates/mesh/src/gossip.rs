//! Gossip: a server tells those that it knows of one that is new to it, and they dial it.
//!
//! INFO of the new server is passed on, with the address under which it was met. How those who hear
//! of it may tell others in turn is said with it: a link that came of gossip is no news, unless it
//! reached over an explicit one, behind which others may be who have not heard.

use crate::config::{MeshConfig, RouteUrl};
use crate::members::is_name_of_internal;
use crate::peers::{Dial, DialCause, LinkState, Mesh};
use myelin_stdx::sync::lock;
use myelin_wire::peer::info::{GossipMode, PeerInfo};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Dials that gossip may have under way: a server that has gone mad must not make this one open
/// sockets without end. A cluster of a hundred servers with 40 dedicated accounts needs as many at
/// once.
pub(crate) const MOST_DIALS: usize = 4096;

/// Dials that gossip has brought about and that have led to nothing yet, by address and account; or
/// those to servers that take part in groups, by id and account.
#[derive(Debug, Default)]
pub(crate) struct GossipDials(Mutex<HashSet<(String, Option<String>)>>);

/// Place among the dials of gossip.
#[derive(Debug)]
pub struct DialPlace {
    dials: Arc<GossipDials>,
    key: (String, Option<String>),
}

impl PartialEq for DialPlace {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for DialPlace {}

impl Drop for DialPlace {
    fn drop(&mut self) {
        lock(&self.dials.0).remove(&self.key);
    }
}

/// Why gossip is not followed.
enum NotDialled {
    /// A dial that is under way.
    Already,
    TooMany,
}

impl GossipDials {
    /// Takes the place of a dial to the server of this id; `None` while there is one.
    pub(crate) fn begin(self: &Arc<Self>, id: &str, account: &str) -> Option<Arc<DialPlace>> {
        self.enter((id.to_owned(), Some(account.to_owned()))).ok().map(Arc::new)
    }

    fn enter(self: &Arc<Self>, key: (String, Option<String>)) -> Result<DialPlace, NotDialled> {
        let mut dials = lock(&self.0);
        if dials.contains(&key) {
            return Err(NotDialled::Already);
        }
        if dials.len() >= MOST_DIALS {
            return Err(NotDialled::TooMany);
        }
        dials.insert(key.clone());
        Ok(DialPlace { dials: Arc::clone(self), key })
    }
}

/// How a link came to be, as far as gossip depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making {
    pub(crate) did_solicit: bool,
    pub(crate) is_explicit: bool,
    /// The mode that came with the gossip of which the link was made.
    pub(crate) mode: GossipMode,
}

/// Whether a new link is to be told of to others.
pub(crate) fn is_news(making: Making, info: &PeerInfo) -> bool {
    let is_of_gossip = making.did_solicit && !making.is_explicit;
    let may = !is_of_gossip || making.mode == GossipMode::Override;
    may && GossipMode::from_number(info.gossip_mode) != GossipMode::Disabled
}

/// The mode in which a link is told of to another, which is explicit or not.
pub(crate) fn mode_for(making: Making, is_other_explicit: bool) -> GossipMode {
    match (making.did_solicit, making.is_explicit) {
        (true, true) => GossipMode::Override,
        (false, _) if is_other_explicit => GossipMode::Override,
        (false, _) => GossipMode::Disabled,
        (true, false) => GossipMode::Default,
    }
}

/// The address under which others can reach a server that was met at `peer`.
pub(crate) fn complete(info: &mut PeerInfo, peer: IpAddr) {
    if info.ip.is_empty() {
        let port = u16::try_from(info.port).unwrap_or(0);
        let url = RouteUrl { host: peer.to_string(), port, login: None };
        info.ip = format!("nats-route://{}/", url.address());
    }
}

impl MeshConfig {
    /// Whether the server of this INFO is one of those that are configured.
    fn has_configured(&self, info: &PeerInfo) -> bool {
        let port = u16::try_from(info.port).unwrap_or(0);
        let said = RouteUrl { host: info.host.clone(), port, login: None };
        let met = RouteUrl::of_gossip(&info.ip).map(|url| RouteUrl { port, ..url });
        let is = |route: &RouteUrl| {
            route.is_same_place(&said) || met.as_ref().is_some_and(|met| route.is_same_place(met))
        };
        self.routes.iter().any(is)
    }
}

impl Mesh {
    /// Another server has told of a third one: it is dialled, unless it is known.
    pub(crate) fn heard_of(&self, info: &PeerInfo, from: &Arc<LinkState>) {
        let config = self.config();
        let account = Some(info.route_account.clone()).filter(|account| !account.is_empty());
        let is_known = info.id == config.info.id
            || account.as_deref().is_some_and(is_name_of_internal)
            || account.is_some() && !config.is_pooled()
            || self.is_linked(&info.id, account.as_deref())
            || config.has_configured(info);
        if is_known {
            return;
        }
        let Some(mut url) = RouteUrl::of_gossip(&info.ip) else {
            self.complain(format_args!("Error parsing URL from INFO: {:?}", info.ip));
            return;
        };
        if info.auth_required {
            url.login = config.login.as_ref().map(|login| (login.user.clone(), login.own.clone()));
        }
        let mode = GossipMode::from_number(info.gossip_mode);
        let dial = Dial {
            url,
            is_explicit: false,
            cause: DialCause::New,
            mode,
            account,
            place: None,
            server: None,
            cluster: None,
        };
        // Of a server without a pool nobody hears which accounts have their own links.
        let is_silent = from.has_no_pool() && dial.account.is_none();
        if is_silent {
            for account in &config.dedicated {
                self.follow(Dial { account: Some(account.clone()), ..dial.clone() });
            }
        }
        self.follow(dial);
    }

    /// Dials a server that another has told of, unless that is under way.
    fn follow(&self, dial: Dial) {
        match self.gossip_dials.enter((dial.url.address(), dial.account.clone())) {
            Ok(place) => self.host().dial(Dial { place: Some(Arc::new(place)), ..dial }),
            Err(NotDialled::Already) => {}
            Err(NotDialled::TooMany) => self.complain(format_args!(
                "Not dialling route {:?}: {MOST_DIALS} routes that others tell of are being dialled",
                dial.url.redacted()
            )),
        }
    }
}
