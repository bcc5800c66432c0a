//! Twin of the broker, written to be read: a list of subscriptions that every message is compared
//! with. It is told the operations in the order in which they were taken, and the flushes.
//!
//! Where the broker has a choice (which member of a queue group), the twin looks at what arrived,
//! checks that it was one that could be chosen, and goes on from there.

use super::script::{CLIENTS, Hello, Op, Publication};

/// Step of a run, in order: a client's operation was taken, a shard flushed, a client ended.
#[derive(Debug)]
pub(super) enum Event {
    Took(usize, Op),
    Flushed(usize),
    Ended(usize),
}

/// Something that a client must receive.
#[derive(Debug)]
enum Due {
    Line(String),
    /// Frames of one message, in any order.
    Frames(Vec<String>),
    /// One of these.
    OneOf(Vec<String>),
}

struct Client {
    hello: Hello,
    due: Vec<Due>,
    messages: (u64, u64),
}

#[derive(Clone)]
pub(super) struct Sub {
    pub(super) client: usize,
    pub(super) sid: u8,
    subject: &'static str,
    queue: Option<&'static str>,
    pub(super) delivered: u64,
    max: Option<u32>,
}

/// Twin of the broker: compares every message with a list of subscriptions.
pub(super) struct Twin<'a> {
    /// Bytes that each client received until the end.
    received: &'a [String],
    clients: Vec<Client>,
    pub(super) subs: Vec<Sub>,
    /// Lines and frames that each shard has for clients until its flush.
    staged: [Vec<(usize, Due)>; 2],
}

/// User `c` must not publish or receive these.
pub(super) const NO_PUBLISH: &str = "b.a";
pub(super) const NO_DELIVERY: &str = "a.b";

impl Hello {
    fn account(&self) -> &str {
        if self.user == "b" { "B" } else { "A" }
    }

    fn is_restricted(&self) -> bool {
        self.user == "c"
    }
}

impl<'a> Twin<'a> {
    pub(super) fn new(received: &'a [String]) -> Self {
        let nobody = Hello { user: "", echo: true, headers: false, verbose: true, no_responders: false };
        let client = |_| Client { hello: nobody.clone(), due: Vec::new(), messages: (0, 0) };
        let staged = [Vec::new(), Vec::new()];
        Self { received, clients: CLIENTS.iter().map(client).collect(), subs: Vec::new(), staged }
    }

    pub(super) fn replay(&mut self, event: &Event) {
        match event {
            Event::Took(client, Op::Connect(hello)) => {
                self.subs.retain(|sub| sub.client != *client);
                self.clients[*client].hello = hello.clone();
                self.stage_ok(*client);
            }
            Event::Took(client, Op::Sub { subject, queue, sid }) => {
                self.subscribe(*client, subject, *queue, *sid)
            }
            Event::Took(client, Op::Unsub { sid, max }) => self.unsubscribe(*client, *sid, *max),
            Event::Took(client, Op::Pub(publication)) => self.publish(*client, publication),
            Event::Took(client, Op::Ping) => self.stage_line(*client, *client, Due::Line("PONG\r\n".into())),
            Event::Ended(client) => self.subs.retain(|sub| sub.client != *client),
            Event::Flushed(shard) => {
                for (client, due) in std::mem::take(&mut self.staged[*shard]) {
                    self.clients[client].due.push(due);
                }
            }
        }
    }

    /// Stages `due` for `to` on the shard of `by`, which has caused it.
    fn stage_line(&mut self, by: usize, to: usize, due: Due) {
        self.staged[CLIENTS[by]].push((to, due));
    }

    fn stage_error(&mut self, client: usize, text: &str) {
        self.stage_line(client, client, Due::Line(format!("-ERR '{text}'\r\n")));
    }

    fn stage_ok(&mut self, client: usize) {
        if self.clients[client].hello.verbose {
            self.stage_line(client, client, Due::Line("+OK\r\n".into()));
        }
    }

    fn subscribe(&mut self, client: usize, subject: &'static str, queue: Option<&'static str>, sid: u8) {
        if self.clients[client].hello.is_restricted() && subject == NO_DELIVERY {
            let group = queue.map(|q| format!(" using queue \"{q}\"")).unwrap_or_default();
            return self.stage_error(
                client,
                &format!("Permissions Violation for Subscription to \"{subject}\"{group}"),
            );
        }
        if self.subs.iter().all(|sub| (sub.client, sub.sid) != (client, sid)) {
            if subject.contains("..") {
                return self.stage_error(client, "Invalid Subject");
            }
            self.subs.push(Sub { client, sid, subject, queue, delivered: 0, max: None });
        }
        self.stage_ok(client);
    }

    fn unsubscribe(&mut self, client: usize, sid: u8, max: Option<u32>) {
        if let Some(at) = self.subs.iter().position(|sub| (sub.client, sub.sid) == (client, sid)) {
            match max {
                Some(max) if u64::from(max) > self.subs[at].delivered => self.subs[at].max = Some(max),
                _ => drop(self.subs.remove(at)),
            }
        }
        self.stage_ok(client);
    }

