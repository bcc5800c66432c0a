//! Calls: what each request to the API does, on the thread of the API, which does not wait for
//! them.
//!
//! One file per family. A call answers with the bytes of its response, now or when what it waits
//! for has come: `pending` keeps those that wait, and their order. Here it is found out which call
//! a subject means, counted, and told to whoever listens for the audit.

mod account;
mod asking;
mod backup;
mod cluster;
mod clustered;
mod consumers;
mod keys;
mod lines;
mod listing;
mod messages;
mod moves;
mod order;
mod pending;
mod purge;
mod recover;
mod scrub;
mod streams;
mod unanswerable;
mod why;

use super::host::Task;
use super::{AccountStreams, ApiRequest, JetStream};
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::{self, AUDIT, Action, Advisory, AdvisoryHeader, ClientInfo};
use myelin_jsapi::api::response::{ApiResponse, granted, refused};
use myelin_jsapi::config::API_LEVEL;

use cluster::{CancelMove, EvacuatePeer, RemovePeer};
use clustered::{Handled, StreamSteppedDown};
use myelin_broker::{ASKER, Conn};
use myelin_store::Timestamp;
use myelin_wire::header;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::UNIX_EPOCH;

/// Header of a request that another account has sent, with who that is.
const REQUEST_INFO: &[u8] = b"Nats-Request-Info";

pub use keys::CallScope;
pub use pending::{ApiCalls, CallGuard};

/// A call that is under way.
type CallFuture = Pin<Box<dyn Future<Output = CallOutput>>>;

/// Outcome of a call.
#[derive(Default)]
struct CallOutput {
    /// Messages for its account.
    out: MessageBuf,
    /// Tasks to be done when these are on their way.
    then: Vec<Task>,
}

/// One request and where it is to be done.
pub(super) struct Call {
    jetstream: Arc<JetStream>,
    account: Arc<AccountStreams>,
    request: Arc<ApiRequest>,
    /// Where it is asked, with the API's own prefix whatever the domain.
    subject: String,
    /// The answer's headers, where there are any.
    headers: Vec<u8>,
    /// Messages of the call. Compat: that a stream has changed comes before the answer, the audit
    /// after it.
    out: MessageBuf,
    /// Consequences of the call, behind its answer: clients want to know the name of a consumer
    /// before its messages come.
    then: Vec<Task>,
}

/// Response of a call.
struct CallResponse {
    body: Vec<u8>,
    is_error: bool,
    /// Whether it counts and is told to the audit. Compat: a message that was got is not.
    is_audited: bool,
    /// Messages between the answer and the audit.
    behind: MessageBuf,
}

impl JetStream {
    /// Does what a request asks for, and the journal's rounds that it waits for: for who has one
    /// thread only. What there is to be said is for the request's account, in this order, once
    /// [`JetStream::settle`] has returned.
    pub fn answer(self: &Arc<Self>, request: &ApiRequest) -> MessageBuf {
        let mut call = self.call(Arc::new(request.clone()));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = call.as_mut().poll(&mut context) {
                return self.spawn_followups(output);
            }
            if self.journal().round_now(&|| self.host.now().unsigned_abs()).is_err() {
                // Streams were told of it; what they do not answer is not answered.
                let last = call.as_mut().poll(&mut context);
                let Poll::Ready(output) = last else { return MessageBuf::default() };
                return self.spawn_followups(output);
            }
        }
    }

    fn spawn_followups(&self, output: CallOutput) -> MessageBuf {
        output.then.into_iter().for_each(|task| self.host.spawn_api(CallScope::Nothing, task));
        output.out
    }

    /// Begins to do what a request asks for.
    fn call(self: &Arc<Self>, request: Arc<ApiRequest>) -> CallFuture {
        let jetstream = Arc::clone(self);
        Box::pin(async move {
            let Some(account) = jetstream.account(request.account.name()) else {
                return CallOutput::default();
            };
            let (subject, headers, out) = (String::new(), Vec::new(), MessageBuf::default());
            Call { jetstream, account, request, subject, headers, out, then: Vec::new() }.run().await
        })
    }
}

