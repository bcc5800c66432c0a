//! Calls: what each request to the API does, on a thread that may wait.
//!
//! One file per family. A call answers with the bytes of its response; here it is found out which call a subject means,
//! counted, and told to whoever listens for the audit.

mod account;
mod backup;
mod cluster;
mod consumers;
mod listing;
mod messages;
mod purge;
mod streams;

use super::{AccountStreams, JetStream, Request};
use crate::advisory::{self, Action, Advisory, ClientInfo, Stamp};
use crate::api::response::{Answer, granted, refused};
use crate::config::API_LEVEL;
use crate::error::ApiError;

use cluster::{CancelMove, EvacuatePeer, LeaderStepDown, RemovePeer};
use myelin_broker::{Conn, MessageBuf, MessageRef};
use myelin_store::Timestamp;
use myelin_wire::header;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Where audits are published.
const AUDIT: &[u8] = b"$JS.EVENT.ADVISORY.API";

/// One request and where it is to be done.
pub(super) struct Call<'a> {
    jetstream: &'a Arc<JetStream>,
    account: &'a Arc<AccountStreams>,
    request: &'a Request,
    /// Where it is asked, with the API's own prefix whatever the domain.
    subject: String,
    /// The answer's headers, where there are any.
    headers: Vec<u8>,
    /// What there is to be said. Compat: that a stream has changed comes before the answer, the audit after it.
    out: MessageBuf,
}

/// What a call has to say.
struct Said {
    body: Vec<u8>,
    is_error: bool,
    /// Whether it counts and is told to the audit. Compat: a message that was got is not.
    is_audited: bool,
    /// Whether the answer is on its way already.
    is_said: bool,
}

impl JetStream {
    /// Does what a request asks for. What there is to be said is for the request's account, in this order.
    pub fn answer(self: &Arc<Self>, request: &Request) -> MessageBuf {
        let Some(account) = self.account(request.account.name()) else { return MessageBuf::default() };
        let mut call = Call {
            jetstream: self,
            account: &account,
            request,
            subject: String::new(),
            headers: Vec::new(),
            out: MessageBuf::default(),
        };
        // Compat: a request that means nothing gets no answer.
        let Some(said) = call.dispatch() else { return call.out };
        if !request.reply.is_empty() && !said.is_said {
            let headers = &call.headers;
            call.out.push(MessageRef {
                subject: &request.reply,
                headers,
                payload: &said.body,
                ..MessageRef::default()
            });
        }
        if said.is_audited {
            account.count_call(said.is_error);
            call.audit(&said.body);
        }
        call.out
    }
}

