//! `myelin dlq list|show|edit|replay|purge`: dead letters of a stream that takes those of others
//! (`docs/dead-letters.md`).
//!
//! Owns what is printed, and which letters are meant. `letter` is one letter as it is stored,
//! `replay` gives messages back to where they came from.

mod letter;
mod replay;

use clap::{Args, Subcommand};
use letter::{Header, Letter, Letters};
use myelin_loadgen::client_pool::message_writer::header_lines;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::{ConnectionFlags, Target};
use myelin_loadgen::units::{binary, grouped};
use serde_json::{Value, json};
use std::borrow::Cow;

use crate::screen::{self, say, say_json, show_payload};

/// `myelin dlq …`
#[derive(Args, Debug)]
pub(crate) struct DlqArguments {
    #[command(flatten)]
    flags: ConnectionFlags,
    #[command(subcommand)]
    verb: DlqVerb,
}

#[derive(Debug, Subcommand)]
enum DlqVerb {
    /// List dead letters
    #[command(visible_alias = "ls")]
    List {
        /// The stream that has them
        stream: String,
        #[command(flatten)]
        origin: LetterOrigin,
        /// Everything but payloads, as JSON, a line each
        #[arg(short, long)]
        json: bool,
    },
    /// Show one dead letter
    Show {
        /// The stream that has it
        stream: String,
        /// Its sequence there
        seq: u64,
        /// The payload and nothing else
        #[arg(short, long)]
        raw: bool,
    },
    /// Change one dead letter: its headers, its payload, where a replay publishes it
    Edit {
        /// The stream that has it
        stream: String,
        /// Its sequence there
        seq: u64,
        /// Header line that takes the place of those with the same key, K:V
        #[arg(short = 'H', long = "header", value_name = "HEADER")]
        headers: Vec<String>,
        /// Leave out headers with this key
        #[arg(long = "remove-header", value_name = "KEY")]
        removed: Vec<String>,
        /// Another payload
        #[arg(long)]
        body: Option<String>,
        /// Another subject for a replay
        #[arg(long)]
        subject: Option<String>,
    },
    /// Publish messages again on their own subjects, in their order, and remove the letters
    Replay {
        /// The stream that has them
        stream: String,
        /// Sequences there; all that are meant by the other flags where there are none
        seqs: Vec<u64>,
        #[command(flatten)]
        origin: LetterOrigin,
        /// Messages in a second at most; 0: as fast as they are taken
        #[arg(long, default_value_t = 0)]
        rate: u64,
        /// Leave the letters where they are
        #[arg(long)]
        keep: bool,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
    /// Remove dead letters
    Purge {
        /// The stream that has them
        stream: String,
        #[command(flatten)]
        origin: LetterOrigin,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
}

/// Origin of the letters that are meant.
#[derive(Args, Clone, Debug, Default)]
struct LetterOrigin {
    /// Only those from this stream
    #[arg(long, value_name = "STREAM")]
    from_stream: Option<String>,
    /// Only those of consumers with this name
    #[arg(long, value_name = "CONSUMER")]
    from_consumer: Option<String>,
    /// Only those for this reason: exhausted or terminated
    #[arg(long)]
    reason: Option<String>,
}

impl LetterOrigin {
    fn covers(&self, letter: &Letter) -> bool {
        let is =
            |wanted: &Option<String>, key| wanted.as_ref().is_none_or(|wanted| wanted == letter.fact(key));
        is(&self.from_stream, "Stream") && is(&self.from_consumer, "Consumer") && is(&self.reason, "Reason")
    }
}

pub(crate) fn run(arguments: &DlqArguments) -> Result<(), BenchError> {
    let (DlqVerb::List { stream, .. }
    | DlqVerb::Show { stream, .. }
    | DlqVerb::Edit { stream, .. }
    | DlqVerb::Replay { stream, .. }
    | DlqVerb::Purge { stream, .. }) = &arguments.verb;
    names::stream(stream)?;
    let target = arguments.flags.target()?;
    let mut letters = Letters::open(&target, stream)?;
    match &arguments.verb {
        DlqVerb::List { origin, json, .. } => list(&mut letters, origin, *json),
        DlqVerb::Show { seq, raw, .. } => show(&letters.get(*seq)?, *raw),
        DlqVerb::Edit { seq, headers, removed, body, subject, .. } => {
            let mut letter = letters.get(*seq)?;
            edit(&mut letter, headers, removed, (body.as_deref(), subject.as_deref()))?;
            let seq = replay::replace(&mut letters, &letter)?;
            say(&format_args!("letter {} is {seq} now", letter.seq));
            Ok(())
        }
        DlqVerb::Replay { seqs, origin, rate, keep, force, .. } => {
            let (chosen, _) = choose(&mut letters, seqs, origin)?;
            let question = format!("Really publish {} messages again?", chosen.len());
            screen::confirm(*force, &question)?;
            // The answer may have taken long, and a connection on which nobody answers ends.
            letters = Letters::open(&target, stream)?;
            let replayed = replay::replay(&mut letters, &chosen, (*rate, *keep))?;
            let noun = if replayed == 1 { "message" } else { "messages" };
            say(&format_args!("{} {noun} published again", grouped(replayed)));
            Ok(())
        }
        DlqVerb::Purge { origin, force, .. } => purge(&target, &mut letters, origin, *force),
    }
}

fn list(letters: &mut Letters, origin: &LetterOrigin, is_json: bool) -> Result<(), BenchError> {
    let mut count = 0;
    letters.each(&mut |letter| {
        if !origin.covers(&letter) {
            return Ok(());
        }
        count += 1;
        if is_json {
            say_json(&described(&letter));
        } else {
            say(&line(&letter));
        }
        Ok(())
    })?;
    if count == 0 && !is_json {
        say(&"No dead letters");
    }
    Ok(())
}

/// `#7  ORDERS 1234 by billing, exhausted after 5 deliveries, orders.new, 120 B, died …`
fn line(letter: &Letter) -> String {
    let fact = |key| letter.fact(key);
    let said = match fact("Reason-Text") {
        "" => String::new(),
        said => format!(" ({said})"),
    };
    let deliveries = if fact("Deliveries") == "1" { "delivery" } else { "deliveries" };
    format!(
        "#{}  {} {} by {}, {}{said} after {} {deliveries}, {}, {}, died {}",
        letter.seq,
        fact("Stream"),
        fact("Sequence"),
        fact("Consumer"),
        fact("Reason"),
        fact("Deliveries"),
        fact("Subject"),
        binary(letter.payload.len() as f64),
        fact("Time"),
    )
}

fn described(letter: &Letter) -> Value {
    let header = |header: &Header| json!({ "key": text(header.key()), "value": text(header.value()) });
    let headers: Vec<Value> = letter.headers.iter().map(header).collect();
    json!({ "seq": letter.seq, "subject": letter.subject, "size": letter.payload.len(), "headers": headers })
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn show(letter: &Letter, is_raw: bool) -> Result<(), BenchError> {
    if !is_raw {
        say(&line(letter));
        say(&"");
        for header in &letter.headers {
            say(&format_args!("{}: {}", text(header.key()), text(header.value())));
        }
        say(&"");
    }
    show_payload(&letter.payload, is_raw)?;
    screen::show("\n")
}

fn edit(
    letter: &mut Letter,
    headers: &[String],
    removed: &[String],
    (body, subject): (Option<&str>, Option<&str>),
) -> Result<(), BenchError> {
    for argument in headers {
        header_lines(std::slice::from_ref(argument))?;
        let (key, value) = argument.split_once(':').unwrap_or_default();
        letter.set(key.trim(), value.trim());
    }
    removed.iter().for_each(|key| letter.remove(key));
    if let Some(subject) = subject {
        names::word("subject", subject)?;
        letter.set("Myelin-DLQ-Subject", subject);
    }
    if let Some(body) = body {
        letter.payload = body.as_bytes().to_vec();
    }
    Ok(())
}

/// Letters that are meant, in the order in which their messages were in their streams, and whether
/// the stream had nothing else.
fn choose(
    letters: &mut Letters,
    seqs: &[u64],
    origin: &LetterOrigin,
) -> Result<(Vec<u64>, bool), BenchError> {
    let mut chosen = Vec::new();
    let mut add = |letter: Letter| {
        if origin.covers(&letter) {
            let sequence: u64 = letter.fact("Sequence").parse().unwrap_or(0);
            chosen.push((letter.fact("Stream").to_owned(), sequence, letter.seq));
        }
        Ok(())
    };
    let messages = if seqs.is_empty() { Some(letters.each(&mut add)?) } else { None };
    for seq in seqs {
        add(letters.get(*seq)?)?;
    }
    chosen.sort();
    let is_all = messages == Some(chosen.len() as u64);
    Ok((chosen.into_iter().map(|(.., seq)| seq).collect(), is_all))
}

fn purge(
    target: &Target,
    letters: &mut Letters,
    origin: &LetterOrigin,
    is_forced: bool,
) -> Result<(), BenchError> {
    let stream = letters.stream().to_owned();
    let (chosen, is_all) = choose(letters, &[], origin)?;
    screen::confirm(is_forced, &format!("Really remove {} letters of stream {stream}?", chosen.len()))?;
    *letters = Letters::open(target, &stream)?;
    let removed = match chosen.iter().max() {
        // What comes meanwhile stays, and so does what is no letter.
        Some(last) if is_all => letters.remove_up_to(*last)?,
        _ => {
            chosen.iter().try_for_each(|seq| letters.remove(*seq))?;
            chosen.len() as u64
        }
    };
    let noun = if removed == 1 { "letter" } else { "letters" };
    say(&format_args!("{} {noun} removed from stream {stream}", grouped(removed)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Letter {
        let headers = "NATS/1.0\r\nA: 1\r\nMyelin-DLQ-Kept-Nats-TTL: 5s\r\nMyelin-DLQ-Kept-Nats-Msg-Id: x\r\n\
            Myelin-DLQ-Stream: ORDERS\r\nMyelin-DLQ-Sequence: 12\r\nMyelin-DLQ-Consumer: billing\r\n\
            Myelin-DLQ-Reason: terminated\r\nMyelin-DLQ-Reason-Text: no customer\r\nMyelin-DLQ-Deliveries: 3\r\n\
            Myelin-DLQ-Subject: orders.new\r\nMyelin-DLQ-Time: 2026-11-29T00:00:00Z\r\nNats-Msg-Id: dlq.1\r\n\
            Nats-Expected-Stream: D\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n";
        Letter::new(7, "dlq.ORDERS.billing.1.12", headers.as_bytes(), b"body".to_vec())
    }

    #[test]
    fn a_letter_is_shown_on_a_line() {
        let expected = "#7  ORDERS 12 by billing, terminated (no customer) after 3 deliveries, orders.new, 4 B, \
            died 2026-11-29T00:00:00Z";
        assert_eq!(line(&letter()), expected);
        let of = |stream: &str| LetterOrigin { from_stream: Some(stream.into()), ..LetterOrigin::default() };
        assert!(of("ORDERS").covers(&letter()) && !of("OTHERS").covers(&letter()));
    }

    #[test]
    fn a_replay_gives_headers_back_but_for_those_of_another_time() {
        let expected = "A: 1\r\nNats-TTL: 5s\r\nNats-Msg-Id: replay:dlq.ORDERS.billing.1.12\r\n";
        assert_eq!(text(&letter().original_headers(true)), expected);
        assert_eq!(text(&letter().original_headers(false)), "A: 1\r\nNats-TTL: 5s\r\n");
        let own =
            b"NATS/1.0\r\nA:\xff\xfe  x \r\n folded: 1\r\nMyelin-DLQ-Kept-Nats-X:\xff\r\nB\xff: 2\nNats-Rollup: all\r\n\r\n";
        let bytes = Letter::new(7, "dlq.1", own, Vec::new());
        let expected =
            b"A:\xff\xfe  x \r\n folded: 1\r\nNats-X:\xff\r\nB\xff: 2\nNats-Rollup: all\r\nNats-Msg-Id: replay:dlq.1\r\n";
        assert_eq!(bytes.original_headers(true), expected, "byte for byte");
    }

    #[test]
    fn an_edited_letter_is_the_same_but_for_what_was_changed() {
        let mut edited = letter();
        let headers = ["A: 2".to_owned(), "B:3".to_owned()];
        edit(
            &mut edited,
            &headers,
            &["Myelin-DLQ-Kept-Nats-TTL".to_owned()],
            (Some("other"), Some("orders.old")),
        )
        .expect("it can be done");
        assert_eq!(edited.fact("Subject"), "orders.old");
        assert_eq!(edited.payload, b"other");
        let original = "A: 2\r\nB: 3\r\nNats-Msg-Id: replay:dlq.ORDERS.billing.1.12\r\n";
        assert_eq!(text(&edited.original_headers(true)), original);
        let stored = text(&edited.stored_headers()).into_owned();
        assert!(stored.contains("Myelin-DLQ-Kept-Nats-Msg-Id: x\r\n"), "{stored}");
        assert!(!stored.contains("\r\nNats-"), "what acts on the stream is said anew: {stored}");
    }
}
