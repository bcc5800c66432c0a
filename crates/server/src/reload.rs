//! Reload (SIGHUP): the configuration file is read again and takes effect, all of it or nothing.
//!
//! First everything that can fail: reading, comparing, the rules of authentication, the new log.
//! Then what cannot: limits, accounts, files, and every session looks at itself. Which options may
//! change is `conf`'s to say (`conf/src/reload.rs`).
//!
//! What others need of the configuration in force hangs behind one pointer each that a reload
//! swaps: `Settings` and `Directory` (rules of authentication with their accounts) in the broker,
//! what pages show in `Monitor`, the certificates in `tls::Current`. Shards keep a copy of the
//! settings, so the data path reads no pointer.

use crate::gateway::{GatewayOffers, RunningGateways};
use crate::leaf::{self, HubChecks, LeafParts, PreparedLeafNodes, RunningLeafNodes};
use crate::lifecycle::Server;
use crate::mqtt::{self, MqttListening};
use crate::service_manager::{self, ServiceState};
use crate::shard::Mail;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{ClientOffer, LeafOffer, LinkOffer, TlsTerms};
use crate::websocket::{Listening, Security};
use crate::{cluster, gateway, lifecycle, ocsp, pidfile, ports, setup};
use myelin_auth::ConnectionType;
use myelin_broker::{Conn, StagedAuthAndAccounts};
use myelin_conf::options::{AuthorizationOptions, ClusterOptions, Options};
use myelin_conf::{BoundPorts, LoadError, Loaded, NotReloadable};
use myelin_mesh::MeshConfig;
use myelin_wire::error::CloseReason;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Reads command line and configuration file again.
pub type ReadAgain<'r> = &'r dyn Fn() -> Result<Loaded, LoadError>;

/// Public keys that servers of other clusters may have; none for any.
fn gateway_pins(options: &Options) -> BTreeSet<String> {
    options.gateway.tls.as_ref().map(|tls| tls.pinned_certs.clone()).unwrap_or_default()
}

/// TLS that new connections are offered, with the proofs that belong to it.
struct NewTls {
    clients: Option<ClientOffer>,
    /// With what the operator should know.
    websocket: Option<(Security, Vec<String>)>,
    mqtt: Option<ClientOffer>,
    monitoring: Option<TlsTerms>,
    proofs: ocsp::StagedOcsp,
    links: Option<LinkOffer>,
    gateways: GatewayOffers,
    leaf_nodes: Option<LeafOffer>,
}

/// A cluster that is ready to take effect.
struct StagedCluster {
    config: MeshConfig,
    offer: Option<LinkOffer>,
    /// Public keys that links may have, where these are others now.
    pins: Option<BTreeSet<String>>,
    name: Option<String>,
    lines: Vec<String>,
}

/// Leaf nodes and hubs that are ready to take effect; `begun`: in a server that has had none.
struct StagedLeafNodes {
    begun: Option<RunningLeafNodes>,
    prepared: PreparedLeafNodes,
}

impl Server {
    /// Takes over the configuration that `read` finds, or logs why it cannot.
    ///
    /// # Errors
    /// When the configuration cannot be read or taken over, with the reason, which is also logged.
    pub(crate) fn reload(&mut self, read: ReadAgain<'_>) -> Result<(), String> {
        service_manager::tell(ServiceState::Reloading);
        let reloaded = supervise::guard(SupervisedPart::Reload, || self.try_reload(read));
        service_manager::tell(ServiceState::Ready);
        let reloaded = reloaded.unwrap_or_else(|| Err("it ended in a panic".to_owned()));
        reloaded.inspect_err(|error| {
            self.log.error(format_args!("Failed to reload server configuration: {error}"));
        })
    }

