//! `myelin why consumer|stream|connection`: what holds deliveries, publishes or a connection back,
//! with the remedy.
//!
//! Owns what is printed. The server finds the causes of consumers and streams; another server that
//! does not know the question is judged by its infos (`judged`), and connections by the pages of
//! monitoring (`connection`), which also know of panics (`panicked`).

mod connection;
mod judged;
mod panicked;

use clap::{Args, Subcommand};
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::ConnectionFlags;
use serde_json::{Value, json};

use crate::screen;

/// `myelin why …`
#[derive(Args, Debug)]
pub(crate) struct WhyArguments {
    #[command(flatten)]
    flags: ConnectionFlags,
    #[command(subcommand)]
    question: WhyQuestion,
}

#[derive(Debug, Subcommand)]
enum WhyQuestion {
    /// Why a consumer delivers nothing, or too little
    Consumer {
        stream: String,
        consumer: String,
        /// Ask the monitoring of the server that leads it for panics, too: HOST:PORT
        #[arg(long, value_name = "ADDRESS")]
        monitor: Option<String>,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Why a stream takes no messages, or loses some
    Stream {
        stream: String,
        /// Ask the monitoring of the server that leads it for panics of its consumers, too:
        /// HOST:PORT
        #[arg(long, value_name = "ADDRESS")]
        monitor: Option<String>,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Why a connection gets nothing, is slow, or was closed
    Connection {
        /// Its number, as /connz and the log have it
        cid: u64,
        /// Where the server's monitoring listens: HOST:PORT, and its base path if it has one
        #[arg(long, default_value = "127.0.0.1:8222", value_name = "ADDRESS")]
        monitor: String,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &WhyArguments) -> Result<(), BenchError> {
    let target = || arguments.flags.target();
    let (said, is_json) = match &arguments.question {
        WhyQuestion::Consumer { stream, consumer, monitor, json } => {
            names::stream(stream)?;
            names::consumer(consumer)?;
            let target = target()?;
            let mut said = of_consumer(&mut Admin::open(&target)?, stream, consumer)?;
            if let Some(monitor) = monitor {
                panicked::tell(&mut said, monitor, target.timeout)?;
            }
            (said, json)
        }
        WhyQuestion::Stream { stream, monitor, json } => {
            names::stream(stream)?;
            let target = target()?;
            let mut said = of_stream(&mut Admin::open(&target)?, stream)?;
            if let Some(monitor) = monitor {
                panicked::tell(&mut said, monitor, target.timeout)?;
            }
            (said, json)
        }
        WhyQuestion::Connection { cid, monitor, json } => {
            (connection::why(*cid, monitor, target()?.timeout)?, json)
        }
    };
    if *is_json { screen::show_json(&said) } else { screen::show(&screen::plain(&shown(&said))) }
}

fn of_consumer(admin: &mut Admin, stream: &str, consumer: &str) -> Result<Value, BenchError> {
    if admin.is_myelin() {
        return admin.ask(&format!("MYELIN.WHY.CONSUMER.{stream}.{consumer}"), &Value::Null);
    }
    let info = admin.ask(&format!("CONSUMER.INFO.{stream}.{consumer}"), &Value::Null)?;
    let causes = judged::consumer(&info);
    Ok(json!({ "stream": stream, "consumer": consumer, "judged_by": "info", "causes": causes }))
}

fn of_stream(admin: &mut Admin, stream: &str) -> Result<Value, BenchError> {
    if admin.is_myelin() {
        return admin.ask(&format!("MYELIN.WHY.STREAM.{stream}"), &Value::Null);
    }
    let causes = judged::stream(&admin.stream(stream)?);
    Ok(json!({ "stream": stream, "judged_by": "info", "causes": causes }))
}

/// A cause, as the server has them.
fn cause(word: &str, holds: &str, numbers: Value, says: String, remedy: &str) -> Value {
    json!({ "cause": word, "holds": holds, "numbers": numbers, "says": says, "remedy": remedy })
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// The answer for a person.
fn shown(said: &Value) -> String {
    let subject = match (text(said, "stream"), text(said, "consumer")) {
        ("", _) => format!("Connection {}", said["cid"]),
        (stream, "") => format!("Stream {stream}"),
        (stream, consumer) => format!("Consumer {stream} > {consumer}"),
    };
    let by = match (text(said, "judged_by"), text(said, "server")) {
        ("", "") => String::new(),
        ("", server) => format!(", as server {server} sees it"),
        _ => ", judged by its info: this server knows no causes".to_owned(),
    };
    let causes = said["causes"].as_array().cloned().unwrap_or_default();
    if causes.is_empty() {
        return format!("{subject}{by}: nothing holds it back.\n");
    }
    let mut lines = format!("{subject}{by}:\n");
    for (at, cause) in causes.iter().enumerate() {
        let holds = match text(cause, "holds") {
            "all" => "holds everything back",
            "some" => "holds some back",
            _ => "holds nothing back",
        };
        lines += &format!("\n{}. {} ({holds})\n", at + 1, text(cause, "cause"));
        lines += &format!("   {}\n   Remedy: {}\n", text(cause, "says"), text(cause, "remedy"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_numbered_with_their_remedies() {
        let paused = cause("paused", "all", json!({}), "it is paused".into(), "resume it");
        let said = json!({ "stream": "S", "consumer": "C", "server": "n1", "causes": [paused] });
        let lines = "Consumer S > C, as server n1 sees it:\n\n1. paused (holds everything back)\n   \
                     it is paused\n   Remedy: resume it\n";
        assert_eq!(shown(&said), lines);
        let said = json!({ "stream": "S", "server": "n1", "causes": [] });
        assert_eq!(shown(&said), "Stream S, as server n1 sees it: nothing holds it back.\n");
    }
}
