//! Reports on how long services take, and what other servers are told for theirs.

use super::Shard;
use super::fanout::{PubMessage, Published, Publisher};
use super::source::Source;
use crate::account::Account;
use crate::broker::Broker;
use crate::conn::Conn;
use crate::imports::{
    self, AnsweredRequest, Awaited, Export, Measured, Outcome, RequestInfo, Responder, SecondPart,
    ServiceLink, Tracked,
};
use myelin_subject::matches;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Shard {
    /// A measured request was answered. If its answer comes from another server, the report waits
    /// for what that one has measured.
    pub(super) fn report_answered(
        &mut self,
        from: &Publisher<'_>,
        reply: &[u8],
        (link, requester, tracked): (Arc<ServiceLink>, Arc<Account>, Arc<Tracked>),
        asked: Instant,
    ) {
        let first = AnsweredRequest { link, requester, tracked, asked, answered: from.now };
        if !from.conn.is_link() {
            let responder = RequestInfo::of(&self.broker, from.account.name(), from.conn, true);
            return self.report_first(&first, Responder::Here(Box::new(responder)), None);
        }
        if let Some((first, second)) = self.broker.links.latency_parts.first(reply, first, from.now) {
            let (responder, service) = second.into_responder();
            self.report_first(&first, responder, Some(service));
        }
    }

    /// Reports what other servers have not told their part of.
    pub(super) fn report_old_parts(&mut self, now: Instant) {
        for first in self.broker.links.latency_parts.take_old(now) {
            self.report_first(&first, Responder::Unknown, None);
        }
    }

    #[cold]
    fn report_first(&mut self, first: &AnsweredRequest, responder: Responder, service: Option<Duration>) {
        if let Some((subject, report)) = self.broker.report_on(first, responder, service) {
            self.publish_report(&first.link.exporter, &subject, &report, first.answered);
        }
    }

    /// Tells the exporting account that a request which is measured was not answered.
    pub(super) fn report_unanswered(&mut self, awaited: &Awaited, outcome: Outcome, now: Instant) {
        let Awaited { link, requester, since, tracked, .. } = awaited;
        let (Some(tracked), Some(latency)) = (tracked, link.latency()) else { return };
        let measured = Measured {
            requestor: RequestInfo::of(&self.broker, requester.name(), &tracked.conn, link.shares()),
            responder: Responder::Unknown,
            service: None,
            cause: &tracked.cause,
            asked: self.broker.wall(*since),
            now: self.broker.wall(now),
        };
        let report = imports::report(&self.broker.unique_id(), outcome, measured);
        self.publish_report(&link.exporter, &latency.subject, &report, now);
    }

    #[cold]
    fn publish_report(&mut self, account: &Arc<Account>, subject: &str, report: &[u8], now: Instant) {
        let mut msgs = MessageBuf::default();
        let subject = subject.as_bytes();
        msgs.push(MessageRef { subject, payload: report, ..MessageRef::default() });
        self.send(account, &mut msgs, now);
    }

    /// Publishes a message of another server, and notes it if that one measures it.
    pub(super) fn publish_noting(&mut self, from: Publisher<'_>, message: PubMessage<'_>) -> Published {
        let published = self.publish_onward(from, message);
        if imports::is_measured(message.reply)
            && matches!(from.source, Source::Route { .. } | Source::Gateway { .. })
            && let Published::Done { delivered: true, .. } = published
        {
            self.note_remote_request(from.account, (message.address(), message.reply), from.now);
        }
        published
    }

    /// Notes a request from another server, which measures it: it has gone to a client here.
    #[cold]
    pub(super) fn note_remote_request(
        &self,
        account: &Arc<Account>,
        (subject, reply): (&[u8], &[u8]),
        now: Instant,
    ) {
        let config = account.config();
        let threshold = config.exports.iter().find_map(|export| match export {
            Export::Service(service) => {
                matches(service.subject.as_bytes(), subject).then_some(service.threshold)
            }
            Export::Stream(_) => None,
        });
        if let Some(threshold) = threshold {
            account.imports.remote_requests.open(reply, now, threshold, |pattern| {
                account.bind_receiver(pattern, crate::service::ServiceTarget::Measurers);
            });
        }
    }

    /// A client has answered a request that another server measures: that one is told when.
    #[cold]
    pub(super) fn tell_latency(&mut self, from: &Publisher<'_>, reply: &[u8]) {
        let Some(asked) = from.account.imports.remote_requests.close(reply) else { return };
        let (Some(system), Some(subject)) = (self.broker.system_account(), imports::told_at(reply)) else {
            return;
        };
        let responder = RequestInfo::of(&self.broker, from.account.name(), from.conn, true);
        let time = from.now.saturating_duration_since(asked);
        let told = imports::told(from.account.name(), reply, responder, (self.broker.wall(asked), time));
        let mut msgs = MessageBuf::default();
        msgs.push(MessageRef { subject: &subject, payload: &told, ..MessageRef::default() });
        self.send(&system, &mut msgs, from.now);
    }
}

impl Broker {
    /// The report on a request that was answered, and its subject.
    fn report_on(
        &self,
        first: &AnsweredRequest,
        responder: Responder,
        service: Option<Duration>,
    ) -> Option<(String, Vec<u8>)> {
        let AnsweredRequest { link, requester, tracked, asked, answered } = first;
        let latency = link.latency()?;
        let measured = Measured {
            requestor: self.requestor(requester, &tracked.conn, link),
            responder,
            service,
            cause: &tracked.cause,
            asked: self.wall(*asked),
            now: self.wall(*answered),
        };
        let outcome = Outcome::Answered(answered.saturating_duration_since(*asked));
        Some((latency.subject.clone(), imports::report(&self.unique_id(), outcome, measured)))
    }

    fn requestor(&self, requester: &Account, conn: &Conn, link: &ServiceLink) -> RequestInfo {
        RequestInfo::of(self, requester.name(), conn, link.shares())
    }

    /// Takes what another server has measured of a request that was made here. If the report is
    /// complete now: the account in which, and the subject under which it is to be published.
    ///
    /// # Errors
    /// When it is no measurement.
    pub fn take_latency(&self, told: &[u8], now: Instant) -> Result<Option<LatencyEvent>, String> {
        let second: SecondPart = serde_json::from_slice(told).map_err(|error| error.to_string())?;
        let second = second.unmapped();
        // The response may be on its way, or taken and not noted yet.
        let is_own = |second: &SecondPart| {
            let account = self.account(&second.account);
            account.is_some_and(|account| account.imports.replies.owns(second.req_id.as_bytes()))
        };
        let Some((first, second)) = self.links.latency_parts.second(second, now, is_own) else {
            return Ok(None);
        };
        let (responder, service) = second.into_responder();
        let report = self.report_on(&first, responder, Some(service));
        let account = Arc::clone(&first.link.exporter);
        Ok(report.map(|(subject, report)| LatencyEvent { account, subject, report }))
    }
}

/// A report on a latency, ready to be published.
pub struct LatencyEvent {
    /// The account that exports the service.
    pub account: Arc<Account>,
    /// Where it wants reports.
    pub subject: String,
    /// The report.
    pub report: Vec<u8>,
}
