//! Answers that are there sooner than word of who waits for them.
//!
//! Whoever leads a stream answers for the meta leader as soon as that has decided. The request
//! itself, and the interest in its answer, come to this server on another way, from another cluster
//! maybe, and may come later: until then the answer waits.

use super::JetStream;
use crate::engine::host::Timer;
use myelin_broker::Account;
use myelin_jsapi::advisory::Advisory;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::{Arc, Mutex, Weak};

/// Nanoseconds between two looks.
const PAUSE: Timestamp = 20_000_000;
/// Nanoseconds after which nobody is there who waits.
const PATIENCE: Timestamp = 2_000_000_000;
/// Answers at most that wait: of more, some are lost with who has asked and gone.
const MOST: usize = 1024;

pub(super) struct LateAnswers {
    jetstream: Weak<JetStream>,
    waiting: Mutex<Vec<LateAnswer>>,
    me: Weak<Self>,
}

struct LateAnswer {
    account: Arc<Account>,
    /// Where it goes; empty where nobody waits.
    reply: String,
    body: Vec<u8>,
    /// Audit, which goes behind it.
    audit: Option<Advisory>,
    until: Timestamp,
}

impl LateAnswer {
    fn send(&self, jetstream: &JetStream) {
        let mut out = MessageBuf::default();
        let mut push = |subject: &str, payload: &[u8]| {
            out.push(MessageRef { subject: subject.as_bytes(), payload, ..MessageRef::default() });
        };
        if !self.reply.is_empty() {
            push(&self.reply, &self.body);
        }
        self.audit.iter().for_each(|audit| push(&audit.subject, &audit.body));
        jetstream.host.publish(&self.account, out);
    }

    fn is_awaited(&self) -> bool {
        self.reply.is_empty() || self.account.has_interest(self.reply.as_bytes())
    }
}

impl LateAnswers {
    pub(super) fn new(jetstream: &Arc<JetStream>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            jetstream: Arc::downgrade(jetstream),
            waiting: Mutex::default(),
            me: Weak::clone(me),
        })
    }

    /// Publishes an answer and the audit of it, at once if somebody is known to wait for it.
    pub(super) fn answer(
        &self,
        jetstream: &JetStream,
        account: Arc<Account>,
        (reply, body): (&str, &[u8]),
        audit: Option<Advisory>,
    ) {
        let until = jetstream.host.now() + PATIENCE;
        let answer = LateAnswer { account, reply: reply.to_owned(), body: body.to_vec(), audit, until };
        let mut waiting = lock(&self.waiting);
        if answer.is_awaited() || waiting.len() >= MOST {
            return answer.send(jetstream);
        }
        waiting.push(answer);
        if waiting.len() == 1 {
            self.look_again(jetstream);
        }
    }

    fn look_again(&self, jetstream: &JetStream) {
        let timer = Weak::clone(&self.me) as Weak<dyn Timer>;
        jetstream.host.schedule(jetstream.host.now() + PAUSE, timer);
    }
}

impl Timer for LateAnswers {
    fn fire(&self) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let mut waiting = lock(&self.waiting);
        let now = jetstream.host.now();
        let is_due = |one: &mut LateAnswer| one.until <= now || one.is_awaited();
        waiting.extract_if(.., is_due).for_each(|one| one.send(&jetstream));
        if !waiting.is_empty() {
            self.look_again(&jetstream);
        }
    }
}
