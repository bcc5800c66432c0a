//! `myelin server list`: the servers that a system account sees.

use std::time::{Duration, Instant};

use clap::Args;
use myelin_loadgen::admin::{Admin, answered};
use myelin_loadgen::connection::write_message;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::units::human_time;
use serde_json::Value;

use crate::screen::{show, show_json};
use crate::server::pages::outside;
use crate::table::{Columns, ago, number, size, text};

/// How long to wait for one more answer where nobody has said how many there are.
const QUIET: Duration = Duration::from_millis(500);

/// `myelin server list`
#[derive(Args, Debug)]
pub(super) struct ListArguments {
    /// Servers that there must be; without this all that answer soon
    expect: Option<usize>,
    /// Everything, as JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    flags: ConnectionFlags,
}

pub(super) fn run(arguments: &ListArguments) -> Result<(), BenchError> {
    let mut admin = Admin::open(&arguments.flags.target()?)?;
    let mut servers = answers(&mut admin, arguments.expect)?;
    servers.sort_by_cached_key(|(answer, _)| text(&answer["server"]["name"]));
    if arguments.json {
        show_json(&servers.iter().map(|(answer, _)| answer.clone()).collect())?;
    } else {
        show(&table(&servers))?;
    }
    match arguments.expect.filter(|expected| *expected > servers.len()) {
        Some(expected) => Err(BenchError::Lost(format!("{} of {expected} servers answer", servers.len()))),
        None => Ok(()),
    }
}

/// Answers of servers about themselves, and how long each took.
fn answers(admin: &mut Admin, expect: Option<usize>) -> Result<Vec<(Value, Duration)>, BenchError> {
    let inbox = admin.connection().new_inbox();
    let mut frame = format!("SUB {inbox} 2\r\n").into_bytes();
    write_message(&mut frame, "$SYS.REQ.SERVER.PING", Some(&inbox), "", b"");
    admin.connection().send(&frame)?;
    let began = Instant::now();
    let deadline = began + admin.timeout();
    let mut servers = Vec::new();
    while expect.is_none_or(|expected| servers.len() < expected) {
        let until = match expect {
            None if !servers.is_empty() => deadline.min(Instant::now() + QUIET),
            _ => deadline,
        };
        let Some(message) = admin.connection().receive_until(Some(until))? else { break };
        if message.is_from_nobody() {
            return Err(outside());
        }
        servers.push((answered("PING", &message.payload)?, began.elapsed()));
    }
    Ok(servers)
}

fn table(servers: &[(Value, Duration)]) -> String {
    let mut columns = Columns::new(&[
        "Name", "Cluster", "Host", "Version", "JS", "Conns", "Subs", "Routes", "GWs", "Mem", "CPU %",
        "Cores", "Slow", "Uptime", "RTT",
    ]);
    for (answer, took) in servers {
        let (server, stats) = (&answer["server"], &answer["statsz"]);
        let length = |value: &Value| value.as_array().map_or(0, Vec::len).to_string();
        columns.row([
            text(&server["name"]),
            text(&server["cluster"]),
            text(&server["host"]),
            text(&server["ver"]),
            if server["jetstream"] == true { "yes" } else { "no" }.into(),
            number(&stats["connections"]),
            number(&stats["subscriptions"]),
            length(&stats["routes"]),
            length(&stats["gateways"]),
            size(&stats["mem"]),
            text(&stats["cpu"]),
            number(&stats["cores"]),
            number(&stats["slow_consumers"]),
            ago(&stats["start"]),
            human_time(*took),
        ]);
    }
    columns.text_or("No servers")
}
