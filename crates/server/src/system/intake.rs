//! The intake of requests: takes them on shards and hands them to a thread.

use super::{System, requests};
use myelin_broker::{Conn, Service, ServiceBatch, Shard};
use myelin_monitor::request::Topic;
use std::sync::{Arc, Weak};

/// A request as it came.
pub(super) struct SystemRequest {
    pub(super) subject: String,
    pub(super) reply: Vec<u8>,
    pub(super) headers: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// Connection that asks.
    pub(super) origin: Option<Arc<Conn>>,
    /// The account of an asker who is no member of the system account.
    pub(super) guest: Option<String>,
}

impl SystemRequest {
    /// Token number `at` of the subject, from 0.
    pub(super) fn token(&self, at: usize) -> &str {
        self.subject.split('.').nth(at).unwrap_or_default()
    }

    /// The last token of the subject.
    pub(super) fn last(&self) -> &str {
        self.subject.rsplit('.').next().unwrap_or_default()
    }

    /// Whether the server is to tell of itself: by name, or by the old general call.
    pub(super) fn is_statsz(&self) -> bool {
        self.subject == requests::PING || (self.token(2) == "SERVER" && self.last() == "STATSZ")
    }

    /// Whether the answer takes no time.
    fn is_quick(&self) -> bool {
        self.is_statsz() || matches!(self.last(), "IDZ") || self.token(2) == "USER"
    }
}

/// Service on the system account's subjects that takes requests on shards and hands them to a
/// thread.
pub(super) struct RequestIntake(Weak<System>);

impl RequestIntake {
    /// Takes requests from now on, until the server ends.
    pub(super) fn open(system: &Arc<System>) {
        let front: Arc<dyn Service> = Arc::new(Self(Arc::downgrade(system)));
        for subject in subjects(system) {
            system.account.bind(subject.as_bytes(), Arc::clone(&front));
        }
    }
}

/// Everything that is answered.
fn subjects(system: &System) -> Vec<String> {
    let id = &system.id;
    let mut subjects = vec![
        requests::PING.to_owned(),
        "$SYS.REQ.USER.*.INFO".to_owned(),
        "$SYS.DEBUG.SUBSCRIBERS".to_owned(),
        "$SYS.REQ.ACCOUNT.NSUBS".to_owned(),
    ];
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

impl Service for RequestIntake {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut Shard) {
        if let Some(system) = self.0.upgrade() {
            for (at, msg) in msgs.iter().enumerate() {
                let origin = msgs.origin(at).cloned();
                let account = |conn: &Arc<Conn>| conn.with_details(|details| details.account.clone());
                let account = origin.as_ref().map(account).unwrap_or_default();
                let ask = SystemRequest {
                    subject: String::from_utf8_lossy(msg.subject).into_owned(),
                    reply: msg.reply.to_vec(),
                    headers: msg.headers.to_vec(),
                    body: msg.payload.to_vec(),
                    guest: (account != system.account.name()).then_some(account),
                    origin,
                };
                let to = if ask.is_quick() { &system.events } else { &system.pages };
                system.ask(to, ask);
            }
        }
        msgs.clear();
    }

    fn wants_origin(&self) -> bool {
        true
    }
}
