//! A link that runs while the configuration changes, here or on the other side.

use super::timers::LONGEST_INTERVAL;
use super::{LinkPhase, LinkSession};
use crate::config::MeshConfig;
use myelin_auth::{Permissions, SubjectRules};
use myelin_broker::{Level, Shard};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::{GossipMode, PeerConnect, PeerInfo, SubjectFilter};
use myelin_wire::peer::pool_index;
use std::sync::Arc;

impl LinkSession {
    /// Takes over what a reload has changed for this link.
    ///
    /// # Errors
    /// When the link cannot go on as it is.
    pub fn reload(&mut self, shard: &mut Shard) -> Result<(), CloseReason> {
        if !matches!(self.state, LinkPhase::Ready(_)) || self.is_foreign() {
            return Ok(());
        }
        let config = self.mesh.config();
        if !self.making.did_solicit && !self.known.facts().did_solicit && !self.is_still_admitted() {
            self.known.update(|facts| facts.is_surplus = true);
            self.log(Level::Error, format_args!("authentication error"));
            self.link.say(b"-ERR 'Authorization Violation'\r\n");
            return Err(CloseReason::AuthenticationFailure);
        }
        self.timers.change(config.ping_interval.min(LONGEST_INTERVAL), config.ping_max);
        self.change_compression()?;
        self.move_accounts(&config);
        let is_internal = config.is_internal(self.known.facts().account.as_deref());
        if !is_internal && !same_rules(self.rules.as_deref(), config.permissions.as_deref()) {
            self.rules.clone_from(&config.permissions);
            let info =
                PeerInfo { compression: String::new(), ..self.mesh.info(0, None, GossipMode::Default) };
            self.link.say(&info.line());
            self.link.change_rules(config.permissions.clone());
        }
        shard.flush_link(self.conn());
        Ok(())
    }

    /// Accounts get links of their own, or lose them: what was said of them here holds no more, or
    /// is said again.
    fn move_accounts(&mut self, config: &MeshConfig) {
        let before = std::mem::replace(&mut self.spread.dedicated, config.dedicated.clone());
        let facts = self.known.facts();
        let Some(place) = facts.place.filter(|_| facts.account.is_none() && !facts.has_no_pool) else {
            return;
        };
        for account in config.dedicated.iter().filter(|account| !before.contains(account)) {
            if place == pool_index(self.spread.their_pool, account) as usize {
                self.link.forget_account(account);
            }
            if place == pool_index(config.pool_size, account) as usize {
                let request = PeerInfo {
                    route_pool_size: i64::from(config.pool_size),
                    route_account: account.clone(),
                    // Any text will do that is not empty: answers are not waited for.
                    route_acc_add_reqid: format!("{}.{account}", config.info.id),
                    ..PeerInfo::default()
                };
                self.link.say(&request.line());
            }
        }
        for account in before.iter().filter(|account| !config.dedicated.contains(account)) {
            self.link.announce_account(account);
        }
    }

    /// The other side gives an account a link of its own, or knows that this side does.
    pub(super) fn hear_of_dedicated(&mut self, mut info: PeerInfo) {
        let account = std::mem::take(&mut info.route_account);
        if account.is_empty() {
            return self.hear_answer(&info.route_acc_add_reqid);
        }
        if self.link.broker().account(&account).is_none() {
            let line = format_args!("Error looking up account {account:?}: nats: account not found");
            let kind = "Error looking up account";
            return self.link.broker().complain(Level::Error, self.conn(), kind, line);
        }
        self.mesh.dedicate(&account);
        self.link.forget_account(&account);
        self.link.say(&info.line());
    }

    /// The other side has heard that an account has a link of its own: what it has said of the
    /// account on this one until then holds no more.
    fn hear_answer(&mut self, request: &str) {
        let own = self.mesh.config().info.id.clone();
        let account = request.strip_prefix(&own).and_then(|rest| rest.strip_prefix('.'));
        if let Some(account) = account.filter(|account| self.spread.dedicated.iter().any(|of| of == account))
        {
            self.link.forget_account(account);
        }
    }

    /// The other side has said whether it takes part in groups.
    pub(super) fn note_part(&self, info: &PeerInfo) {
        if self.known.facts().account.is_none() {
            let dials = self.mesh.hear_of_part(&self.known, info);
            dials.into_iter().for_each(|dial| self.mesh.host().dial(dial));
            self.mesh.note_gateway_url(&info.id);
        }
    }

    fn is_still_admitted(&self) -> bool {
        let (user, pass) = self.login.clone().unwrap_or_default();
        let connect = PeerConnect { user, pass, ..PeerConnect::default() };
        self.mesh.config().admits(&connect, self.certificate.as_deref(), &|_| {})
    }

    /// The other side has said what may cross the link from its side.
    pub(super) fn note_filters(&mut self, info: &PeerInfo) {
        let filters = [info.import.clone(), info.export.clone()];
        let before = self.known.update(|facts| std::mem::replace(&mut facts.filters, filters));
        if matches!(self.state, LinkPhase::Ready(_)) && before[1] != info.export {
            let (then, now) = (exports(before[1].as_ref()), exports(info.export.as_ref()));
            self.link.announce_again(then.as_ref(), now.as_ref());
        }
    }
}

/// Rules of the other side for exports; none where it has none that can be understood.
fn exports(filter: Option<&SubjectFilter>) -> Option<Permissions> {
    let SubjectFilter { allow, deny } = filter?.clone();
    let rules = SubjectRules { allow: allow.unwrap_or_default(), deny: deny.unwrap_or_default() };
    Permissions::new(None, Some(rules), None).ok()
}

fn same_rules(one: Option<&Permissions>, other: Option<&Permissions>) -> bool {
    let texts = |rules: Option<&Permissions>| {
        rules.map(|rules| {
            let (import, export) = (rules.publish_rules(), rules.subscribe_rules());
            [import.allow, import.deny, export.allow, export.deny]
        })
    };
    texts(one) == texts(other)
}

/// Rules of a link, shared.
pub(super) type Rules = Option<Arc<Permissions>>;
