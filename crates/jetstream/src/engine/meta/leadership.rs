//! Word of who leads, and of groups that cannot go on: lines for the operator, and advisories.

use super::account_use::UsesElsewhere;
use super::stalled_groups::StalledGroups;
use super::{JetStream, LiveStream, Meta};
use crate::engine::groups::InstallProgress;
use crate::engine::reasons;
use myelin_broker::{Account, Level};
use myelin_jsapi::advisory::consumer::ConsumerRef;
use myelin_jsapi::advisory::{Advisory, AdvisoryHeader, leadership};
use myelin_replica::Peer;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::{Arc, Mutex};

/// State that is looked at now and then, as it was seen last.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) stalled: Mutex<StalledGroups>,
    pub(super) uses: UsesElsewhere,
}

impl Meta {
    /// This server leads the meta group now.
    pub(super) fn is_leading(&self) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let name = &self.name;
        jetstream.host.log(Level::Info, format_args!("Self is new JetStream cluster metadata leader"));
        let (replicas, cluster) =
            (jetstream.replicas_of(self, &self.live(), &self.servers()), jetstream.host.cluster());
        let leader = super::peer_of(name).map(|peer| peer.to_string()).unwrap_or_default();
        jetstream
            .tell_system(|header| leadership::domain_leader_elected(header, &leader, &replicas, &cluster));
    }

    /// Another server leads the meta group now, or none.
    pub(super) fn is_led_elsewhere(&self, leader: Option<Peer>) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        match leader {
            Some(leader) if leader == self.groups.me => {}
            Some(leader) => {
                let name = self.name_of(leader);
                let cluster = self.cluster_of(&name);
                let line = format_args!("JetStream cluster new metadata leader: {name}/{cluster}");
                jetstream.host.log(Level::Info, line);
                self.on_api(|meta, jetstream| meta.keep_waiting(jetstream));
            }
            None => jetstream.host.log(Level::Info, format_args!("JetStream cluster no metadata leader")),
        }
    }

    /// A stream of this server leads its group now.
    pub(super) fn is_led_here(&self, account: &str, stream: &str) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let line = format_args!("JetStream cluster new stream leader for '{account} > {stream}'");
        jetstream.host.log(Level::Info, line);
        let Some(live) = jetstream.account(account).and_then(|account| account.stream(stream)) else {
            return;
        };
        if let Some(assignment) = self.view().get(account, stream) {
            let replicas = jetstream.replicas_of(self, &live, &assignment.peers);
            jetstream.tell_both(live.account(), |header, account| {
                leadership::stream_leader_elected(header, (account, stream), &self.name, &replicas)
            });
        }
        live.consumers().all().iter().for_each(|consumer| self.leads_consumer(&live, consumer.name()));
        self.answer_pending(&live, false);
    }

    /// A consumer of a stream with replicas is led here from now on.
    pub(in crate::engine) fn leads_consumer(&self, live: &LiveStream, consumer: &str) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let (account, stream) = (live.account_name(), live.name());
        let line =
            format_args!("JetStream cluster new consumer leader for '{account} > {stream} > {consumer}'");
        jetstream.host.log(Level::Info, line);
        let Some(assignment) = self.view().get(account, stream).filter(|one| one.peers.len() > 1) else {
            return;
        };
        let replicas = jetstream.replicas_of(self, live, &assignment.peers);
        let of = ConsumerRef { stream, consumer };
        jetstream.tell_both(live.account(), |header, account| {
            leadership::consumer_leader_elected(header, (account, of), &self.name, &replicas)
        });
    }

    /// Looks which groups of this server have lost their quorum.
    pub(super) fn look_at_quorums(&self, jetstream: &Arc<JetStream>) {
        let is_here = |(account, stream): &(String, String)| {
            jetstream.account(account).is_some_and(|account| account.stream(stream).is_some())
        };
        lock(&self.watched.stalled).keep_only(is_here);
        for live in jetstream.accounts().into_iter().flat_map(|account| account.streams()) {
            let key = (live.account_name().to_owned(), live.name().to_owned());
            let (lacks, now) = (live.is_of_group() && live.lacks_quorum(), jetstream.host.instant());
            if lock(&self.watched.stalled).note(key, lacks, now) {
                self.quorum_is_lost(jetstream, &live);
            }
            if let Some(progress) = live.install_progress(true).filter(|progress| progress.is_due) {
                let (account, stream) = (live.account_name(), live.name());
                let how_far = self.on_its_way(&progress);
                let line = format_args!("JetStream stream '{account} > {stream}' is catching up: {how_far}");
                jetstream.host.log(Level::Info, line);
            }
        }
    }

    /// How far a stream is that this server gets from another one.
    pub(in crate::engine) fn on_its_way(&self, progress: &InstallProgress) -> String {
        reasons::on_its_way(progress, &self.name_of(progress.from))
    }

    fn quorum_is_lost(&self, jetstream: &JetStream, live: &LiveStream) {
        let (account, stream) = (live.account_name(), live.name());
        let Some(assignment) = self.view().get(account, stream) else { return };
        let replicas = jetstream.replicas_of(self, live, &assignment.peers);
        let away = reasons::away(&replicas);
        let why = if away.is_empty() { String::new() } else { format!(": {away}") };
        let line =
            format_args!("JetStream cluster stream '{account} > {stream}' has NO quorum, stalled{why}");
        jetstream.host.log(Level::Warn, line);
        jetstream.tell_both(live.account(), |header, account| {
            leadership::stream_quorum_lost(header, (account, stream), &replicas)
        });
        for consumer in live.consumers().all() {
            let consumer = consumer.name();
            let line = format_args!(
                "JetStream cluster consumer '{account} > {stream} > {consumer}' has NO quorum, stalled."
            );
            jetstream.host.log(Level::Warn, line);
            let of = ConsumerRef { stream, consumer };
            jetstream.tell_both(live.account(), |header, account| {
                leadership::consumer_quorum_lost(header, (account, of), &replicas)
            });
        }
    }
}

impl JetStream {
    /// Publishes an advisory in an account, and with the account's name in the system account.
    pub(super) fn tell_both(
        &self,
        account: &Arc<Account>,
        make: impl Fn(AdvisoryHeader<'_>, &str) -> Advisory,
    ) {
        let (id, time) = (self.host.unique_id(), self.host.now());
        let header = AdvisoryHeader { id: &id, time, domain: &self.settings.domain };
        self.publish_advisory(account, &make(header, ""));
        if let Some(system) = self.host.system_account() {
            self.publish_advisory(&system, &make(header, account.name()));
        }
    }

    pub(super) fn tell_system(&self, make: impl Fn(AdvisoryHeader<'_>) -> Advisory) {
        let (id, time) = (self.host.unique_id(), self.host.now());
        let header = AdvisoryHeader { id: &id, time, domain: &self.settings.domain };
        if let Some(system) = self.host.system_account() {
            self.publish_advisory(&system, &make(header));
        }
    }

    /// Publishes an advisory, if anybody listens.
    pub(super) fn publish_advisory(&self, account: &Arc<Account>, advisory: &Advisory) {
        let subject = advisory.subject.as_bytes();
        if account.has_interest(subject) {
            let mut out = MessageBuf::default();
            out.push(MessageRef { subject, payload: &advisory.body, ..MessageRef::default() });
            self.host.publish(account, out);
        }
    }
}
