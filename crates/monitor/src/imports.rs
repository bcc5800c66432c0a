//! Exports and imports of accounts, as `/accountz` shows them.
//!
//! Compat: names and order of fields are those of the reference, whose lists are in no order; here
//! they are in that of the configuration. Optional fields that nothing here can have are left out,
//! as empty ones are there.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

use myelin_wire::json::is_false;

/// Whether something is a stream or a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportType {
    /// Messages to listen to.
    Stream,
    /// Requests to be answered.
    Service,
    /// Answers to these.
    Response,
}

impl Serialize for ExportType {
    /// Compat: what waits for an answer has the number of its kind, not the name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Stream => serializer.serialize_str("stream"),
            Self::Service => serializer.serialize_str("service"),
            Self::Response => serializer.serialize_u8(2),
        }
    }
}

/// Export of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportSnapshot {
    /// Pattern.
    pub subject: String,
    /// Stream or service.
    #[serde(rename = "type")]
    pub kind: ExportType,
    /// Whether importers need an activation token.
    #[serde(skip_serializing_if = "is_false")]
    pub token_req: bool,
    /// `Singleton`, `Streamed` or `Chunked`; empty for a stream.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub response_type: &'static str,
    /// How it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_latency: Option<LatencySnapshot>,
    /// Accounts that are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved_accounts: Vec<String>,
}

/// How a service is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LatencySnapshot {
    /// Of a hundred requests; 0: as headers ask for it.
    #[serde(serialize_with = "sampling")]
    pub sampling: u8,
    /// Where reports go.
    pub results: String,
}

fn sampling<S: Serializer>(share: &u8, serializer: S) -> Result<S::Ok, S::Error> {
    if *share == 0 { serializer.serialize_str("headers") } else { serializer.serialize_u8(*share) }
}

/// Import of an account from another, or a response that it has asked for and waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportSnapshot {
    /// Subject in the exporting account.
    pub subject: String,
    /// The other account.
    pub account: String,
    /// Subject of a service in the importing account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// Subject in the importing account.
    pub local_subject: String,
    /// Stream or service.
    #[serde(rename = "type")]
    pub kind: ExportType,
    /// Whether it holds no longer.
    pub invalid: bool,
    /// Whether the other account learns who asks.
    pub share: bool,
    /// Whether the time of the answer is measured.
    pub tracking: bool,
    /// How the exporting account has the service measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySnapshot>,
}

/// One of the places where messages of a subject go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MappingSnapshot {
    /// The destination.
    pub subject: String,
    /// Of a hundred messages.
    pub weight: u8,
    /// Only for servers of this cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
}

/// All of that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExchangeSnapshot {
    /// By subject.
    pub mappings: BTreeMap<String, Vec<MappingSnapshot>>,
    /// Offers.
    pub exports: Vec<ExportSnapshot>,
    /// Imports from others.
    pub imports: Vec<ImportSnapshot>,
    /// Answers that its services owe, by the subject at which they are expected.
    pub responses: BTreeMap<String, ImportSnapshot>,
}
