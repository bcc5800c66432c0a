//! The way to a callout service and back: a question is published in the service's account, its
//! answer comes to a subject of its own.
//!
//! Nothing here waits. A shell runs an [`AuthTask`](crate::AuthTask), publishes the
//! [`PendingCallout`] that may come of it, waits as long as [it says](PendingCallout::timeout), and
//! has the answer judged. What an answer is worth is `auth`'s.
//!
//! A question belongs to one task of the control runtime; while the service thinks, only the
//! question exists.

use crate::account::Account;
use crate::broker::Broker;
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use hashbrown::{HashMap, HashSet};
use myelin_auth::callout::{AuthRequest, ClientInfo, RequestingServer, SUBJECT, ServerKeys, SignedRequest};
use myelin_auth::{Identity, Permissions, Reject};
use myelin_stdx::entropy::Entropy;
use myelin_stdx::id;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Takes what was answered.
type Heard = Box<dyn FnOnce(Vec<u8>) + Send>;

/// Questions of this server that wait for their answers.
pub(crate) struct Callouts {
    keys: ServerKeys,
    /// By which questions are known to be the server's.
    rights: Arc<Permissions>,
    /// Beginning of the subjects of all responses.
    inbox: String,
    pending: Mutex<HashMap<Box<[u8]>, Heard>>,
    /// Accounts in which answers are listened for, by number.
    listening: Mutex<HashSet<u32>>,
}

impl Callouts {
    pub(crate) fn new(keys: ServerKeys, entropy: &dyn Entropy) -> Arc<Self> {
        Arc::new(Self {
            keys,
            rights: Arc::default(),
            inbox: format!("$SYS._INBOX.{}.", id::unique(entropy, 8)),
            pending: Mutex::default(),
            listening: Mutex::default(),
        })
    }

    /// Permissions of the publisher of requests.
    pub(crate) fn rights(&self) -> &Arc<Permissions> {
        &self.rights
    }

    /// Listens for answers in `account`, from now on.
    fn listen(self: &Arc<Self>, account: &Account) {
        // Held until it listens: whoever else asks must not be answered before.
        let mut listening = lock(&self.listening);
        if listening.insert(account.id) {
            let pattern = format!("{}*", self.inbox);
            account.bind(pattern.as_bytes(), Arc::clone(self) as Arc<dyn Service>);
        }
    }
}

impl Service for Callouts {
    /// An answer that nobody waits for any more is worth nothing, and so is a second one.
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        for msg in msgs.iter() {
            let heard = lock(&self.pending).remove(msg.subject);
            if let Some(heard) = heard {
                heard(msg.payload.to_vec());
            }
        }
    }
}

/// A question about one client, on its way.
pub struct PendingCallout {
    broker: Arc<Broker>,
    callouts: Arc<Callouts>,
    account: Arc<Account>,
    question: Box<AuthRequest>,
    client_info: ClientInfo,
    timeout: Duration,
    reply: String,
}

impl PendingCallout {
    /// Whom to ask is known; that there is such an account is not.
    pub(crate) fn new(
        broker: &Arc<Broker>,
        question: Box<AuthRequest>,
        client_info: ClientInfo,
    ) -> Result<Self, Reject> {
        let name = question.account();
        let account = broker.account(name.as_str());
        let missing = || {
            let name = name.as_str();
            Reject::Callout(format!("No valid account {name:?} for auth callout request: account missing"))
        };
        let account = account.ok_or_else(missing)?;
        let callouts = broker.callouts().ok_or_else(missing)?;
        callouts.listen(&account);
        Ok(Self {
            timeout: broker.settings().auth_timeout,
            reply: format!("{}{}", callouts.inbox, id::unique(broker.entropy(), 22)),
            broker: Arc::clone(broker),
            callouts: Arc::clone(callouts),
            account,
            question,
            client_info,
        })
    }

    /// How long to wait for the answer.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The question as it is to be published now, and where. What comes back is given to `heard`,
    /// once, on a shard's thread. Takes some 200 us.
    ///
    /// # Errors
    /// When it cannot be sealed for the service.
    pub fn publish(
        &mut self,
        now: Instant,
        heard: impl FnOnce(Vec<u8>) + Send + 'static,
    ) -> Result<(Arc<Account>, MessageBuf), Reject> {
        let info = self.broker.info();
        let asker = RequestingServer {
            name: info.server_name,
            host: info.host,
            version: info.version,
            cluster: info.cluster,
            tags: self.broker.labels().tags.clone(),
        };
        let client_info = std::mem::take(&mut self.client_info);
        let now = self.broker.wall(now);
        let entropy = self.broker.entropy();
        let request =
            self.question.request(&self.callouts.keys, asker, client_info, now, self.timeout, entropy);
        let SignedRequest { headers, payload } = request.map_err(|fault| {
            let account = self.account.name();
            let what = "Error encrypting auth request claim on account";
            Reject::Callout(format!("{what} {account:?}: {fault}"))
        })?;
        lock(&self.callouts.pending).insert(self.reply.as_bytes().into(), Box::new(heard));
        let mut msgs = MessageBuf::default();
        msgs.push(MessageRef {
            subject: SUBJECT.as_bytes(),
            reply: self.reply.as_bytes(),
            headers: &headers,
            payload: &payload,
            ..MessageRef::default()
        });
        Ok((Arc::clone(&self.account), msgs))
    }

    /// Why nobody is let in where no answer came.
    pub(crate) fn unanswered(&self) -> Reject {
        Reject::Unanswered(self.account.name().to_owned())
    }

    /// Nothing is waited for any more.
    pub fn forget(&mut self) {
        lock(&self.callouts.pending).remove(self.reply.as_bytes());
    }

    /// Judges what was heard, as of now; `None` is nothing in time. Takes some 200 us, and as long
    /// as it takes where another account has to be asked for.
    ///
    /// # Errors
    /// Why nobody is let in.
    pub fn verify(self, answer: Option<Vec<u8>>, now: Instant) -> Result<Identity, Reject> {
        let Some(answer) = answer else { return Err(self.unanswered()) };
        self.question.verify(&answer, &self.callouts.keys, &*self.broker, self.broker.wall(now))
    }
}

impl Drop for PendingCallout {
    fn drop(&mut self) {
        self.forget();
    }
}

impl fmt::Debug for PendingCallout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asking({})", self.account.name())
    }
}

impl Broker {
    /// The keys of this server, with which it asks callout services. Once, before the first
    /// connection.
    pub fn set_keys(&self, keys: ServerKeys) {
        let _ = self.callouts.set(Callouts::new(keys, self.entropy()));
    }

    pub(crate) fn callouts(&self) -> Option<&Arc<Callouts>> {
        self.callouts.get()
    }
}
