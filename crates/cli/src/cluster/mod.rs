//! `myelin cluster recover`: a stream, or the meta group, that has lost the majority of its servers
//! for good goes on with what is left.
//!
//! Owns the plan as it is shown, and that nothing is done before somebody has seen it and said yes.
//! Which servers are lost is the operator's to know: whoever is away is named here, and may come
//! back.

mod meta;
mod stream;

use std::io::{BufRead, IsTerminal};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use myelin_loadgen::connection::{Connection, write_message};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::{ConnectionFlags, Target};
use serde_json::Value;

use crate::screen::show;

/// How long servers may take to say what they have, after the first has.
const GATHERED: Duration = Duration::from_millis(500);

/// `myelin cluster …`
#[derive(Args, Debug)]
pub(crate) struct ClusterArguments {
    #[command(flatten)]
    flags: ConnectionFlags,
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Go on with the servers that are left of a stream, or of the meta group without one, whose
    /// majority is lost for good. Shows the plan, and asks; for a user of the system account
    Recover(RecoverArguments),
}

#[derive(Args, Debug)]
struct RecoverArguments {
    /// Stream; none: the meta group
    stream: Option<String>,
    /// Account of the stream
    #[arg(long, default_value = "$G")]
    account: String,
    /// Show the plan, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long, conflicts_with = "dry_run")]
    yes: bool,
}

pub(crate) fn run(arguments: &ClusterArguments) -> Result<(), BenchError> {
    let ClusterCommand::Recover(recover) = &arguments.command;
    let target = arguments.flags.target()?;
    match &recover.stream {
        Some(stream) => {
            names::stream(stream)?;
            stream::recover(&target, recover, stream)
        }
        None => meta::recover(&target, recover),
    }
}

/// Goes on only if somebody wants that; `Ok(false)`: it was a dry run. A connection that has waited
/// for that person may have ended meanwhile: take another.
fn is_wanted(arguments: &RecoverArguments) -> Result<bool, BenchError> {
    if arguments.dry_run || arguments.yes {
        return Ok(arguments.yes);
    }
    if !std::io::stdin().is_terminal() {
        return Err(BenchError::Usage(
            "nothing was done: nobody is there to ask; look at the plan and use --yes".into(),
        ));
    }
    show("\nType `recover` to go on: ")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(BenchError::io("asking"))?;
    match answer.trim() {
        "recover" => Ok(true),
        _ => Err(BenchError::Usage("nothing was done".into())),
    }
}

/// Answers of all servers that have something to say to a request.
fn gather(
    connection: &mut Connection,
    target: &Target,
    subject: &str,
    body: &Value,
) -> Result<Vec<Value>, BenchError> {
    let inbox = target.inbox();
    let mut bytes = format!("SUB {inbox} 1\r\n").into_bytes();
    write_message(&mut bytes, subject, Some(&inbox), "", body.to_string().as_bytes());
    connection.send(&bytes)?;
    let mut answers = Vec::new();
    let mut deadline = Instant::now() + target.timeout;
    while let Some(message) = connection.receive_until(Some(deadline))? {
        if message.subject != inbox {
            continue;
        }
        if message.is_from_nobody() {
            return Err(BenchError::Usage("no server answers: is this a user of the system account?".into()));
        }
        deadline = deadline.min(Instant::now() + GATHERED);
        answers.push(serde_json::from_slice(&message.payload).unwrap_or_default());
    }
    connection.send(b"UNSUB 1\r\n")?;
    Ok(answers)
}

/// Names of an array, or of the `name` of its objects.
fn listed(value: &Value) -> Vec<String> {
    let name = |one: &Value| one.as_str().or(one["name"].as_str()).unwrap_or_default().to_owned();
    value.as_array().into_iter().flatten().map(name).collect()
}

/// A time for people.
fn ago(seconds: Option<u64>) -> String {
    match seconds {
        Some(seconds @ 0..120) => format!("{seconds} s ago"),
        Some(seconds @ 120..7200) => format!("{} min ago", seconds / 60),
        Some(seconds) => format!("{} h ago", seconds / 3600),
        None => "before the leader's start".to_owned(),
    }
}
