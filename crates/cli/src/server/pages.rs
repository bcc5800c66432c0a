//! Pages of a server's monitoring, over HTTP or through the system account.
//!
//! Owns which of the two is asked: HTTP where an address is given.

use std::time::Duration;

use clap::Args;
use myelin_loadgen::admin::{Admin, answered};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::ConnectionFlags;
use serde_json::{Value, json};

use crate::monitoring;
use crate::table::text;

/// Which server is asked, and how.
#[derive(Args, Debug)]
pub(super) struct PageFlags {
    /// Name or id [default: the one that is connected to]
    #[arg(value_name = "SERVER")]
    name: Option<String>,
    /// Where its monitoring listens: HOST:PORT, and its base path if it has one. Without this flag
    /// the system account is asked
    #[arg(long, value_name = "ADDRESS", conflicts_with = "name")]
    monitor: Option<String>,
    #[command(flatten)]
    flags: ConnectionFlags,
}

/// A server whose pages are read.
pub(super) enum Pages {
    Monitoring { address: String, timeout: Duration },
    SystemAccount { admin: Box<Admin>, id: String },
}

impl PageFlags {
    pub(super) fn open(&self) -> Result<Pages, BenchError> {
        let target = self.flags.target()?;
        if let Some(address) = &self.monitor {
            return Ok(Pages::Monitoring { address: address.clone(), timeout: target.timeout });
        }
        let mut admin = Box::new(Admin::open(&target)?);
        let id = match &self.name {
            None => text(&admin.connection().info()["server_id"]),
            Some(name) => {
                names::word("server", name)?;
                found(&mut admin, name)?
            }
        };
        Ok(Pages::SystemAccount { admin, id })
    }
}

/// The id of the server of this name, or which has it as its id.
fn found(admin: &mut Admin, name: &str) -> Result<String, BenchError> {
    let is_id = name.len() == 56 && name.starts_with('N');
    if is_id {
        return Ok(name.to_owned());
    }
    let only = json!({ "server_name": name }).to_string();
    let answer = admin.request("$SYS.REQ.SERVER.PING", "", only.as_bytes())?;
    if answer.is_from_nobody() {
        return Err(outside());
    }
    let answer = answered("PING", &answer.payload)?;
    match text(&answer["server"]["name"]) == name {
        true => Ok(text(&answer["server"]["id"])),
        false => Err(BenchError::Usage(format!("no server is called {name:?}"))),
    }
}

pub(super) fn outside() -> BenchError {
    BenchError::Usage("this needs a user of the system account, or --monitor HOST:PORT".into())
}

impl Pages {
    /// A page with these parameters.
    pub(super) fn page(&mut self, page: &str, parameters: &Value) -> Result<Value, BenchError> {
        match self {
            Self::Monitoring { address, timeout } => {
                let query: Vec<String> = parameters
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                let page = format!("{page}?{}", query.join("&"));
                let (status, body) = monitoring::page(address, &page, *timeout)
                    .map_err(BenchError::io("asking the server's monitoring"))?;
                match status {
                    200 => answered(&page, body.as_bytes()),
                    _ => Err(BenchError::Refused(format!("{status} {body}"))),
                }
            }
            Self::SystemAccount { admin, id } => {
                let subject = format!("$SYS.REQ.SERVER.{id}.{}", page.to_uppercase());
                let answer = admin.request(&subject, "", parameters.to_string().as_bytes())?;
                match answer.is_from_nobody() {
                    true => Err(outside()),
                    false => Ok(answered(page, &answer.payload)?["data"].take()),
                }
            }
        }
    }
}