impl Call<'_> {
    fn dispatch(&mut self) -> Option<Said> {
        let subject = String::from_utf8_lossy(&self.request.subject).into_owned();
        let rest = subject.split_once(".API.").map(|(_, rest)| rest)?;
        self.subject = format!("$JS.API.{rest}");
        let tokens: Vec<&str> = rest.split('.').collect();
        if self.account.account().is_system() {
            return self.dispatch_of_system(&tokens);
        }
        Some(match tokens[..] {
            ["INFO"] => self.say(Self::account_info),
            ["STREAM", "NAMES"] => self.say(Self::stream_names),
            ["STREAM", "LIST"] => self.say(Self::stream_list),
            ["STREAM", "CREATE", name] => self.say(|call| call.create_stream(name)),
            ["STREAM", "UPDATE", name] => self.say(|call| call.update_stream(name)),
            ["STREAM", "INFO", name] => self.say(|call| call.stream_info(name)),
            ["STREAM", "DELETE", name] => self.say(|call| call.delete_stream(name)),
            ["STREAM", "SNAPSHOT", name] => self.snapshot_stream(name),
            ["STREAM", "RESTORE", name] => self.say(|call| call.restore_stream(name)),
            ["STREAM", "PURGE", name] => self.say(|call| call.purge_stream(name)),
            ["STREAM", "MSG", "DELETE", name] => self.say(|call| call.delete_message(name)),
            ["STREAM", "MSG", "GET", name] => self.get_message(name),
            ["STREAM", "LEADER", "STEPDOWN", _] => self.needs_cluster::<LeaderStepDown>(),
            ["STREAM", "PEER", "REMOVE", _] => self.needs_cluster::<RemovePeer>(),
            ["STREAM", "PEER", "EVACUATE", _] => self.needs_cluster::<EvacuatePeer>(),
            ["STREAM", "CANCEL_MOVE", _] => self.needs_cluster::<CancelMove>(),
            ["CONSUMER", ref rest @ ..] => return self.dispatch_of_consumers(rest),
            _ => return None,
        })
    }

    /// Does the call unless there is a reason to refuse any.
    fn say<A: Answer>(&mut self, act: impl FnOnce(&mut Self) -> Result<A, ApiError>) -> Said {
        self.say_to_all(|call| call.admit().and_then(|()| act(call)))
    }

    /// Does the call, whoever asks.
    fn say_to_all<A: Answer>(&mut self, act: impl FnOnce(&mut Self) -> Result<A, ApiError>) -> Said {
        match act(self) {
            Ok(answer) => Said { body: granted(&answer), is_error: false, is_audited: true, is_said: false },
            Err(error) => {
                Said { body: refused::<A>(&error), is_error: true, is_audited: true, is_said: false }
            }
        }
    }

    fn admit(&self) -> Result<(), ApiError> {
        let level =
            header::get(&self.request.headers, b"Nats-Required-Api-Level").filter(|level| !level.is_empty());
        let is_known = |level: &[u8]| {
            let number = std::str::from_utf8(level).ok().and_then(|text| text.parse::<i64>().ok());
            number.is_some_and(|level| level <= i64::from(API_LEVEL))
        };
        if level.is_some_and(|level| !is_known(level)) {
            return Err(ApiError::REQUIRED_API_LEVEL);
        }
        if self.account.limits().is_none() {
            return Err(ApiError::NOT_ENABLED_FOR_ACCOUNT);
        }
        Ok(())
    }

    fn body(&self) -> &[u8] {
        &self.request.payload
    }

    fn is_strict(&self) -> bool {
        self.jetstream.settings.strict
    }

    /// Tells those who listen that something was done to a stream.
    fn advise(&mut self, stream: &str, action: Action) {
        let id = self.jetstream.host.unique_id();
        let advisory = advisory::stream_action(self.stamp(&id), stream, action);
        self.publish(&advisory);
    }

    /// Tells those who listen what was asked and answered. Costs little where nobody does.
    fn audit(&mut self, response: &[u8]) {
        if !self.account.account().has_interest(AUDIT) {
            return;
        }
        let request = self.request;
        let server = &self.jetstream.settings.server_name;
        let client = self.client();
        let id = self.jetstream.host.unique_id();
        let (subject, body) = (self.subject.as_bytes(), &request.payload);
        let advisory = advisory::api_audit(self.stamp(&id), server, client.as_ref(), subject, body, response);
        self.publish(&advisory);
    }

    fn stamp<'s>(&'s self, id: &'s str) -> Stamp<'s> {
        Stamp { id, time: self.jetstream.host.now(), domain: &self.jetstream.settings.domain }
    }

    fn publish(&mut self, advisory: &Advisory) {
        let subject = advisory.subject.as_bytes();
        if self.account.account().has_interest(subject) {
            self.out.push(MessageRef { subject, payload: &advisory.body, ..MessageRef::default() });
        }
    }
}

/// What is said of a client of another account, which may not share who it is.
fn from_abroad(client: ClientInfo, request: &Request) -> ClientInfo {
    let service = request.account.name().to_owned();
    let info = header::get(&request.headers, b"Nats-Request-Info").unwrap_or_default();
    let info: serde_json::Value = serde_json::from_slice(info).unwrap_or_default();
    if info.get("id").is_some() {
        return ClientInfo { service, ..client };
    }
    let ClientInfo { account, rtt, server, cluster, .. } = client;
    ClientInfo { account, rtt, server, cluster, service, ..ClientInfo::default() }
}

/// Who asked, in the words of audits.
fn client_info(conn: &Conn, server: &str, cluster: String) -> ClientInfo {
    let endpoint = conn.endpoint();
    let start = endpoint.start.duration_since(UNIX_EPOCH).unwrap_or_default();
    conn.with_details(|details| ClientInfo {
        start: Timestamp::try_from(start.as_nanos()).unwrap_or(0),
        host: endpoint.peer.ip().to_string(),
        id: conn.cid(),
        account: details.account.clone(),
        user: details.user.clone().unwrap_or_default(),
        name: details.name.clone(),
        lang: details.lang.clone(),
        version: details.version.clone(),
        rtt: details.rtt.map_or(0, |rtt| rtt.as_nanos() as i64),
        server: server.to_owned(),
        cluster,
        kind: "Client".to_owned(),
        client_type: "nats".to_owned(),
        ..ClientInfo::default()
    })
}
