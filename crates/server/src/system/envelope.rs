//! How the server names itself in everything that it says, and the form of its answers.

use super::System;
use jiff::Timestamp;
use myelin_broker::ServerInfo;
use myelin_wire::json::compact;
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::SystemTime;

/// Fault of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RequestFault {
    pub(super) code: u16,
    pub(super) description: String,
}

impl RequestFault {
    /// The request cannot be read.
    pub(super) fn of_request(description: String) -> Self {
        Self { code: 400, description }
    }

    /// Makes the fault of a request that cannot be done.
    pub(super) fn of_server(description: String) -> Self {
        Self { code: 500, description }
    }
}

/// An answer; without data and fault it says that something was done.
#[derive(Debug, Serialize)]
pub(super) struct Response<'a> {
    pub(super) server: ServerInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RequestFault>,
}

impl System {
    /// The server, as it speaks now: each time with the next number.
    pub(super) fn server_info(&self) -> ServerInfo {
        self.broker.server_info(SystemTime::now())
    }

    /// The bytes of an answer.
    pub(super) fn response(&self, data: Option<&RawValue>, error: Option<RequestFault>) -> Vec<u8> {
        compact(&Response { server: self.server_info(), data, error })
    }
}

/// A moment as the reference writes it.
pub(super) fn moment(at: Timestamp) -> String {
    at.to_string()
}

/// This moment.
pub(super) fn now() -> String {
    moment(Timestamp::now())
}