    fn try_reload(&mut self, read: ReadAgain<'_>) -> Result<(), String> {
        if self.loaded.config_file.is_none() {
            return Err("can only reload config when a file is provided using -c or --config".to_owned());
        }
        let loaded = read().map_err(|error| error.reason())?;
        let bound = BoundPorts {
            client: self.addresses.client.port(),
            websocket: self.addresses.websocket.map(|address| address.port()),
            mqtt: self.others.mqtt.as_ref().map(|listening| listening.address.port()),
            cluster: self.cluster.as_ref().map(|cluster| cluster.address.port()),
            leaf: self.leaf_nodes.as_ref().and_then(|leafs| leafs.address).map(|address| address.port()),
        };
        let lines = myelin_conf::changes(&self.loaded.options, &loaded.options, bound)
            .map_err(|error| error.to_string())?;
        if self.jetstream.as_ref().is_some_and(|running| running.requires_restart(&loaded.options)) {
            let moved = NotReloadable::Change("jetstream storage directory");
            return Err(moved.to_string());
        }
        let directory = self.directory(&loaded.options)?;
        let mut tls = self.tls(&loaded.options)?;
        let cluster = self.stage_cluster(&loaded.options, tls.links.take())?;
        let leaf_nodes = self.stage_leaf_nodes(&loaded.options, &tls.proofs.hubs)?;
        let gateways = std::mem::take(&mut tls.gateways);
        let pinned_before = gateway_pins(&self.loaded.options);
        let advertised = lifecycle::advertised(&loaded.options, self.addresses.client.port())
            .map_err(|(value, error)| format!("invalid ClientAdvertise value of {value}, err={error}"))?;
        let log = lifecycle::log_config(&loaded.options);
        if log != lifecycle::log_config(&self.loaded.options) {
            self.log.reconfigure(&log).map_err(|error| error.to_string())?;
        }
        loaded.warnings.iter().for_each(|warning| self.log.warn(warning));
        self.broker.update_info(|info| (info.host, info.port) = advertised);
        let pins_before = self.pins();
        self.apply(loaded, directory, tls);
        self.apply_cluster(cluster);
        lines.iter().for_each(|line| self.log.info(line));
        self.apply_jetstream_options();
        let digest = self.loaded.config_digest.as_deref().unwrap_or_default();
        self.log.info(format_args!("Reloaded server configuration ({digest})"));
        if self.pins() != pins_before {
            self.recheck_pinned();
        }
        self.apply_leaf_nodes(leaf_nodes);
        if let Some(running) = &self.gateways {
            let pinned = gateway_pins(&self.loaded.options);
            running.reload(gateways, (pinned != pinned_before).then_some(&pinned));
        }
        self.shards.iter().for_each(|shard| shard.mailbox.post(Mail::Refresh));
        Ok(())
    }

    /// The new rules of authentication and accounts, if they are new: nobody is checked again for
    /// nothing.
    fn directory(&self, new: &Options) -> Result<Option<StagedAuthAndAccounts>, String> {
        let old = &self.loaded.options;
        let timeout = old.authorization.timeout;
        let same_rules = old.authorization == AuthorizationOptions { timeout, ..new.authorization.clone() };
        let maps = |options: &Options| options.tls.as_ref().is_some_and(|tls| tls.verify_and_map);
        let same_operators = old.operators == new.operators && old.resolver == new.resolver;
        let same_proxies = old.proxies == new.proxies;
        if same_rules
            && same_operators
            && same_proxies
            && old.accounts == new.accounts
            && maps(old) == maps(new)
        {
            return Ok(None);
        }
        let auth = setup::auth(new).map_err(|error| error.to_string())?;
        if let (Some(trust), Some(earlier)) = (auth.trust(), self.broker.auth().trust()) {
            trust.take_over(earlier);
        }
        let accounts = setup::accounts(new).map_err(|error| error.to_string())?;
        let next = self.broker.stage_auth_and_accounts(auth, &accounts);
        next.map(Some).map_err(|error| error.to_string())
    }

    /// Reads the TLS that new connections are offered: the files may be others although the blocks
    /// are equal.
    fn tls(&self, new: &Options) -> Result<NewTls, String> {
        let mut clients = ClientOffer::of(new)?;
        let mut websocket = Security::of(new)?;
        let mut mqtt = mqtt::offer(new)?;
        let mut links = lifecycle::link_offer(new)?;
        let mut gateways = gateway::offers(new)?;
        let mut leaf_nodes = LeafOffer::of(&new.leaf_nodes)?;
        let of_links = self.cluster.as_ref().and_then(|cluster| cluster.tls.get());
        let of_links = of_links.map(|offer| Arc::clone(&offer.terms.staple));
        let listeners = [
            ocsp::TlsListener::of(
                new.tls.as_ref(),
                clients.as_mut().map(|offer| &mut offer.terms),
                self.client_tls.get().map(|offer| Arc::clone(&offer.terms.staple)),
            ),
            ocsp::TlsListener::of(
                new.websocket.tls.as_ref(),
                websocket.as_mut().map(|(security, _)| &mut security.terms),
                self.others.websocket.as_ref().and_then(Listening::staple),
            ),
            ocsp::TlsListener::of(
                new.mqtt.tls.as_ref(),
                mqtt.as_mut().map(|offer| &mut offer.terms),
                self.others.mqtt.as_ref().and_then(MqttListening::staple),
            ),
            links.as_mut().map(|offer| ocsp::TlsListener::of_links(offer, of_links)),
            ocsp::TlsListener::of_leaf_nodes(new.leaf_nodes.tls.as_ref(), leaf_nodes.as_mut()),
        ];
        let of_gateways = self.gateways.as_ref().and_then(RunningGateways::staple);
        let listeners = listeners.into_iter().flatten().chain(gateways.listeners(of_gateways));
        let proofs = self.ocsp.prepare(new, listeners)?;
        let monitoring = lifecycle::monitor_terms(new, clients.as_ref())?;
        Ok(NewTls { clients, websocket, mqtt, monitoring, proofs, links, gateways, leaf_nodes })
    }

