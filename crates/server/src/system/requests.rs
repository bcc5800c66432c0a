//! Requests for pages, and which server they mean.

use super::System;
use super::envelope::RequestFault;
use super::request::SystemRequest;
use super::schedule::EventSchedule;
use myelin_monitor::request::{self, Filter, Page, PageRequest, Topic};
use myelin_wire::encoding::{self, Encoding};
use myelin_wire::header;
use myelin_wire::json::compact;
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Result of a request: a page, nothing that anybody is told, or a fault.
pub(super) type PageResult = Result<Option<Page>, RequestFault>;

impl System {
    /// Answers a request, whatever it is.
    pub(super) fn answer(&self, ask: &SystemRequest) {
        match (ask.token(1), ask.token(2)) {
            ("DEBUG", _) => self.answer_subscribers(ask),
            (_, "USER") => self.answer_user(ask),
            (_, "CLAIMS") => self.answer_claims(ask),
            ("ACCOUNT", _) => self.answer_claims(ask),
            (_, "ACCOUNT") if ask.token(4) == "CLAIMS" => self.answer_claims(ask),
            (_, "ACCOUNT") if ask.last() == "NSUBS" => self.answer_subscriptions(ask),
            (_, "ACCOUNT") => self.answer_of_account(ask),
            (_, "SERVER") => self.answer_of_server(ask),
            _ => {}
        }
    }

    fn answer_of_server(&self, ask: &SystemRequest) {
        match ask.last() {
            "IDZ" => self.answer_id(ask),
            "LOG" => self.answer_log(ask),
            "RELOAD" => self.answer_reload(ask),
            "KICK" | "LDM" => self.answer_about_client(ask),
            last => {
                let topic = Topic::of_server().find(|(name, _)| *name == last);
                if let Some((_, topic)) = topic {
                    self.respond(ask, topic, |request| {
                        request.answer(&*self.monitor).map_err(RequestFault::of_server)
                    });
                }
            }
        }
    }

    /// Reads a request that means this server, and answers it with what `act` makes of it.
    pub(super) fn respond(
        &self,
        ask: &SystemRequest,
        topic: Topic,
        act: impl FnOnce(PageRequest) -> PageResult,
    ) {
        if ask.reply.is_empty() {
            return;
        }
        let request = match PageRequest::read(topic, &ask.body) {
            Ok(request) if self.is_meant(request.filter()) => request,
            Ok(_) => return,
            Err(why) => return self.reply_with(ask, None, Some(RequestFault::of_request(why))),
        };
        match act(request) {
            Ok(Some(page)) => {
                let wanted = header::get(&ask.headers, encoding::ACCEPT.as_bytes()).unwrap_or_default();
                let body = self.response(Some(&page), None);
                match Encoding::accepted(wanted) {
                    None => self.reply(&ask.reply, b"", &body),
                    Some(encoding) => self.reply(&ask.reply, encoding.headers(), &encoding.encode(&body)),
                }
            }
            Ok(None) => {}
            // Compat: where there could have been data it is said that there is none.
            Err(fault) => self.reply_with(ask, Some(RawValue::NULL), Some(fault)),
        }
    }

    pub(super) fn reply_with(
        &self,
        ask: &SystemRequest,
        data: Option<&RawValue>,
        fault: Option<RequestFault>,
    ) {
        if !ask.reply.is_empty() {
            self.reply(&ask.reply, &[], &self.response(data, fault));
        }
    }

    /// Whether a request is for this server.
    pub(super) fn is_meant(&self, filter: &Filter) -> bool {
        if *filter == Filter::default() {
            return true;
        }
        let (info, labels) = (self.broker.info(), self.broker.labels());
        let fits = |wanted: &str, has: &str| {
            wanted.is_empty() || if filter.exact { wanted == has } else { has.contains(wanted) }
        };
        fits(&filter.name, &info.server_name)
            && fits(&filter.host, &info.host)
            && fits(&filter.cluster, &info.cluster)
            && filter.tags.iter().all(|tag| labels.tags.iter().any(|own| own.eq_ignore_ascii_case(tag)))
            && (filter.domain.is_empty() || filter.domain == self.monitor.domain())
    }

    /// Answers with the identity of the server; without an envelope.
    fn answer_id(&self, ask: &SystemRequest) {
        #[derive(Serialize)]
        struct Id {
            name: String,
            host: String,
            id: String,
        }
        if !ask.reply.is_empty() {
            let info = self.broker.info();
            let id = Id { name: info.server_name, host: info.host, id: info.server_id };
            self.reply(&ask.reply, &[], &compact(&id));
        }
    }

    /// Tells of the server to whoever asks; without a reply, to everybody who listens.
    pub(super) fn answer_statsz(&self, ask: &SystemRequest, pace: &mut EventSchedule) {
        match PageRequest::read(Topic::Statsz, &ask.body) {
            Err(why) => self.reply_with(ask, None, Some(RequestFault::of_request(why))),
            Ok(request) if !self.is_meant(request.filter()) => {}
            Ok(_) if ask.reply.is_empty() => {
                pace.told_statsz(Instant::now());
                self.publish_statsz();
            }
            Ok(_) => self.reply(&ask.reply, &[], &self.statsz()),
        }
    }

    /// Tells everybody who listens.
    pub(super) fn publish_statsz(&self) {
        let subject = format!("$SYS.SERVER.{}.STATSZ", self.id);
        if self.is_heard(&subject) {
            self.publish_event(&self.account, &subject, &self.statsz());
        }
    }

    fn statsz(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Statsz<'a> {
            server: myelin_broker::ServerInfo,
            statsz: Option<&'a RawValue>,
        }
        let statsz = request::statsz(&*self.monitor, self.peers.heard.load(Relaxed)).ok();
        compact(&Statsz { server: self.server_info(), statsz: statsz.as_deref() })
    }
}
