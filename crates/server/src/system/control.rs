//! Requests to do something: read the configuration again, end a client, have it look for another
//! server.

use super::System;
use super::envelope::{RequestFault, Response};
use super::publisher::send;
use super::request::SystemRequest;
use crate::shard::Mail;
use myelin_monitor::request::{PageRequest, Topic};
use myelin_wire::error::CloseReason;
use myelin_wire::json::compact;
use myelin_wire::message_buf::MessageRef;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

#[derive(Deserialize)]
struct ClientOrder {
    #[serde(default)]
    cid: u64,
}

impl ClientOrder {
    /// Reads an order. Compat: a list is none, not even an empty one.
    fn read(body: &[u8]) -> serde_json::Result<Self> {
        let fields: Option<Map<String, Value>> = serde_json::from_slice(body)?;
        serde_json::from_value(Value::Object(fields.unwrap_or_default()))
    }
}

impl System {
    /// Whether an order is for this server. One that cannot be read is answered here.
    fn is_ordered(&self, ask: &SystemRequest) -> bool {
        if ask.reply.is_empty() {
            return false;
        }
        match PageRequest::read(Topic::Control, &ask.body) {
            Ok(request) => self.is_meant(request.filter()),
            Err(why) => {
                self.reply_with(ask, None, Some(RequestFault::of_request(why)));
                false
            }
        }
    }

    /// The configuration is read again elsewhere, and answered when that is done.
    pub(super) fn answer_reload(&self, ask: &SystemRequest) {
        if !self.is_ordered(ask) {
            return;
        }
        let (reply, mailbox, account) =
            (ask.reply.clone(), self.mailboxes.first().cloned(), Arc::clone(&self.account));
        let server = self.server_info();
        let done = move |outcome: Result<(), String>| {
            let error = outcome.err().map(RequestFault::of_server);
            let body = compact(&Response { server, data: None, error });
            if let Some(mailbox) = mailbox {
                send(
                    &mailbox,
                    &account,
                    MessageRef { subject: &reply, payload: &body, ..MessageRef::default() },
                );
            }
        };
        // A server that ends has no configuration to read.
        let _ = self.orders.send(Box::new(done));
    }

    /// `KICK` and `LDM`.
    pub(super) fn answer_about_client(&self, ask: &SystemRequest) {
        let client = match ClientOrder::read(&ask.body) {
            Ok(client) => client,
            Err(error) => {
                return self.log.error(format_args!("Error unmarshalling kick client request: {error}"));
            }
        };
        if !self.is_ordered(ask) {
            return;
        }
        let done =
            if ask.last() == "KICK" { self.kick(client.cid) } else { self.announce_lame_duck(client.cid) };
        self.reply_with(ask, None, done.err().map(|why| RequestFault::of_server(why.to_owned())));
    }

    fn kick(&self, cid: u64) -> Result<(), &'static str> {
        let conn = self.broker.connection(cid).or_else(|| self.monitor.leaf_node(cid));
        let conn = conn.ok_or("no such client or leafnode id")?;
        conn.close(CloseReason::Kicked);
        Ok(())
    }

    /// Tells one client what all are told in lame duck mode.
    fn announce_lame_duck(&self, cid: u64) -> Result<(), &'static str> {
        let conn = self.broker.connection(cid).ok_or("no such client id")?;
        if !conn.accepts_async_info() {
            return Err("client does not support Lame Duck Mode or is not ready to receive the notification");
        }
        // Its shard knows it, the others do not.
        self.mailboxes.iter().for_each(|mailbox| mailbox.post(Mail::AnnounceLameDuck(cid)));
        Ok(())
    }
}