    fn publish(&mut self, by: usize, message: &Publication) {
        let publisher = self.clients[by].hello.clone();
        if publisher.is_restricted() && message.subject == NO_PUBLISH {
            return self.stage_error(by, &format!("Permissions Violation for Publish to \"{NO_PUBLISH}\""));
        }
        self.stage_ok(by);
        let could_receive: Vec<usize> = (0..self.subs.len())
            .filter(|&at| publisher.echo || self.subs[at].client != by)
            .filter(|&at| self.matches(&self.subs[at], publisher.account(), message.subject))
            .collect();
        let (plain, members): (Vec<_>, Vec<_>) =
            could_receive.iter().partition(|&&at| self.subs[at].queue.is_none());
        self.deliver(by, message, &plain);
        let chosen: Vec<usize> = ["p", "q"]
            .into_iter()
            .filter_map(|queue| {
                let group: Vec<_> =
                    members.iter().copied().filter(|&at| self.subs[at].queue == Some(queue)).collect();
                (!group.is_empty()).then(|| self.chosen_member(&group, message))
            })
            .collect();
        self.deliver(by, message, &chosen);
        self.subs.retain(|sub| sub.max.is_none_or(|max| sub.delivered < u64::from(max)));
        if could_receive.is_empty() && publisher.no_responders {
            self.stage_no_responders(by, message);
        }
    }

    fn matches(&self, sub: &Sub, account: &str, subject: &str) -> bool {
        let receiver = &self.clients[sub.client].hello;
        receiver.account() == account
            && myelin_subject::matches(sub.subject.as_bytes(), subject.as_bytes())
            && !(receiver.is_restricted() && subject == NO_DELIVERY)
    }

    fn deliver(&mut self, by: usize, message: &Publication, subs: &[usize]) {
        for client in 0..CLIENTS.len() {
            let its: Vec<usize> = subs.iter().copied().filter(|&at| self.subs[at].client == client).collect();
            let frames: Vec<String> = its.iter().map(|&at| self.frame(&self.subs[at], message)).collect();
            let header = if self.clients[client].hello.headers { message.header.len() } else { 0 };
            for at in its {
                self.subs[at].delivered += 1;
                self.clients[client].messages.0 += 1;
                self.clients[client].messages.1 += (header + message.payload.len()) as u64;
            }
            if !frames.is_empty() {
                self.stage_line(by, client, Due::Frames(frames));
            }
        }
    }

    /// The member of a queue group that did get the message: there must be exactly one.
    fn chosen_member(&self, group: &[usize], message: &Publication) -> usize {
        let mut chosen = Vec::new();
        for &at in group {
            let sub = &self.subs[at];
            for _ in self.received[sub.client].matches(&self.frame(sub, message)) {
                chosen.push(at);
            }
        }
        assert_eq!(chosen.len(), 1, "members of a group that got {} on {}", id(message), message.subject);
        chosen[0]
    }

    fn stage_no_responders(&mut self, by: usize, message: &Publication) {
        let Some(reply) = message.reply else { return };
        let account = self.clients[by].hello.account().to_owned();
        let len = 32 + message.subject.len();
        let subject = message.subject;
        let frames: Vec<String> = self
            .subs
            .iter()
            .filter(|sub| sub.client == by && sub.queue.is_none() && self.matches(sub, &account, reply))
            .map(|sub| {
                let sid = sub.sid;
                format!(
                    "HMSG {reply} {sid} {len} {len}\r\nNATS/1.0 503\r\nNats-Subject: {subject}\r\n\r\n\r\n"
                )
            })
            .collect();
        if !frames.is_empty() {
            self.stage_line(by, by, Due::OneOf(frames));
        }
    }

    fn frame(&self, sub: &Sub, message: &Publication) -> String {
        let Publication { subject, header, payload, .. } = message;
        let reply = message.reply.map(|r| format!("{r} ")).unwrap_or_default();
        let (sid, total) = (sub.sid, header.len() + payload.len());
        if header.is_empty() || !self.clients[sub.client].hello.headers {
            return format!("MSG {subject} {sid} {reply}{}\r\n{payload}\r\n", payload.len());
        }
        format!("HMSG {subject} {sid} {reply}{} {total}\r\n{header}{payload}\r\n", header.len())
    }

    /// Messages and payload bytes that a client was due.
    pub(super) fn messages(&self, client: usize) -> (u64, u64) {
        self.clients[client].messages
    }

    /// Asserts that each client received what it was due, in that order, and nothing else.
    pub(super) fn check(&self) {
        for (client, Client { due, .. }) in self.clients.iter().enumerate() {
            let mut rest = self.received[client].as_str();
            for due in due {
                rest = after(rest, due)
                    .unwrap_or_else(|| panic!("client {client}: {due:.300?} expected at {rest:.300?}"));
            }
            assert_eq!(rest, "", "client {client} received more than it was due");
        }
    }
}

/// Rest of `text` behind what was due; `None` if that is not there.
fn after<'t>(text: &'t str, due: &Due) -> Option<&'t str> {
    match due {
        Due::Line(line) => text.strip_prefix(line.as_str()),
        Due::OneOf(frames) => frames.iter().find_map(|frame| text.strip_prefix(frame.as_str())),
        Due::Frames(frames) => {
            let mut rest = text;
            let mut open: Vec<&str> = frames.iter().map(String::as_str).collect();
            while !open.is_empty() {
                let at = open.iter().position(|frame| rest.starts_with(frame))?;
                rest = &rest[open.swap_remove(at).len()..];
            }
            Some(rest)
        }
    }
}

fn id(message: &Publication) -> &str {
    message.payload.split(';').next().unwrap_or_default()
}