    /// The public keys that clients may have; none for any.
    fn pins(&self) -> BTreeSet<String> {
        self.loaded.options.tls.as_ref().map(|tls| tls.pinned_certs.clone()).unwrap_or_default()
    }

    /// Ends the clients whose keys are no longer among those that are pinned. Compat: also those
    /// without TLS, but none of WebSocket and MQTT, whose listeners have pins of their own.
    fn recheck_pinned(&self) {
        let pins = self.pins();
        let is_pinned = |conn: &Conn| {
            conn.with_details(|details| {
                let shown = details.tls.as_ref().and_then(|tls| tls.peer_certs.first());
                shown.is_some_and(|cert| pins.contains(&cert.spki_sha256))
            })
        };
        if pins.is_empty() {
            return;
        }
        let mut strangers = self.broker.connections();
        strangers.retain(|conn| conn.via() == ConnectionType::Standard && !is_pinned(conn));
        if !strangers.is_empty() {
            self.log.info(format_args!("Disconnect {} clients due to pinned certs reload", strangers.len()));
            strangers.iter().for_each(|conn| conn.close(CloseReason::TlsHandshake));
        }
    }

    fn set_tls(&mut self, new: NewTls) {
        let NewTls { clients, websocket, mqtt, monitoring, proofs, links: _, gateways: _, leaf_nodes } = new;
        if let Some(running) = &self.leaf_nodes {
            running.tls.set(leaf_nodes);
        }
        if let Some(complaint) = &proofs.complaint {
            self.log.warn(format_args!("Can't restart OCSP features: {complaint}"));
        }
        self.ocsp.take_effect(proofs);
        self.broker.update_info(|info| ClientOffer::advertise(clients.as_ref(), info));
        clients.iter().filter_map(|offer| offer.note.as_ref()).for_each(|note| self.log.warn(note));
        self.client_tls.set(clients);
        if let (Some(listening), Some((security, notes))) = (&self.others.websocket, websocket) {
            notes.iter().for_each(|note| self.log.warn(note));
            listening.set_security(security);
        }
        if let Some(listening) = &self.others.mqtt {
            mqtt.iter().filter_map(|offer| offer.note.as_ref()).for_each(|note| self.log.warn(note));
            listening.set_offer(mqtt);
        }
        if let (Some(current), Some(terms)) = (&self.monitor_tls, monitoring) {
            current.set(terms);
        }
    }

    fn apply(&mut self, loaded: Loaded, directory: Option<StagedAuthAndAccounts>, tls: NewTls) {
        self.set_tls(tls);
        let (old, new) = (&self.loaded.options, &loaded.options);
        self.broker.set_settings(setup::settings(new));
        self.broker.set_mqtt_storage(setup::mqtt_storage(new));
        self.broker.set_labels(setup::labels(new));
        if let Some(next) = directory {
            self.broker.set_auth_and_accounts(next);
        }
        self.rename_cluster(new);
        setup::check_callout(new).iter().for_each(|complaint| self.log.error(complaint));
        self.broker.update_info(|info| info.max_payload = new.limits.max_payload);
        if new.limits.max_connections < old.limits.max_connections {
            let closed = self.broker.shed(new.limits.max_connections as usize);
            if closed > 0 {
                self.log.info(format_args!("Closed {closed} connections to fall within max_connections"));
            }
        }
        let pid_file_moves = new.server.pid_file != old.server.pid_file;
        let ports_file_moves = new.server.ports_file_dir != old.server.ports_file_dir;
        if let Some(resolver) = &self.resolver {
            resolver.reload(&loaded.options, &self.broker, &self.log);
        }
        self.monitor.replace(&loaded);
        self.follow_configuration();
        self.loaded = loaded;
        if pid_file_moves {
            self.write_pid_file();
        }
        if ports_file_moves {
            self.addresses.ports_file.take().iter().for_each(|path| ports::remove(path));
            self.write_ports_file();
        }
    }

