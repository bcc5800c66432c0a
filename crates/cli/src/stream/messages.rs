//! `myelin stream get` and `view`: messages of a stream.

use clap::Args;
use jiff::Timestamp;
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::units::Time;
use myelin_stdx::base64;
use serde_json::json;

use crate::pull::{ConsumerReader, Pulled};
use crate::screen::{header_lines, one_line, show, show_json, show_payload};
use crate::table::{before, local, moment_of, text};

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
    let message = &answer["message"];
    if wanted.json {
        return show_json(message);
    }
    let bytes = |name: &str| base64::decode(message[name].as_str().unwrap_or_default()).unwrap_or_default();
    let time = message["time"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
    let sequence = message["seq"].as_u64().unwrap_or_default();
    stored(&wanted.stream, sequence, time, &text(&message["subject"]), &bytes("hdrs"))?;
    show_payload(&bytes("data"), false)?;
    show("\n")
}

pub(super) fn view(admin: &mut Admin, wanted: &View) -> Result<(), BenchError> {
    let mut config = match (wanted.id, wanted.since) {
        (Some(id), _) => json!({ "deliver_policy": "by_start_sequence", "opt_start_seq": id.max(1) }),
        (None, Some(Time(since))) => {
            json!({ "deliver_policy": "by_start_time", "opt_start_time": before(since) })
        }
        (None, None) => json!({ "deliver_policy": "all" }),
    };
    if let Some(subject) = &wanted.subject {
        names::word("subject", subject)?;
        config["filter_subject"] = subject.as_str().into();
    }
    let mut reader = ConsumerReader::looking(admin, &wanted.stream, &config, wanted.size.clamp(1, 256))?;
    let (mut left, mut next) = (wanted.size, None);
    reader.each(|pulled| {
        left = left.saturating_sub(1);
        if !wanted.raw {
            of_delivery(&wanted.stream, &pulled)?;
        }
        show_payload(&pulled.message.payload, wanted.raw)?;
        show(if wanted.raw { "\n" } else { "\n\n" })?;
        next = (pulled.numbers.pending > 0).then_some(pulled.numbers.stream_sequence + 1);
        Ok(left > 0)
    })?;
    reader.end()?;
    match next {
        Some(next) if !wanted.raw => show(&format!("The next page begins with --id {next}\n")),
        _ => Ok(()),
    }
}

/// Heads a message that was delivered.
fn of_delivery(stream: &str, pulled: &Pulled) -> Result<(), BenchError> {
    let time = moment_of(pulled.numbers.stored);
    let message = &pulled.message;
    stored(stream, pulled.numbers.stream_sequence, time, &message.subject, &message.header)
}

fn stored(
    stream: &str,
    sequence: u64,
    time: Timestamp,
    subject: &str,
    header: &[u8],
) -> Result<(), BenchError> {
    let subject = one_line(subject);
    show(&format!("[{sequence}] {stream} > {subject}, received {}\n", local(time)))?;
    show(&header_lines(header))
}