impl Call {
    async fn run(mut self) -> CallOutput {
        // Compat: a request that means nothing gets no answer.
        let Some(mut response) = self.dispatch().await else { return self.end() };
        if !self.request.reply.is_empty() {
            self.out.push(MessageRef {
                subject: &self.request.reply,
                headers: &self.headers,
                payload: &response.body,
                ..MessageRef::default()
            });
        }
        self.out.append(&mut response.behind);
        if response.is_audited {
            self.account.count_call(response.is_error);
            self.audit(&response.body);
        }
        self.end()
    }

    fn end(self) -> CallOutput {
        CallOutput { out: self.out, then: self.then }
    }

    async fn dispatch(&mut self) -> Option<CallResponse> {
        let subject = String::from_utf8_lossy(&self.request.subject).into_owned();
        let rest = subject.split_once(".API.").map(|(_, rest)| rest)?;
        self.subject = format!("$JS.API.{rest}");
        let tokens: Vec<&str> = rest.split('.').collect();
        if self.account.account().is_system() {
            return self.dispatch_of_system(&tokens).await;
        }
        let handled = match self.jetstream.meta() {
            Some(meta) => self.dispatch_clustered(&meta, &tokens).await,
            None => self.before_meta(&tokens),
        };
        if let Handled::Done(response) = handled {
            return response;
        }
        Some(match tokens[..] {
            ["INFO"] => self.respond(async |call| call.account_info()).await,
            ["STREAM", "NAMES"] => self.respond(async |call| call.stream_names()).await,
            ["STREAM", "LIST"] => self.respond(async |call| call.stream_list()).await,
            ["STREAM", "CREATE", name] => self.respond(async |call| call.create_stream(name).await).await,
            ["STREAM", "UPDATE", name] => self.respond(async |call| call.update_stream(name).await).await,
            ["STREAM", "INFO", name] => self.respond(async |call| call.stream_info(name).await).await,
            ["STREAM", "DELETE", name] => self.respond(async |call| call.delete_stream(name).await).await,
            ["STREAM", "SNAPSHOT", name] => self.snapshot_stream(name).await,
            ["STREAM", "RESTORE", name] => self.respond(async |call| call.restore_stream(name)).await,
            ["STREAM", "PURGE", name] => self.respond(async |call| call.purge_stream(name).await).await,
            ["STREAM", "MSG", "DELETE", name] => {
                self.respond(async |call| call.delete_message(name).await).await
            }
            ["STREAM", "MSG", "GET", name] => self.get_message(name).await,
            ["STREAM", "LEADER", "STEPDOWN", _] => self.needs_cluster::<StreamSteppedDown>(),
            ["STREAM", "PEER", "REMOVE", _] => self.needs_cluster::<RemovePeer>(),
            ["STREAM", "PEER", "EVACUATE", _] => self.needs_cluster::<EvacuatePeer>(),
            ["STREAM", "CANCEL_MOVE", _] => self.needs_cluster::<CancelMove>(),
            ["MYELIN", "WHY", ref rest @ ..] => return self.dispatch_of_why(rest).await,
            ["MYELIN", "SCRUB", ref rest @ ..] => return self.dispatch_of_scrub(rest).await,
            ["CONSUMER", ref rest @ ..] => return self.dispatch_of_consumers(rest).await,
            _ => return None,
        })
    }