    /// The cluster as new options have it, and what the log says of it.
    fn stage_cluster(
        &self,
        new: &Options,
        offer: Option<LinkOffer>,
    ) -> Result<Option<StagedCluster>, String> {
        let Some(running) = &self.cluster else { return Ok(None) };
        let config =
            running.prepare(new, &self.broker, self.leaf_nodes.as_ref().map(|running| &running.nodes))?;
        cluster::terms(new, running.takes_part_in_groups())?;
        let (old, new) = (&self.loaded.options.cluster, &new.cluster);
        for account in new.pinned_accounts.iter().filter(|account| !old.pinned_accounts.contains(account)) {
            if self.broker.account(account).is_none() {
                let why = "nats: account not found";
                return Err(format!(
                    "unable to add account {account:?} to the list of dedicated routes: {why}"
                ));
            }
        }
        let removed = old.routes.iter().filter(|route| !new.routes.contains(route));
        let lines: Vec<_> = removed.map(|route| format!("Removed route {route}")).collect();
        let pins = |cluster: &ClusterOptions| cluster.tls.as_ref().map(|tls| tls.pinned_certs.clone());
        let pins = (pins(old) != pins(new)).then(|| pins(new).unwrap_or_default());
        Ok(Some(StagedCluster { config, offer, pins, name: new.name.clone(), lines }))
    }

    /// Leaf nodes and hubs as new options have them; the first remotes may come with these.
    fn stage_leaf_nodes(&self, new: &Options, hubs: &HubChecks) -> Result<Option<StagedLeafNodes>, String> {
        let begun = if self.leaf_nodes.is_none() && leaf::is_wanted(new) {
            let mailboxes: Vec<_> = self.shards.iter().map(|shard| shard.mailbox.clone()).collect();
            let parts = (&self.broker, &mailboxes[..], &self.log, &Handle::current());
            Some(RunningLeafNodes::begin(new, LeafParts::new(parts, &self.monitor))?)
        } else {
            None
        };
        let Some(running) = begun.as_ref().or(self.leaf_nodes.as_ref()) else { return Ok(None) };
        let prepared = running.prepare(new, &self.broker, hubs)?;
        Ok(Some(StagedLeafNodes { begun, prepared }))
    }

    fn apply_leaf_nodes(&mut self, staged: Option<StagedLeafNodes>) {
        let Some(StagedLeafNodes { begun, prepared }) = staged else { return };
        if let Some(begun) = begun {
            self.broker.form_leaf_nodes();
            self.monitor
                .set_leaf_nodes(Arc::clone(&begun.nodes), begun.address.map(|address| address.port()));
            self.leaf_nodes = Some(begun);
        }
        if let Some(running) = &mut self.leaf_nodes {
            running.reload(prepared);
        }
    }

    fn apply_cluster(&mut self, staged: Option<StagedCluster>) {
        let (Some(running), Some(staged)) = (&self.cluster, staged) else { return };
        let StagedCluster { config, offer, pins, name, lines } = staged;
        offer.iter().flat_map(|offer| &offer.notes).for_each(|note| self.log.warn(note));
        running.reload(config, name.as_deref(), offer);
        lines.iter().for_each(|line| self.log.info(line));
        let Some(pins) = pins.filter(|pins| !pins.is_empty()) else { return };
        let links = running.mesh.links();
        let strangers: Vec<_> =
            links.iter().filter(|link| link.facts().key.is_none_or(|key| !pins.contains(&key))).collect();
        if !strangers.is_empty() {
            self.log.info(format_args!("Disconnect {} clients due to pinned certs reload", strangers.len()));
            strangers.iter().for_each(|link| link.conn().close(CloseReason::TlsHandshake));
        }
    }

    /// Compat: a name that is taken away goes on to be the cluster's until the server is started
    /// anew.
    fn rename_cluster(&self, new: &Options) {
        if let Some(name) = &new.cluster.name
            && *name != *self.broker.cluster()
        {
            self.broker.set_cluster(name);
            self.log.info(format_args!("Cluster name updated to {name}"));
        }
    }

    fn write_pid_file(&self) {
        let Some(path) = &self.loaded.options.server.pid_file else { return };
        if let Err(error) = pidfile::write(path, std::process::id()) {
            self.log.error(format_args!("Failed to write pidfile: {error}"));
        }
    }
}
