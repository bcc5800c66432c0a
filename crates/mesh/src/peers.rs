//! The servers that are known, and the links to each.
//!
//! A link is entered when its INFO has come. Two servers that dial each other at once make two
//! links for one place: the second is refused, and both ends remember that the first counts as
//! dialled, so that whoever is to dial again does.

use crate::config::{MeshConfig, RouteUrl};
pub use crate::facts::{DialCause, LinkFacts, ToldUrls};
use crate::gateway::Gateways;
use crate::gossip::{self, DialPlace, GossipDials, Making};
use crate::members::MemberLinks;
use myelin_broker::{Conn, LinkScope, LinkedPeer};
use myelin_stdx::sync::{lock, read_lock};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::{GossipMode, PeerInfo};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Arguments;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};

/// Largest pool that another server may have, unless this one's is larger: places take memory, and
/// each is dialled.
const LARGEST_POOL: usize = 1024;

/// A server to dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dial {
    /// Where.
    pub url: RouteUrl,
    /// The server is configured: it is dialled until it answers.
    pub is_explicit: bool,
    /// Reason, and with that the pause before the first attempt.
    pub cause: DialCause,
    /// The mode of the gossip that has told of it.
    pub mode: GossipMode,
    /// The account to which the link is to be dedicated.
    pub account: Option<String>,
    /// Place among the dials of gossip, of which there are only so many: given back when the dial
    /// has led to a link that has its place, or to nothing.
    pub place: Option<Arc<DialPlace>>,
    /// Id of the server, where the link is to be for an internal account: it is dialled as long as
    /// that server [wants](Mesh::is_wanted) one.
    pub server: Option<String>,
    /// Name of its cluster, where that is another one: its gateway is dialled.
    pub cluster: Option<String>,
}

/// Services that the cluster needs from the server around it.
pub trait MeshHost: Send + Sync {
    /// Dial a server, in the background.
    fn dial(&self, dial: Dial);

    /// Clients are to be told these addresses from now on, of this server and then of others: those
    /// of plain clients, and those of WebSockets. Answers whether that is news.
    fn advertise(&self, urls: Vec<String>, websocket_urls: Vec<String>) -> bool;

    /// Leaf nodes are to be told these addresses of the cluster's other servers from now on: those
    /// for leaf nodes, and those of their WebSockets.
    fn advertise_leaf_nodes(&self, urls: [Vec<String>; 2]);

    /// Spreads the accounts over so many links from now on, but for those with links of their own.
    fn spread(&self, pool_size: u32, dedicated: Vec<String>);

    /// The cluster has taken another name.
    fn renamed(&self, name: &str);

    /// Something is wrong that is of no link.
    fn complain(&self, line: Arguments<'_>);

    /// A link for an internal account to this server has its place, and may have taken that of one
    /// that there was: frames can be sent. Those that are sent before the other's interest has come
    /// are lost, as on any network. Called in the order of what happens, on a shard's thread and
    /// under a lock of the mesh: must be short, and call nothing of the mesh.
    fn peer_linked(&self, _: &LinkedPeer) {}

    /// A link of which [`peer_linked`](Self::peer_linked) has told has ended, and none has taken
    /// its place. Another link may lead to another life of the same store: compare with
    /// [`LinkedPeer::is_same_link`]. Called as that is.
    fn peer_unlinked(&self, _: &LinkedPeer) {}

    /// Another cluster has said, over a gateway, which of its servers take part in groups;
    /// `has_any`: some do. Called on a shard's thread; must be short.
    fn cluster_heard(&self, _cluster: &str, _has_any: bool) {}

    /// A route that is configured leads to this server itself.
    fn route_is_own(&self, _route: &RouteUrl) {}
}

/// One link, as the others know it.
pub struct LinkState {
    conn: Arc<Conn>,
    /// Id of the server for which it was dialled, if only for one.
    sought: Option<String>,
    /// Name of the other server's cluster, where that is another one.
    foreign: OnceLock<String>,
    facts: Mutex<LinkFacts>,
    /// Lines that wait to be told until this server has said who it is; `None` from then on.
    untold: Mutex<Option<Vec<u8>>>,
}

impl LinkState {
    pub(crate) fn new(conn: &Arc<Conn>, sought: Option<String>, facts: LinkFacts) -> Arc<Self> {
        let (foreign, facts) = (OnceLock::new(), Mutex::new(facts));
        let untold = Mutex::new(Some(Vec::new()));
        Arc::new(Self { conn: Arc::clone(conn), sought, foreign, facts, untold })
    }

