//! Causes that streams and consumers share: those of the group of replicas.

use super::{Cause, Holds, count};
use serde_json::json;

/// Nobody decides for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCause {
    /// Members of the group.
    pub voters: u64,
    /// Members of which the server that answers has heard lately, itself among them.
    pub heard: u64,
    /// The others.
    pub away: Vec<String>,
}

impl GroupCause {
    /// The cause, as an answer tells it.
    #[must_use]
    pub fn told(&self) -> Cause {
        let Self { voters, heard, away } = self;
        let most = voters / 2 + 1;
        let numbers = json!({ "voters": voters, "heard": heard, "needed": most, "away": away });
        let servers = if away.is_empty() { String::new() } else { format!("; away: {}", away.join(", ")) };
        let of = format!("{heard} of {} {} heard", count(*voters, "replica"), were(*heard));
        if *heard < most {
            let says = format!("no server leads the stream: {of}, and {most} must be there{servers}");
            let remedy = "start the servers that are away; if they are lost for good, with their disks: \
                          `myelin cluster recover` goes on with what is left";
            return Cause::new("no_quorum", Holds::All, numbers, says, remedy.to_owned());
        }
        let says = format!("no server leads the stream: {of}, which are enough for an election{servers}");
        let remedy = "an election takes some seconds; if none ends, look at /healthz?details=true and the logs \
                      of these servers";
        Cause::new("no_leader", Holds::All, numbers, says, remedy.to_owned())
    }
}

fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}
