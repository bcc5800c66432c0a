//! The intake of requests: takes them on shards and hands them to a thread.

use super::System;
use super::request::{PING, SystemRequest};
use myelin_broker::{Binding, Conn, Reach, Service, ServiceBatch, ServiceShard};
use myelin_monitor::request::Topic;
use myelin_wire::header;
use serde::Deserialize;
use std::sync::{Arc, Weak};

/// Header that says who asks, where a request has come from another account.
const REQUEST_INFO: &[u8] = b"Nats-Request-Info";

/// Service on the system account's subjects that takes requests on shards and hands them to a
/// thread.
pub(super) struct RequestIntake {
    system: Weak<System>,
    reach: Reach,
}

impl RequestIntake {
    /// Takes requests from now on, until the server ends.
    pub(super) fn open(system: &Arc<System>) {
        for (reach, subjects) in
            [(Reach::Everywhere, subjects(system)), (Reach::Here, HERE.map(str::to_owned).to_vec())]
        {
            let front: Arc<dyn Service> = Arc::new(Self { system: Arc::downgrade(system), reach });
            for subject in subjects {
                system.account.bind(subject.as_bytes(), Arc::clone(&front));
            }
        }
        let silent: Arc<dyn Service> = Arc::new(Silence);
        for subject in UNANSWERED {
            system.account.bind(subject.as_bytes(), Arc::clone(&silent));
        }
    }

    /// Takes requests to one more subject, until it is unbound.
    pub(super) fn bind(system: &Arc<System>, subject: &str) -> Arc<Binding> {
        let intake = Self { system: Arc::downgrade(system), reach: Reach::Everywhere };
        system.account.bind(subject.as_bytes(), Arc::new(intake))
    }
}

/// Service on subjects to which nothing is said. Compat: the reference subscribes to them, so that
/// whoever asks there waits and is not told that nobody listens, and operators see as many
/// subscriptions of either server.
struct Silence;

impl Service for Silence {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        msgs.clear();
    }

    /// The other servers: for this alone nothing is published here.
    fn reach(&self) -> Reach {
        Reach::Elsewhere
    }
}

/// Requests that the server of whoever asks answers alone.
const HERE: [&str; 2] = ["$SYS.REQ.USER.*.INFO", "$SYS.DEBUG.SUBSCRIBERS"];

/// Events of leaf nodes, and requests that are answered where they match a wildcard.
const UNANSWERED: [&str; 2] = ["$SYS.ACCOUNT.*.LEAFNODE.CONNECT", "$SYS.REQ.ACCOUNT.PING.STATZ"];

/// Everything else that is answered.
fn subjects(system: &System) -> Vec<String> {
    let id = &system.id;
    let mut subjects = vec![PING.to_owned(), "$SYS.REQ.ACCOUNT.NSUBS".to_owned()];
    let topics = Topic::of_server().map(|(name, _)| name).chain(["IDZ"]);
    subjects.extend(topics.flat_map(|topic| {
        [format!("$SYS.REQ.SERVER.{id}.{topic}"), format!("$SYS.REQ.SERVER.PING.{topic}")]
    }));
    let of_account = ["SUBSZ", "CONNZ", "LEAFZ", "JSZ", "INFO", "STATZ", "CONNS"];
    subjects.extend(of_account.map(|topic| format!("$SYS.REQ.ACCOUNT.*.{topic}")));
    subjects.extend(["RELOAD", "KICK", "LDM"].map(|what| format!("$SYS.REQ.SERVER.{id}.{what}")));
    subjects.extend(system.claims_subjects().iter().map(|subject| (*subject).to_owned()));
    subjects
}

/// The account that asks, as the server says that let the request through; empty for none.
fn account_of(origin: &Conn, headers: &[u8]) -> String {
    if !origin.is_link() {
        return origin.with_details(|details| details.account.clone());
    }
    #[derive(Deserialize)]
    struct Asker {
        #[serde(default)]
        acc: String,
    }
    let info = header::get(headers, REQUEST_INFO).and_then(|info| serde_json::from_slice(info).ok());
    info.map_or(String::new(), |info: Asker| info.acc)
}

impl Service for RequestIntake {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        if let Some(system) = self.system.upgrade() {
            for (at, msg) in msgs.iter().enumerate() {
                // What this server asks all others it does not ask itself.
                let Some(origin) = msgs.origin(at).filter(|origin| !origin.is_own()) else { continue };
                let account = account_of(origin, msg.headers);
                let is_own = account == system.account.name() || (account.is_empty() && origin.is_link());
                let ask = SystemRequest {
                    subject: String::from_utf8_lossy(msg.subject).into_owned(),
                    reply: msg.reply.to_vec(),
                    headers: msg.headers.to_vec(),
                    body: msg.payload.to_vec(),
                    guest: (!is_own).then_some(account),
                    origin: Some(Arc::clone(origin)),
                };
                let to = if ask.is_quick() { &system.events } else { &system.pages };
                system.ask(to, ask);
            }
        }
        msgs.clear();
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn wants_origin(&self) -> bool {
        true
    }
}
