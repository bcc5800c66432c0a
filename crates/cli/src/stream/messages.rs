//! `myelin stream get` and `view`: messages of a stream.

use std::time::{Duration, SystemTime};

use clap::Args;
use jiff::Timestamp;
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::units::Time;
use serde_json::json;

use crate::screen::{header_lines, one_line, show, show_json, show_payload};
use crate::stored::ViewedMessage;
use crate::table::local;

/// `myelin stream get`
#[derive(Args, Debug)]
pub(super) struct MessageWanted {
    pub(super) stream: String,
    /// Sequence
    #[arg(required_unless_present = "last_for")]
    id: Option<u64>,
    /// The last one on this subject
    #[arg(short = 'S', long, value_name = "SUBJECT", conflicts_with = "id")]
    last_for: Option<String>,
    /// As the server has it, as JSON
    #[arg(short, long)]
    json: bool,
}

/// `myelin stream view`
#[derive(Args, Debug)]
pub(super) struct View {
    pub(super) stream: String,
    /// Messages of a page
    #[arg(default_value_t = 25)]
    size: u64,
    /// Begin with this sequence
    #[arg(long)]
    id: Option<u64>,
    /// Begin with what came so long ago
    #[arg(long, conflicts_with = "id")]
    since: Option<Time>,
    /// On this subject only
    #[arg(long)]
    subject: Option<String>,
    /// Payloads and nothing else
    #[arg(long)]
    raw: bool,
}

pub(super) fn get(admin: &mut Admin, wanted: &MessageWanted) -> Result<(), BenchError> {
    let body = match (&wanted.last_for, wanted.id) {
        (Some(subject), _) => json!({ "last_by_subj": subject }),
        (None, id) => json!({ "seq": id }),
    };
    let answer = admin.ask(&format!("STREAM.MSG.GET.{}", wanted.stream), &body)?;
    if wanted.json {
        return show_json(&answer["message"]);
    }
    let message = ViewedMessage::of(&answer);
    show_head(&message, &wanted.stream)?;
    show_payload(&message.payload, false)?;
    show("\n")
}

/// Shows a page. Every message is asked for by itself, so that nothing of the stream changes, and
/// streams can be looked at that are work queues.
pub(super) fn view(admin: &mut Admin, wanted: &View) -> Result<(), BenchError> {
    let subject = wanted.subject.as_deref().unwrap_or(">");
    names::word("subject", subject)?;
    let mut next = match (wanted.id, wanted.since) {
        (Some(id), _) => id.max(1),
        (None, Some(Time(since))) => first_since(admin, &wanted.stream, since)?,
        (None, None) => 1,
    };
    for _ in 0..wanted.size {
        let Some(message) = following(admin, &wanted.stream, next, subject)? else { return Ok(()) };
        next = message.sequence + 1;
        if !wanted.raw {
            show_head(&message, &wanted.stream)?;
        }
        show_payload(&message.payload, wanted.raw)?;
        show(if wanted.raw { "\n" } else { "\n\n" })?;
    }
    match wanted.raw || following(admin, &wanted.stream, next, subject)?.is_none() {
        true => Ok(()),
        false => show(&format!("The next page begins with --id {next}\n")),
    }
}

/// The first message with this sequence or a higher one.
fn following(
    admin: &mut Admin,
    stream: &str,
    sequence: u64,
    subject: &str,
) -> Result<Option<ViewedMessage>, BenchError> {
    let body = json!({ "seq": sequence, "next_by_subj": subject });
    Ok(admin.stored(stream, &body)?.map(|answer| ViewedMessage::of(&answer)))
}

/// The first sequence that was given in this time, by halving.
fn first_since(admin: &mut Admin, stream: &str, since: Duration) -> Result<u64, BenchError> {
    let state = admin.stream(stream)?["state"].take();
    let number = |name: &str| state[name].as_u64().unwrap_or_default();
    let began = SystemTime::now().checked_sub(since).unwrap_or(SystemTime::UNIX_EPOCH);
    let began = Timestamp::try_from(began).unwrap_or_default();
    let (mut low, mut high) = (number("first_seq"), number("last_seq") + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match following(admin, stream, middle, ">")? {
            Some(message) if message.time < began => low = message.sequence + 1,
            _ => high = middle,
        }
    }
    Ok(low.max(1))
}

fn show_head(message: &ViewedMessage, stream: &str) -> Result<(), BenchError> {
    let ViewedMessage { sequence, time, subject, header, .. } = message;
    let subject = one_line(subject);
    show(&format!("[{sequence}] {stream} > {subject}, received {}\n", local(*time)))?;
    show(&header_lines(header))
}
