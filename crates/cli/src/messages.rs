//! `myelin pub`, `sub` and `request`: single messages, for the steps around a benchmark.
//!
//! Owns what is printed, which resembles the `nats` command's. Not for measuring: `bench` is.

use std::io::{IsTerminal, Read};
use std::time::{Duration, Instant};

use clap::Args;
use myelin_loadgen::connection::{ReceivedMessage, write_message};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::units::{Time, human_time, log};

use crate::screen;

/// `myelin pub …`
#[derive(Args, Debug)]
pub(crate) struct PublishArguments {
    /// Subject
    subject: String,
    /// Payload; the standard input where there is none and it is no terminal
    body: Option<String>,
    /// Subject for replies
    #[arg(long)]
    reply: Option<String>,
    /// Header line, K:V
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// Publish so many times
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Sleep between messages
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    sleep: Time,
    #[command(flatten)]
    flags: ConnectionFlags,
}

/// `myelin sub …`
#[derive(Args, Debug)]
pub(crate) struct SubscribeArguments {
    /// Subjects, which may hold wildcards
    #[arg(required = true)]
    subjects: Vec<String>,
    /// Be a member of this queue group
    #[arg(long)]
    queue: Option<String>,
    /// End after so many messages
    #[arg(long)]
    count: Option<u64>,
    /// Print payloads and nothing else
    #[arg(short, long)]
    raw: bool,
    #[command(flatten)]
    flags: ConnectionFlags,
}

/// `myelin request …`
#[derive(Args, Debug)]
pub(crate) struct RequestArguments {
    /// Subject
    subject: String,
    /// Payload; the standard input where there is none and it is no terminal
    body: Option<String>,
    /// Header line, K:V
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// Send so many requests
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Print payloads and nothing else
    #[arg(short, long)]
    raw: bool,
    #[command(flatten)]
    flags: ConnectionFlags,
}

pub(crate) fn publish(arguments: &PublishArguments) -> Result<(), BenchError> {
    let PublishArguments { subject, body, reply, headers, count, sleep, flags } = arguments;
    names::word("subject", subject)?;
    reply.as_deref().map_or(Ok(()), |reply| names::word("reply subject", reply))?;
    let headers = myelin_loadgen::client_pool::message_writer::header_lines(headers)?;
    let payload = payload(body.as_deref())?;
    let mut connection = flags.target()?.connect()?;
    let mut frame = Vec::new();
    write_message(&mut frame, subject, reply.as_deref(), &headers, &payload);
    for number in 0..*count {
        if number > 0 {
            std::thread::sleep(sleep.0);
        }
        connection.send(&frame)?;
        // The server says here what it does not like about the message.
        connection.barrier()?;
        log(&format!("Published {} bytes to {subject:?}", payload.len()));
    }
    Ok(())
}

pub(crate) fn subscribe(arguments: &SubscribeArguments) -> Result<(), BenchError> {
    let SubscribeArguments { subjects, queue, count, raw, flags } = arguments;
    subjects.iter().try_for_each(|subject| names::word("subject", subject))?;
    queue.as_deref().map_or(Ok(()), |queue| names::word("queue group", queue))?;
    let mut connection = flags.target()?.connect()?;
    let queue = queue.as_deref().map_or_else(String::new, |queue| format!("{queue} "));
    let lines: String = subjects
        .iter()
        .enumerate()
        .map(|(number, subject)| format!("SUB {subject} {queue}{}\r\n", number + 1))
        .collect();
    connection.begin(lines.as_bytes())?;
    log(&format!("Subscribing on {}", subjects.join(", ")));
    let mut received = 0;
    while count.is_none_or(|count| received < count) {
        let Some(message) = connection.receive_until(None)? else { continue };
        received += 1;
        if !raw {
            let reply =
                message.reply.as_ref().map_or_else(String::new, |reply| format!(" with reply {reply:?}"));
            screen::say(&format_args!("[#{received}] Received on {:?}{reply}", message.subject));
        }
        show(&message, *raw)?;
    }
    Ok(())
}

pub(crate) fn request(arguments: &RequestArguments) -> Result<(), BenchError> {
    let RequestArguments { subject, body, headers, count, raw, flags } = arguments;
    names::word("subject", subject)?;
    let headers = myelin_loadgen::client_pool::message_writer::header_lines(headers)?;
    let payload = payload(body.as_deref())?;
    let target = flags.target()?;
    let mut connection = target.connect()?;
    for _ in 0..*count {
        if !raw {
            log(&format!("Sending request on {subject:?}"));
        }
        let start = Instant::now();
        let message = connection.ask_within(subject, &headers, &payload, target.timeout)?;
        if message.is_from_nobody() {
            return Err(BenchError::NoResponder);
        }
        if !raw {
            log(&format!("Received with rtt {}", rtt(start.elapsed())));
        }
        show(&message, *raw)?;
    }
    Ok(())
}

fn rtt(time: Duration) -> String {
    match time.as_micros() {
        microseconds @ 0..1000 => format!("{microseconds}µs"),
        _ => human_time(time),
    }
}

fn payload(body: Option<&str>) -> Result<Vec<u8>, BenchError> {
    let mut input = std::io::stdin();
    let mut bytes = Vec::new();
    match body {
        Some(body) => bytes.extend_from_slice(body.as_bytes()),
        None if input.is_terminal() => {}
        None => drop(input.read_to_end(&mut bytes).map_err(BenchError::io("reading the payload"))?),
    }
    Ok(bytes)
}

/// Headers, payload and an empty line, or the payload and the end of its line.
fn show(message: &ReceivedMessage, is_raw: bool) -> Result<(), BenchError> {
    if !is_raw {
        screen::show(&screen::header_lines(&message.header))?;
    }
    screen::show_payload(&message.payload, is_raw)?;
    screen::show(if is_raw { "\n" } else { "\n\n" })
}