    /// Tells the other side something, behind the INFO by which this server says who it is: the
    /// first INFO that comes is taken for that, whomever it is about.
    pub(crate) fn tell(&self, line: &[u8]) {
        let mut untold = lock(&self.untold);
        match &mut *untold {
            Some(untold) => untold.extend_from_slice(line),
            None => self.conn.say(line),
        }
    }

    /// Notes that this server has said who it is.
    pub(crate) fn is_introduced(&self) {
        let mut untold = lock(&self.untold);
        untold.take().iter().filter(|lines| !lines.is_empty()).for_each(|lines| self.conn.say(lines));
    }

    pub(crate) fn sought(&self) -> Option<&str> {
        self.sought.as_deref()
    }

    /// The connection.
    pub fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// Facts about the link, as they are now.
    pub fn facts(&self) -> LinkFacts {
        lock(&self.facts).clone()
    }

    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut LinkFacts) -> R) -> R {
        update(&mut lock(&self.facts))
    }

    /// The other server is of this cluster, which is another one.
    pub(crate) fn set_foreign(&self, cluster: &str) {
        let _ = self.foreign.set(cluster.to_owned());
    }

    /// Name of the other server's cluster, where that is another one.
    pub(crate) fn foreign(&self) -> Option<&String> {
        self.foreign.get()
    }

    pub(crate) fn has_no_pool(&self) -> bool {
        lock(&self.facts).has_no_pool
    }

    /// The link counts as one that was dialled to `url`.
    fn count_as_solicited(&self, url: Option<RouteUrl>, is_explicit: bool) {
        self.update(|facts| {
            if !facts.did_solicit || (is_explicit && !facts.is_explicit) {
                facts.url = url;
            }
            facts.did_solicit = true;
            facts.is_explicit |= is_explicit;
        });
    }
}

/// A link was entered: what is to be done with it.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) scope: LinkScope,
    /// Place in the pool to say in an INFO that was held back until now.
    pub(crate) place: usize,
    /// Links to dial once the first PONG has come.
    pub(crate) next: Vec<Dial>,
}

/// A link was not entered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is one already.
    Duplicate,
    /// The other side has said what makes no sense.
    Protocol(String),
}

/// The other servers of the cluster.
pub struct Mesh {
    pub(crate) config: RwLock<Arc<MeshConfig>>,
    pub(crate) host: Arc<dyn MeshHost>,
    state: Mutex<Servers>,
    /// Held while clients are told addresses: what is older must not come later.
    pub(crate) advertising: Mutex<()>,
    pub(crate) gossip_dials: Arc<GossipDials>,
    /// Dials for internal accounts.
    pub(crate) member_dials: Arc<GossipDials>,
    /// Held while a link for an internal account comes or goes and the server is told.
    pub(crate) telling: Mutex<()>,
    /// Links with other clusters, where there are any.
    pub(crate) gateways: OnceLock<Arc<Gateways>>,
}

pub(crate) struct Servers {
    pub(crate) cluster: String,
    pub(crate) is_dynamic: bool,
    /// Routes that a reload has taken away: nobody goes on dialling them.
    pub(crate) removed: Vec<RouteUrl>,
    pub(crate) is_stopping: bool,
    /// Clients are to go to other servers.
    pub(crate) is_lame_duck: bool,
    /// Clients, and those of WebSocket, have been told of other servers.
    pub(crate) has_named: [bool; 2],
    /// Addresses of this server itself for its clients, and for those of WebSocket.
    pub(crate) own_urls: [Vec<String>; 2],
    /// Links of pools by the other server's id and by place.
    pooled: BTreeMap<String, Vec<Option<Arc<LinkState>>>>,
    /// Links of accounts by account, then by the other server's id.
    pub(crate) dedicated: BTreeMap<String, BTreeMap<String, Arc<LinkState>>>,
    /// Links of internal accounts.
    pub(crate) internal: MemberLinks,
    /// Configured servers that have refused links for accounts, for they had no pool.
    without_pool: HashSet<RouteUrl>,
}

