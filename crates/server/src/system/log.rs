//! The log's last lines, for operators who look through the dashboard: while it is served, and no
//! longer.

use super::System;
use super::envelope::RequestFault;
use super::intake::RequestIntake;
use super::request::SystemRequest;
use crate::logging::RecentLine;
use myelin_broker::Binding;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use std::sync::Arc;

/// A request for lines; an empty one asks for all that are kept.
#[derive(Deserialize, Default)]
struct LogRequest {
    /// Number of the last line that whoever asks has.
    #[serde(default)]
    after: u64,
}

#[derive(Serialize)]
struct LogLines {
    lines: Vec<RecentLine>,
}

impl System {
    pub(super) fn answer_log(&self, ask: &SystemRequest) {
        let request = match &*ask.body {
            [] => Ok(LogRequest::default()),
            body => serde_json::from_slice(body),
        };
        let answer = request.and_then(|request: LogRequest| {
            to_raw_value(&LogLines { lines: self.log.recent(request.after) })
        });
        match answer {
            Ok(lines) => self.reply_with(ask, Some(&lines), None),
            Err(error) => self.reply_with(ask, None, Some(RequestFault::of_request(error.to_string()))),
        }
    }
}

/// The offer of the log's last lines.
#[derive(Default)]
pub(super) struct LogOffer(Option<Arc<Binding>>);

impl LogOffer {
    /// Answers from now on, or not any more.
    pub(super) fn switch(&mut self, system: &Arc<System>, is_wanted: bool) {
        match (self.0.take(), is_wanted) {
            (None, true) => {
                let subject = format!("$SYS.REQ.SERVER.{}.MYELIN.LOG", system.id);
                self.0 = Some(RequestIntake::bind(system, &subject));
            }
            (Some(binding), false) => system.account.unbind(&binding),
            (unchanged, _) => self.0 = unchanged,
        }
    }
}
