//! Requests about tokens of accounts (`$SYS.REQ.CLAIMS.*`).

use super::System;
use super::request::SystemRequest;
use crate::resolver::{Updated, update_known};
use crate::shard::Mail;
use myelin_broker::ServerInfo;
use myelin_wire::json::compact;
use serde::Serialize;

/// Of one account, in two forms, the older last. Compat: answered without an operator, too.
const OF_ACCOUNT: [&str; 2] = ["$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE", "$SYS.ACCOUNT.*.CLAIMS.UPDATE"];
/// Where tokens are kept.
const OF_KEEPER: [&str; 3] = ["$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.CLAIMS.LIST", "$SYS.REQ.CLAIMS.DELETE"];
/// Where all of them are, for other servers.
const OF_FULL_KEEPER: [&str; 2] = ["$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP", "$SYS.REQ.CLAIMS.PACK"];

#[derive(Serialize)]
struct ClaimsStatus<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    account: &'a str,
    #[serde(skip_serializing_if = "myelin_wire::json::is_zero")]
    code: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

#[derive(Serialize)]
struct ClaimsFailure<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    account: &'a str,
    code: u16,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
}

#[derive(Serialize)]
struct Response<'a> {
    server: ServerInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<ClaimsStatus<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ClaimsFailure<'a>>,
}

/// Compat: the reference sorts these, for it makes them from a table.
#[derive(Serialize)]
struct List {
    data: Vec<String>,
    server: ServerInfo,
}

impl System {
    /// Subjects of the requests about tokens.
    pub(super) fn claims_subjects(&self) -> Vec<&'static str> {
        let mut subjects = OF_ACCOUNT.to_vec();
        if let Some(keeps_all) = self.tokens.as_ref().and_then(|tokens| tokens.keeps()) {
            subjects.extend(OF_KEEPER);
            subjects.extend(OF_FULL_KEEPER.into_iter().filter(|_| keeps_all));
        }
        subjects
    }

    pub(super) fn answer_claims(&self, ask: &SystemRequest) {
        let named = match (ask.token(1), ask.token(2)) {
            ("ACCOUNT", account) => Some(account),
            (_, "ACCOUNT") => Some(ask.token(3)),
            _ => None,
        };
        let body = String::from_utf8_lossy(&ask.body);
        let Some(tokens) = &self.tokens else {
            return self.report(ask, &update_known(&self.broker, named.unwrap_or_default(), &body));
        };
        match ask.last() {
            "UPDATE" => self.report(ask, &tokens.update(&self.broker, named, &body)),
            "DELETE" => self.report(ask, &tokens.delete(&self.broker, &body)),
            _ if ask.reply.is_empty() => {}
            "LIST" => self.answer_list(ask, tokens.list()),
            // Compat: what is not here is answered with nothing.
            "LOOKUP" => {
                let token = tokens.lookup(named.unwrap_or_default()).unwrap_or_default();
                self.reply(&ask.reply, &[], token.as_bytes());
            }
            // Compat: nothing more is the end. Of the references that keep all tokens one answers.
            "PACK" => {
                let messages = tokens.pack(&ask.body);
                messages.iter().for_each(|message| self.reply(&ask.reply, &[], message.as_bytes()));
                self.reply(&ask.reply, &[], &[]);
            }
            _ => {}
        }
    }

    fn answer_list(&self, ask: &SystemRequest, accounts: Vec<String>) {
        self.log.debug(format_args!("list request responded with {} account ids", accounts.len()));
        self.reply(&ask.reply, &[], &compact(&List { data: accounts, server: self.server_info() }));
    }

    fn report(&self, ask: &SystemRequest, updated: &Updated) {
        let Updated { account, message, error, has_removed } = updated;
        if *has_removed {
            // Who is still there of an account that is no more has to go.
            self.mailboxes.iter().for_each(|mailbox| mailbox.post(Mail::Refresh));
        }
        let about = if account.is_empty() { String::new() } else { format!(" - {account}") };
        match error {
            None => self.log.debug(format_args!("{message}{about}")),
            Some(error) => self.log.error(format_args!("{message}{about} - {error}")),
        }
        if ask.reply.is_empty() {
            return;
        }
        let data = error.is_none().then_some(ClaimsStatus { account, code: 200, message });
        let error = error.as_ref().map(|error| ClaimsFailure {
            account,
            code: 500,
            description: format!("{message} - {error}"),
        });
        self.reply(&ask.reply, &[], &compact(&Response { server: self.server_info(), data, error }));
    }
}
