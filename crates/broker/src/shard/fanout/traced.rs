//! Fan-out of a message that is traced: the same receivers in the same order, and a word on each of
//! them.
//!
//! Cold. A message that is only traced goes the same way and reaches nobody.

use super::super::mqtt_targets::{MqttForm, MqttTargets};
use super::super::remote::Passed;
use super::{ClientTarget, Fanout, PubMessage, Published, Publisher, Route, RouteTarget};
use crate::account::Account;
use crate::conn::Conn;
use crate::imports::ShadowService;
use crate::link::end::LinkEnd;
use crate::message_trace::{MessageTrace, Withheld};
use crate::service::{Service, TraceRole};
use crate::shard::Shard;
use crate::shard::rules::is_denied;
use crate::shard::service_members::chosen;
use crate::subscription::Subscription;
use myelin_stdx::rng::Rng;
use myelin_subject::Matched;
use myelin_wire::peer::parser::QueueNames;
use myelin_wire::{encode, message_trace};
use std::sync::Arc;

/// A message whose headers are not those with which it came.
#[derive(Default)]
pub(in crate::shard) struct Marked {
    body: Vec<u8>,
    header_len: usize,
    tail: Vec<u8>,
}

impl Marked {
    /// `message` with another destination for traces, or with the word that there is none. `set`
    /// writes the header.
    pub(in crate::shard) fn new(
        message: &PubMessage<'_>,
        destination: &[u8],
        set: impl FnOnce(&mut Vec<u8>, &[u8], &[u8]),
    ) -> Self {
        let (headers, payload) = message.body.split_at(message.header_len);
        let mut body = Vec::with_capacity(message.body.len() + 64);
        set(&mut body, headers, destination);
        let header_len = body.len();
        body.extend_from_slice(payload);
        let (mut digits, mut size, mut tail) = (Vec::new(), Vec::new(), Vec::new());
        encode::number(&mut digits, header_len);
        encode::number(&mut size, body.len());
        encode::tail(&mut tail, message.reply, &digits, &size, &body);
        Self { body, header_len, tail }
    }

    /// For clients and other accounts: at the end of the headers.
    pub(in crate::shard) fn untraced(message: &PubMessage<'_>) -> Self {
        Self::toward(message, message_trace::DISABLED)
    }

    /// Copies the message with `destination` in place of the destination in its headers.
    pub(in crate::shard) fn toward(message: &PubMessage<'_>, destination: &[u8]) -> Self {
        Self::new(message, destination, |out, headers, destination| {
            myelin_wire::header::replace(out, headers, message_trace::DESTINATION, destination);
        })
    }

    /// The message with these headers.
    pub(in crate::shard) fn of<'a>(&'a self, message: &PubMessage<'a>) -> PubMessage<'a> {
        let (header_len, body, tail) = (self.header_len, &self.body[..], &self.tail[..]);
        PubMessage { header_len, body, tail, shared_tail: None, ..*message }
    }
}