    /// Does the call unless there is a reason to refuse any.
    async fn respond<A: ApiResponse>(
        &mut self,
        act: impl AsyncFnOnce(&mut Self) -> Result<A, ApiError>,
    ) -> CallResponse {
        let outcome = match self.admit() {
            Ok(()) => act(self).await,
            Err(error) => Err(error),
        };
        respond_to_any(outcome)
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
    fn add_advisory(&mut self, stream: &str, action: Action) {
        let id = self.jetstream.host.unique_id();
        let advisory = advisory::stream_action(self.header(&id), stream, action);
        self.publish(&advisory);
    }

    /// Tells those who listen what was asked and answered. Costs little where nobody does.
    fn audit(&mut self, response: &[u8]) {
        if !self.account.account().has_interest(AUDIT) {
            return;
        }
        let request = Arc::clone(&self.request);
        let server = &self.jetstream.settings.server_name;
        let client = self.client();
        let id = self.jetstream.host.unique_id();
        let (subject, body) = (self.subject.as_bytes(), &request.payload);
        let advisory =
            advisory::api_audit(self.header(&id), server, client.as_ref(), subject, body, response);
        self.publish(&advisory);
    }

    fn header<'s>(&'s self, id: &'s str) -> AdvisoryHeader<'s> {
        AdvisoryHeader { id, time: self.jetstream.host.now(), domain: &self.jetstream.settings.domain }
    }

    fn publish(&mut self, advisory: &Advisory) {
        let subject = advisory.subject.as_bytes();
        if self.account.account().has_interest(subject) {
            self.out.push(MessageRef { subject, payload: &advisory.body, ..MessageRef::default() });
        }
    }
}

/// Response that a call has come to, whoever asks.
fn respond_to_any<A: ApiResponse>(outcome: Result<A, ApiError>) -> CallResponse {
    match outcome {
        Ok(answer) => CallResponse::audited(granted(&answer), false),
        Err(error) => CallResponse::audited(refused::<A>(&error), true),
    }
}

impl CallResponse {
    fn audited(body: Vec<u8>, is_error: bool) -> Self {
        Self { body, is_error, is_audited: true, behind: MessageBuf::default() }
    }
}

/// Client of another account as audits show it, which may not share who it is.
fn with_service_account(client: ClientInfo, request: &ApiRequest) -> ClientInfo {
    let service = request.account.name().to_owned();
    let info = header::get(&request.headers, REQUEST_INFO).unwrap_or_default();
    let info: serde_json::Value = serde_json::from_slice(info).unwrap_or_default();
    if info.get("id").is_some() {
        return ClientInfo { service, ..client };
    }
    let ClientInfo { account, rtt, server, cluster, .. } = client;
    ClientInfo { account, rtt, server, cluster, service, ..ClientInfo::default() }
}

/// Client that has asked at another server, as that one tells. Of one of which it does not only the
/// account is known.
fn told_client(conn: &Conn, request: &ApiRequest) -> ClientInfo {
    let told = header::get(&request.headers, ASKER).filter(|_| conn.says_askers());
    let told = told.and_then(|told| serde_json::from_slice::<ClientInfo>(told).ok());
    told.filter(|client| !client.account.is_empty())
        .unwrap_or_else(|| ClientInfo { account: request.account.name().to_owned(), ..ClientInfo::default() })
}

/// Leaf node on whose link somebody has asked, in the words of audits: its connection.
fn leaf_node_info(link: ClientInfo) -> ClientInfo {
    let (server, kind) = (link.name.clone(), "Leafnode".to_owned());
    ClientInfo { server, kind, client_type: String::new(), ..link }
}

/// Client that asked, in the words of audits.
fn client_info(conn: &Conn, server: &str, cluster: String) -> ClientInfo {
    let endpoint = conn.endpoint();
    let start = endpoint.start.duration_since(UNIX_EPOCH).unwrap_or_default();
    conn.with_details(|details| ClientInfo {
        start: Timestamp::try_from(start.as_nanos()).unwrap_or(0),
        host: endpoint.peer.ip().to_string(),
        id: conn.cid(),
        account: details.account.clone(),
        user: details.user.clone().unwrap_or_default(),
        name: details.name.to_string(),
        lang: details.lang.to_string(),
        version: details.version.to_string(),
        rtt: details.rtt.map_or(0, |rtt| rtt.as_nanos() as i64),
        server: server.to_owned(),
        cluster,
        kind: "Client".to_owned(),
        client_type: "nats".to_owned(),
        ..ClientInfo::default()
    })
}