impl Mesh {
    /// A cluster of which no other server is known.
    pub fn new(config: MeshConfig, own_urls: [Vec<String>; 2], host: Arc<dyn MeshHost>) -> Arc<Self> {
        let state = Servers {
            cluster: config.info.cluster.clone(),
            is_dynamic: config.is_dynamic,
            removed: Vec::new(),
            is_stopping: false,
            is_lame_duck: false,
            has_named: [false; 2],
            own_urls,
            pooled: BTreeMap::new(),
            without_pool: HashSet::new(),
            internal: MemberLinks::default(),
            dedicated: config.dedicated.iter().map(|account| (account.clone(), BTreeMap::new())).collect(),
        };
        Arc::new(Self {
            config: RwLock::new(Arc::new(config)),
            host,
            state: Mutex::new(state),
            advertising: Mutex::default(),
            gossip_dials: Arc::default(),
            member_dials: Arc::default(),
            telling: Mutex::default(),
            gateways: OnceLock::new(),
        })
    }

    /// Configuration of the cluster, as it is now.
    pub fn config(&self) -> Arc<MeshConfig> {
        Arc::clone(&read_lock(&self.config))
    }

    pub(crate) fn host(&self) -> &dyn MeshHost {
        &*self.host
    }

    pub(crate) fn complain(&self, line: Arguments<'_>) {
        self.host.complain(line);
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, Servers> {
        lock(&self.state)
    }

    /// Dials all configured servers.
    pub fn solicit(&self) {
        self.dial_all(&self.config().routes);
    }

    /// Dials these configured servers.
    pub(crate) fn dial_all(&self, routes: &[RouteUrl]) {
        let config = self.config();
        let accounts = config.dedicated.iter().cloned().map(Some);
        let accounts = if config.is_pooled() { accounts.collect() } else { Vec::new() };
        for account in std::iter::once(None).chain(accounts) {
            for url in routes {
                self.host.dial(Dial {
                    url: url.clone(),
                    is_explicit: true,
                    cause: DialCause::New,
                    mode: GossipMode::Default,
                    account: account.clone(),
                    place: None,
                    server: None,
                    cluster: None,
                });
            }
        }
    }

    /// The server stops: no link is entered or dialled again.
    pub fn stop(&self) {
        self.state().is_stopping = true;
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        self.state().is_stopping
    }

    /// The cluster's name, and whether it was made up.
    pub fn cluster(&self) -> (String, bool) {
        let state = self.state();
        (state.cluster.clone(), state.is_dynamic)
    }

    /// All links with servers of the cluster that have a place.
    pub fn links(&self) -> Vec<Arc<LinkState>> {
        let state = self.state();
        let pooled = state.pooled.values().flatten().flatten();
        let dedicated = state.dedicated.values().flat_map(BTreeMap::values);
        pooled
            .chain(dedicated)
            .chain(state.internal.all().filter(|link| link.foreign().is_none()))
            .cloned()
            .collect()
    }

    /// Other servers to which there are links, by id and name.
    pub fn servers(&self) -> usize {
        self.state().pooled.len()
    }

    pub(crate) fn is_linked(&self, id: &str, account: Option<&str>) -> bool {
        let state = self.state();
        match account {
            None => state.pooled.contains_key(id),
            Some(account) => state.dedicated.get(account).is_some_and(|links| links.contains_key(id)),
        }
    }

    /// INFO for a new link.
    pub(crate) fn info(&self, place: usize, account: Option<&str>, mode: GossipMode) -> PeerInfo {
        let (cluster, cluster_dynamic) = self.cluster();
        let own = match self.config().advertises && !self.state().is_lame_duck {
            true => self.state().own_urls.clone(),
            false => Default::default(),
        };
        let [connect_urls, ws_connect_urls] = own;
        PeerInfo {
            cluster,
            cluster_dynamic,
            connect_urls,
            ws_connect_urls,
            route_pool_idx: place as i64,
            route_account: account.unwrap_or_default().to_owned(),
            gossip_mode: mode.number(),
            gateway_url: self
                .gateways
                .get()
                .map_or_else(String::new, |gateways| gateways.config().url.clone()),
            ..self.config().info.clone()
        }
    }

    /// Whether a server of a cluster of this name can be linked. This server's cluster takes the
    /// other's name if its own was made up and is the lesser one: links to all others end then.
    pub(crate) fn agrees(&self, name: &str, is_dynamic: bool, remote_id: &str) -> bool {
        let others = {
            let mut state = self.state();
            if state.cluster == name {
                return true;
            }
            if !state.is_dynamic || (is_dynamic && *state.cluster >= *name) {
                return false;
            }
            name.clone_into(&mut state.cluster);
            state.is_dynamic = is_dynamic;
            let others = state.pooled.iter().filter(|(id, _)| *id != remote_id);
            let others = others.flat_map(|(_, links)| links.iter().flatten());
            let dedicated = state.dedicated.values().flatten();
            let dedicated = dedicated.filter(|(id, _)| *id != remote_id).map(|(_, link)| link);
            let internal = state.internal.all().filter(|link| link.foreign().is_none());
            let internal = internal.filter(|link| link.facts().remote_id != remote_id);
            others.chain(dedicated).chain(internal).cloned().collect::<Vec<_>>()
        };
        self.host.renamed(name);
        others.iter().for_each(|link| link.conn.close(CloseReason::ClusterNameConflict));
        true
    }

    /// Enters a link whose INFO has come.
    pub(crate) fn enter(
        &self,
        link: &Arc<LinkState>,
        mut info: PeerInfo,
        making: Making,
    ) -> Result<Entered, Refused> {
        let facts = link.facts();
        gossip::complete(&mut info, link.conn.peer().ip());
        let own_pool = self.config().pool_size as usize;
        let pool = usize::try_from(info.route_pool_size).unwrap_or(0);
        let size = own_pool.max(pool);
        let is_pooled = own_pool > 0 && pool > 0;
        let account = facts.account.as_deref();
        if let Some(account) = account.filter(|account| self.config().is_internal(Some(account))) {
            return self.enter_internal(link, &info, account);
        }
        self.check(&info, (is_pooled, size), making, account, link)?;
        let outcome = match account {
            Some(account) => self.enter_dedicated(link, &info, account),
            None if is_pooled => self.enter_pool(link, &info, size, making),
            None => self.enter_alone(link, &info, making),
        };
        let (mut entered, is_first) = outcome?;
        if account.is_none() {
            entered.next.extend(self.hear_of_part(link, &info));
        }
        if is_first {
            self.spread(&info, making, link);
            if account.is_none() {
                self.note_gateway_url(&info.id);
                self.advertise();
            }
            if is_pooled && making.did_solicit {
                self.dial_refused(facts.url, making);
            }
        }
        Ok(entered)
    }

    /// Dials the links for accounts that a server refused as long as it had no pool.
    fn dial_refused(&self, url: Option<RouteUrl>, making: Making) {
        let Some(url) = url else { return };
        let accounts: Vec<_> = {
            let mut state = self.state();
            let had_none = state.without_pool.remove(&url);
            state.dedicated.keys().filter(|_| had_none).cloned().collect()
        };
        for account in accounts {
            self.host.dial(Dial {
                url: url.clone(),
                is_explicit: making.is_explicit,
                cause: DialCause::New,
                mode: making.mode,
                account: Some(account),
                place: None,
                server: None,
                cluster: None,
            });
        }
    }

    fn check(
        &self,
        info: &PeerInfo,
        (is_pooled, size): (bool, usize),
        making: Making,
        account: Option<&str>,
        link: &LinkState,
    ) -> Result<(), Refused> {
        let place = info.route_pool_idx;
        let largest = LARGEST_POOL.max(self.config().pool_size as usize);
        let complaint = match account {
            _ if size > largest => {
                format!("Invalid route pool size: {} - the maximum is {largest}", info.route_pool_size)
            }
            Some(account) if !is_pooled => {
                link.update(|facts| facts.is_surplus = true);
                self.state().without_pool.extend(link.facts().url.filter(|_| making.is_explicit));
                format!(
                    "Not possible to have a dedicated route for account {account:?} between those servers"
                )
            }
            _ if !is_pooled => return Ok(()),
            _ if making.did_solicit && place != 0 => {
                format!("Route pool index should not be set but is set to {place}")
            }
            _ if !making.did_solicit && (place < 0 || place >= size as i64) => {
                format!("Invalid route pool index: {place} - pool size is {}", info.route_pool_size)
            }
            _ => return Ok(()),
        };
        Err(Refused::Protocol(complaint))
    }

    fn enter_dedicated(
        &self,
        link: &Arc<LinkState>,
        info: &PeerInfo,
        account: &str,
    ) -> Result<(Entered, bool), Refused> {
        let mut state = self.state();
        if state.is_stopping {
            return Err(Refused::Duplicate);
        }
        let Some(links) = state.dedicated.get_mut(account) else {
            link.update(|facts| facts.is_surplus = true);
            return Err(Refused::Protocol(format!("No route for account {account:?}")));
        };
        if let Some(other) = links.get(&info.id) {
            give_way(link, Some(other), true);
            return Err(Refused::Duplicate);
        }
        links.insert(info.id.clone(), Arc::clone(link));
        let scope = LinkScope::Dedicated(account.to_owned());
        Ok((Entered { scope, place: 0, next: Vec::new() }, links.len() > 1))
    }

    /// A place in the pool: the one that the other side has chosen, or the first that is free.
    fn enter_pool(
        &self,
        link: &Arc<LinkState>,
        info: &PeerInfo,
        size: usize,
        making: Making,
    ) -> Result<(Entered, bool), Refused> {
        let mut state = self.state();
        if state.is_stopping {
            return Err(Refused::Duplicate);
        }
        let facts = link.facts();
        let links = state.pooled.entry(info.id.clone()).or_default();
        if links.len() < size {
            links.resize(size, None);
        }
        let place = if making.did_solicit {
            links.iter().flatten().for_each(|other| {
                other.count_as_solicited(facts.url.clone(), facts.is_explicit);
            });
            links.iter().position(Option::is_none)
        } else {
            let wanted = info.route_pool_idx as usize;
            if let Some(other) = &links[wanted] {
                give_way(link, Some(other), false);
                return Err(Refused::Duplicate);
            }
            let mut solicited = links.iter().flatten().map(|other| other.facts());
            if let Some(other) = solicited.find(|other| other.did_solicit) {
                link.count_as_solicited(other.url, other.is_explicit);
            }
            Some(wanted)
        };
        let Some(place) = place else {
            give_way(link, None, true);
            return Err(Refused::Duplicate);
        };
        links[place] = Some(Arc::clone(link));
        let count = links.iter().flatten().count();
        link.update(|facts| {
            facts.place = Some(place);
            facts.urls = ToldUrls::of(info);
        });
        let next = facts.url.filter(|_| making.did_solicit && count < size).map(|url| Dial {
            url,
            is_explicit: facts.is_explicit,
            cause: DialCause::New,
            mode: making.mode,
            account: None,
            place: None,
            server: None,
            cluster: None,
        });
        let next = next.into_iter().collect();
        let entered = Entered { scope: LinkScope::Pooled(place as u32), place, next };
        Ok((entered, count == 1))
    }

    /// The only link to a server without a pool.
    fn enter_alone(
        &self,
        link: &Arc<LinkState>,
        info: &PeerInfo,
        making: Making,
    ) -> Result<(Entered, bool), Refused> {
        let mut state = self.state();
        if state.is_stopping {
            return Err(Refused::Duplicate);
        }
        link.update(|facts| facts.has_no_pool = true);
        if let Some(other) = state.pooled.get(&info.id).and_then(|links| links.iter().flatten().next()) {
            give_way(link, Some(other), making.did_solicit);
            return Err(Refused::Duplicate);
        }
        state.pooled.insert(info.id.clone(), vec![Some(Arc::clone(link))]);
        link.update(|facts| {
            facts.place = Some(0);
            facts.urls = ToldUrls::of(info);
        });
        Ok((Entered { scope: LinkScope::All, place: 0, next: Vec::new() }, true))
    }

    /// Tells the servers that are known of a new one.
    fn spread(&self, info: &PeerInfo, making: Making, link: &Arc<LinkState>) {
        if !gossip::is_news(making, info) {
            return;
        }
        let account = link.facts().account;
        let others: Vec<_> = {
            let state = self.state();
            let own = account.as_ref().and_then(|account| state.dedicated.get(account));
            let own: BTreeMap<_, _> = own.into_iter().flatten().collect();
            let first = |links: &Vec<Option<Arc<LinkState>>>| links.iter().flatten().next().cloned();
            let pooled = state.pooled.iter().filter(|(id, _)| !own.contains_key(id));
            let pooled = pooled.filter_map(|(id, links)| Some((id.clone(), first(links)?)));
            let own = own.iter().map(|(id, link)| ((*id).clone(), Arc::clone(link)));
            own.chain(pooled).filter(|(id, _)| *id != info.id).map(|(_, link)| link).collect()
        };
        for other in others {
            let facts = other.facts();
            if account.is_some() && facts.has_no_pool {
                continue;
            }
            let mode = gossip::mode_for(making, facts.is_explicit);
            let gossip_mode = mode.number();
            let told = PeerInfo { nonce: String::new(), gossip_mode, myelin: None, ..info.clone() };
            other.tell(&told.line());
        }
    }

    /// A link has ended: its place is free, and it is dialled again if that is this server's part.
    pub(crate) fn leave(&self, link: &Arc<LinkState>) {
        let facts = link.facts();
        if let Some(account) = &facts.account
            && self.config().is_internal(Some(account))
        {
            return self.leave_internal(link, account);
        }
        let (was_last, is_stopping) = {
            let mut state = self.state();
            (state.remove(link, &facts), state.is_stopping)
        };
        if was_last {
            self.note_gateway_url(&facts.remote_id);
            self.advertise();
        }
        let is_own = facts.remote_id == self.config().info.id;
        if is_stopping || facts.is_surplus || is_own || !(facts.did_solicit || facts.retries) {
            return;
        }
        if let Some(url) = facts.url {
            let (is_explicit, account) = (facts.is_explicit, facts.account);
            let mode = GossipMode::Default;
            let (cause, place, server, cluster) =
                (DialCause::after(link.conn().close_requested()), None, None, None);
            self.host.dial(Dial { url, is_explicit, cause, mode, account, place, server, cluster });
        }
    }
}

impl Servers {
    /// Frees the place of a link; answers whether it was the last of its server's pool.
    fn remove(&mut self, link: &Arc<LinkState>, facts: &LinkFacts) -> bool {
        if let Some(account) = &facts.account {
            if let Some(links) = self.dedicated.get_mut(account)
                && links.get(&facts.remote_id).is_some_and(|other| Arc::ptr_eq(other, link))
            {
                links.remove(&facts.remote_id);
            }
            return false;
        }
        let (Some(place), Some(links)) = (facts.place, self.pooled.get_mut(&facts.remote_id)) else {
            return false;
        };
        match links.get_mut(place) {
            Some(slot) if slot.as_ref().is_some_and(|other| Arc::ptr_eq(other, link)) => *slot = None,
            _ => return false,
        }
        let is_last = links.iter().all(Option::is_none);
        if is_last {
            self.pooled.remove(&facts.remote_id);
            self.internal.forget(&facts.remote_id);
        }
        is_last
    }
}

/// A link is refused because there is `other`, which counts as dialled if the refused one was.
fn give_way(link: &LinkState, other: Option<&Arc<LinkState>>, is_surplus: bool) {
    let facts = link.update(|facts| {
        facts.is_surplus |= is_surplus;
        facts.clone()
    });
    if let Some(other) = other {
        if facts.did_solicit {
            other.count_as_solicited(facts.url, facts.is_explicit);
        }
        other.update(|other| {
            other.is_explicit |= facts.is_explicit;
            // Each side may have entered the link that the other refuses.
            other.retries = true;
        });
    }
}