impl Fanout<'_> {
    /// The loop over a route.
    #[cold]
    #[inline(never)]
    pub(super) fn run_traced(&mut self, trace: &MessageTrace, route: &Route, rng: &mut Rng) {
        let is_passed_on = self.from.is_passed_on();
        let beside_groups = route.targets.iter().filter(|_| !is_passed_on);
        for target in beside_groups {
            match target {
                RouteTarget::Client(delivery) => {
                    let head = self.head_of(&delivery.sub, route.head(delivery));
                    let stage = |fanout: &mut Self| fanout.stage_traced(&delivery.sub, &head);
                    self.trace_subscription(trace, route, &delivery.sub, delivery.careful, stage);
                }
                RouteTarget::Cohort(shared) => {
                    for sub in &shared.subs {
                        let head = self.head_of(sub, route.shared_head(shared));
                        let stage = |fanout: &mut Self| fanout.stage_traced(sub, &head);
                        self.trace_subscription(trace, route, sub, false, stage);
                    }
                }
                RouteTarget::Mqtt(mqtt) => self.trace_mqtt(trace, route, mqtt),
            }
        }
        if let Some(queues) = self.from.routed() {
            let passed = self.trace_chosen(trace, route, queues, rng);
            if let Some(remote) = route.remote.as_ref().filter(|_| !is_passed_on) {
                self.remote_beside::<false>(route, remote, &passed);
            }
            return;
        }
        for group in &route.groups {
            let queue = group.first().and_then(|first| first.sub.queue());
            if queue.is_some_and(|queue| self.from.has_chosen(queue)) {
                self.trace_group(trace, route, group, rng);
            }
        }
        // Servers that get the message say for themselves what becomes of it.
        if let Some(remote) = &route.remote {
            self.remote::<false>(route, remote, rng);
        }
    }

    /// Clients that speak MQTT.
    fn trace_mqtt(&mut self, trace: &MessageTrace, route: &Route, targets: &MqttTargets) {
        for sub in &targets.subs {
            self.trace_subscription(trace, route, sub, false, |fanout| {
                let conn = sub.conn();
                if !matches!(targets.form, MqttForm::Three) {
                    return match fanout.from.logs_protocol {
                        true => fanout.mqtt5_alone::<true>(targets, sub),
                        false => fanout.mqtt5_alone::<false>(targets, sub),
                    };
                }
                let staged =
                    fanout.with_mqtt_frame(targets, |fanout, frame| match fanout.from.logs_protocol {
                        true => fanout.stage_publish::<true>(conn, frame),
                        false => fanout.stage_publish::<false>(conn, frame),
                    });
                staged == Some(true)
            });
        }
    }

    /// The queue groups that another server has chosen here. Answers the links over which the
    /// message was passed on for some of them.
    fn trace_chosen(
        &mut self,
        trace: &MessageTrace,
        route: &Route,
        queues: &QueueNames<'_>,
        rng: &mut Rng,
    ) -> Passed {
        let mut served = Vec::<&[u8]>::new();
        for group in &route.groups {
            let queue = group.first().and_then(|first| first.sub.queue());
            if let Some(queue) = queue.filter(|queue| queues.contains(queue))
                && self.trace_group(trace, route, group, rng)
            {
                served.push(queue);
            }
        }
        served.extend(chosen(&route.services, queues));
        self.pass_on(queues.iter().filter(|queue| !served.contains(queue)), rng)
    }

    /// Stages a traced message for another server, with the number of the hop. Compat: also for one
    /// that does not tell what becomes of it.
    pub(in crate::shard) fn trace_remote<'g>(
        &mut self,
        trace: &MessageTrace,
        link: (&Arc<Conn>, &[u8]),
        groups: impl Iterator<Item = &'g [u8]>,
        address: &[u8],
    ) {
        let (conn, message) = (link.0, self.message);
        let is_able = conn.headers() && conn.link().is_some_and(LinkEnd::traces);
        let hop = trace.next_hop();
        if !is_able && trace.is_only() {
            return trace.reached_server(conn, hop, Some(Withheld::Unable));
        }
        let asked = self.with_asker(conn, address);
        let message = asked.as_ref().map_or(*message, |asked| asked.of(message));
        let marked = Marked::new(&message, hop.as_bytes(), |out, headers, hop| {
            myelin_wire::header::replace(out, headers, message_trace::HOP.as_bytes(), hop);
        });
        let is_staged = self.stage_routed(link, groups, address, (&marked.of(&message), None));
        let error = match (is_staged, is_able) {
            (false, _) => Some(Withheld::Slow),
            (true, false) => Some(Withheld::Untold),
            (true, true) => None,
        };
        trace.reached_server(conn, hop, error);
    }

    /// One member of a group; false if none gets the message, or would.
    pub(in crate::shard) fn trace_group(
        &mut self,
        trace: &MessageTrace,
        route: &Route,
        group: &[ClientTarget],
        rng: &mut Rng,
    ) -> bool {
        if group.is_empty() {
            return false;
        }
        let start = if group.len() == 1 { 0 } else { rng.below(group.len() as u64) as usize };
        for delivery in group[start..].iter().chain(&group[..start]) {
            let head = self.head_of(&delivery.sub, route.head(delivery));
            // What is not counted when the route is settled is counted here.
            let stage = |fanout: &mut Self| match delivery.sub.conn().mqtt() {
                None => fanout.stage_traced(&delivery.sub, &head),
                Some(_) => fanout.mqtt5_member::<false>(route.subject(), &delivery.sub),
            };
            if self.trace_subscription(trace, route, &delivery.sub, true, stage) {
                if !trace.is_only() && !delivery.careful {
                    delivery.sub.count(1);
                }
                return true;
            }
        }
        false
    }

    /// Head of the frame for one subscription.
    fn head_of(&self, sub: &Subscription, cached: &[u8]) -> Vec<u8> {
        if self.message.to.is_empty() {
            return cached.to_vec();
        }
        let mut head = Vec::new();
        encode::head(&mut head, self.message.subject, sub.sid());
        head
    }

    fn stage_traced(&mut self, sub: &Subscription, head: &[u8]) -> bool {
        match self.from.logs_protocol {
            true => self.stage::<true>(sub.conn(), head),
            false => self.stage::<false>(sub.conn(), head),
        }
    }

    /// One subscription; whether it gets the message, or would. `is_counted_here`: it counts for
    /// itself what it gets. `stage` hands it the message.
    fn trace_subscription(
        &mut self,
        trace: &MessageTrace,
        route: &Route,
        sub: &Arc<Subscription>,
        is_counted_here: bool,
        stage: impl FnOnce(&mut Self) -> bool,
    ) -> bool {
        let is_shown = !trace.is_told() || sub.import().is_none_or(|import| import.allows_trace());
        if let Some(import) = sub.import() {
            trace.exported(sub, &import.naming().name(route.subject()));
        }
        let record = |error| {
            if is_shown {
                trace.reached(sub, error);
            }
        };
        if trace.is_only() && !is_shown {
            self.outcome.delivered = true;
            return true;
        }
        if let Some(why) = self.withholds(sub) {
            record(Some(why));
            if !trace.is_only() && !is_counted_here {
                sub.uncount();
            }
            return false;
        }
        if trace.is_only() {
            self.outcome.delivered = true;
            record(None);
            return true;
        }
        // Messages to plain subscriptions of MQTT clients are counted when the route is settled.
        let is_mqtt = !is_counted_here && sub.conn().mqtt().is_some();
        let is_careful = !is_mqtt && super::super::route::is_careful(sub);
        if is_careful && !self.admit(sub) {
            record(Some(Withheld::Exhausted));
            return false;
        }
        let staged = stage(self);
        record((!staged).then_some(Withheld::Slow));
        if self.from.logs_protocol {
            self.end_finished();
        }
        staged
    }

    /// Why a subscription of the route does not get this message.
    fn withholds(&self, sub: &Subscription) -> Option<Withheld> {
        if self.is_own_echo(sub.conn()) {
            Some(Withheld::Echo)
        } else if self.is_withheld(sub) {
            Some(Withheld::Denied)
        } else if sub.conn().close_requested().is_some() {
            Some(Withheld::Closed)
        } else {
            None
        }
    }
}

