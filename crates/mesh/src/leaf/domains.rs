//! JetStream on both sides of a link: what of it stays on its own side.
//!
//! Each side has its own JetStream, under one name of the API. A domain is another name of it, by
//! which the other side can ask. Each side decides for itself, by what it is told and by the domain
//! that the other has said, and says so in the log.

use super::config::LeafJetStream;
use super::session::LeafSession;
use myelin_broker::{Account, LeafDenials, Level};

/// Subjects of JetStream that cross no link of an account.
const CLIENTS: [&str; 3] = ["$JS.API.>", "$KV.>", "$OBJ.>"];
/// Subjects of JetStream that cross no link of the system account.
const ALL: [&str; 5] = ["$JSC.>", "$NRG.>", "$JS.API.>", "$KV.>", "$OBJ.>"];

/// Relation of the JetStream here to that on the other side.
enum Relation {
    /// The account has no domain on purpose, and its API crosses the link.
    Open,
    /// Both are of one domain, be it none.
    Same,
    Different,
}

impl LeafJetStream {
    /// Subjects of the API here, by the name of its domain.
    fn own_api(&self) -> Option<String> {
        let has_own = self.is_enabled && !self.domain.is_empty();
        has_own.then(|| format!("$JS.{}.API.>", self.domain))
    }

    /// Whether an account was said to have no domain, so that nothing can be extended.
    fn has_open_account(&self) -> bool {
        self.default_domains.values().any(String::is_empty)
    }

    fn relation(&self, account: &Account, remote: &str) -> Relation {
        let is_system = account.is_system();
        if !is_system && self.default_domains.get(account.name()).is_some_and(String::is_empty) {
            return Relation::Open;
        }
        let is_absent = !self.is_enabled && self.domain.is_empty() && !self.extends;
        if self.domain != remote || is_absent || is_system && self.has_open_account() {
            Relation::Different
        } else {
            Relation::Same
        }
    }

    /// Subjects that a link of `account` does not carry, where the other side has this domain.
    pub(super) fn denials(&self, account: &Account, remote: &str) -> LeafDenials {
        let list = |subjects: &[&str]| subjects.iter().map(|subject| (*subject).to_owned()).collect();
        let relation = self.relation(account, remote);
        let denied: Vec<String> = match relation {
            Relation::Open => Vec::new(),
            _ if account.is_system() => list(&ALL),
            _ => list(&CLIENTS),
        };
        let mut denials =
            LeafDenials { not_sent: denied.clone(), not_taken: denied, ..LeafDenials::default() };
        if matches!(relation, Relation::Open) {
            return denials;
        }
        // Another server of the domain asks for it under the same name.
        let is_shared = self.domain == remote;
        let keeps = if is_shared { &mut denials.kept } else { &mut denials.not_sent };
        keeps.extend(self.own_api());
        denials
    }
}

impl LeafSession {
    /// Says how the JetStream here and that on the other side are to each other.
    pub(super) fn log_domains(&self, account: &Account) {
        let (config, facts) = (self.nodes().config(), self.known().facts());
        let (jetstream, name) = (&config.jetstream, account.name());
        let relation = jetstream.relation(account, &facts.domain);
        let is_different = matches!(relation, Relation::Different);
        if account.is_system() {
            if jetstream.has_open_account() {
                let why = "due to presence of empty default domain";
                let domain = &facts.domain;
                self.log(Level::Info, format_args!("Not extending remote JetStream domain {domain:?} {why}"));
            }
            let cluster =
                if facts.cluster.is_empty() { String::new() } else { format!("/{}", facts.cluster) };
            self.log(Level::Info, format_args!("System account connected from {}{cluster}", facts.name));
            // Compat: there one domain becomes one JetStream.
            let why = if is_different { "domains differ" } else { "servers of a domain have their own" };
            self.log(Level::Info, format_args!("JetStream not extended, {why}"));
        } else {
            match relation {
                Relation::Open => {
                    let api = CLIENTS[0];
                    let line =
                        format_args!("Skipping deny {api:?} for account {name:?} due to default domain");
                    self.log(Level::Debug, line);
                }
                Relation::Same => {
                    let all = CLIENTS.join(" ");
                    self.log(Level::Debug, format_args!("Adding deny [{all}] for account {name:?}"));
                }
                Relation::Different => {
                    let domains = format_args!("local {:?}, remote {:?}", jetstream.domain, facts.domain);
                    self.log(Level::Info, format_args!("JetStream using domains: {domains}"));
                }
            }
        }
        if let Some(own) = jetstream.own_api().filter(|_| is_different) {
            let to = format_args!("for outgoing messages to account {name:?}");
            self.log(Level::Debug, format_args!("Adding deny {own:?} {to}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::broker;

    #[test]
    fn an_account_without_a_domain_on_purpose_is_asked_under_all_names() {
        let broker = broker("HUB");
        let account = broker.account("$G").expect("it is always there");
        let mut jetstream = LeafJetStream { is_enabled: true, domain: "D".into(), ..Default::default() };
        let denials = jetstream.denials(&account, "E");
        assert!(denials.not_sent.contains(&"$JS.D.API.>".to_owned()), "{denials:?}");
        jetstream.default_domains.insert("$G".into(), String::new());
        for remote in ["D", "E"] {
            let LeafDenials { not_sent, not_taken, not_asked, kept } = jetstream.denials(&account, remote);
            assert_eq!([not_sent, not_taken, not_asked, kept].concat(), [""; 0], "{remote}");
        }
    }
}