/// Tells of those who listen to `subject` and must not hear it: routes do not lead to them.
pub(super) fn trace_denied(trace: &MessageTrace, account: &Account, subject: &[u8], is_imported: bool) {
    let mut matched = Matched::<Arc<Subscription>>::new();
    account.interest.collect(subject, &mut matched);
    let grouped = matched.queues.iter().filter(|group| {
        // Where a member may hear it, that one does.
        group.members.iter().all(|sub| is_denied(sub, subject, is_imported))
    });
    let denied = matched.plain.iter().filter(|sub| is_denied(sub, subject, is_imported));
    for sub in denied.chain(grouped.flat_map(|group| &group.members)) {
        if let Some(import) = sub.import() {
            trace.exported(sub, &import.naming().name(subject));
        }
        if sub.import().is_none_or(|import| import.allows_trace()) {
            trace.reached(sub, Some(Withheld::Denied));
        }
    }
}

impl Shard {
    /// Hands a service a message that is traced.
    pub(in crate::shard) fn hand_traced(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        (service, trace): (&Arc<dyn Service>, &Arc<MessageTrace>),
    ) -> Option<Published> {
        let done = Published::Done { delivered: true, stalled: false };
        match service.trace_role() {
            TraceRole::Untraced => self.queue.push(service, message.msg(), from.conn),
            TraceRole::Import(import) => self.hand_imported(from, message, (service, import), trace),
            TraceRole::System => {
                let system = self.broker.system_account_name();
                trace.imported(&system, message.address(), message.address());
                if trace.is_only() {
                    return None;
                }
                if !trace.is_told() {
                    self.queue.push(service, message.msg(), from.conn);
                    return Some(done);
                }
                let marked = Marked::untraced(message);
                self.queue.push(service, marked.of(message).msg(), from.conn);
            }
            TraceRole::Stream(name) => self.hand_to_stream(message, (service, name), trace),
        }
        Some(done)
    }

    /// Hands a stream a message that is traced. `service`: the stream, or who brings it messages.
    fn hand_to_stream(
        &mut self,
        message: &PubMessage<'_>,
        (service, name): (&Arc<dyn Service>, &str),
        trace: &Arc<MessageTrace>,
    ) {
        let traced = trace.handed_to(name);
        if trace.is_only() || !trace.is_told() {
            return self.queue.push_traced(service, message.msg(), &traced);
        }
        // What is stored is not traced again when it is delivered.
        let marked = Marked::new(message, message_trace::DISABLED, message_trace::set_destination);
        self.queue.push_traced(service, marked.of(message).msg(), &traced);
    }

    /// Hands a service of another account a message that it imports. Compat: without `allow_trace`
    /// the trace ends with the import, and the message goes on as it is.
    fn hand_imported(
        &mut self,
        from: &Publisher<'_>,
        message: &PubMessage<'_>,
        (service, import): (&Arc<dyn Service>, &ShadowService),
        trace: &Arc<MessageTrace>,
    ) {
        let Some(name) = import.name(message.msg().subject) else { return };
        trace.exported_to(import.stream().importer(), &name);
        match import.to().trace_role() {
            TraceRole::Stream(stream) if import.stream().allows_trace() || !trace.is_told() => {
                self.hand_to_stream(message, (service, stream), trace);
            }
            _ if trace.is_only() => {}
            _ => self.queue.push(service, message.msg(), from.conn),
        }
    }
}
