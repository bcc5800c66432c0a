//! `myelin consumer next` and `sub`: what consumers deliver, and what they are told about it.

use std::time::Instant;

use clap::Args;
use myelin_loadgen::admin::Admin;
use myelin_loadgen::connection::write_message;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::consumers::delivery::Delivery;
use myelin_loadgen::names;
use myelin_loadgen::units::{Time, log};

use crate::consumer::{Which, info};
use crate::pull::{ConsumerReader, Pulled};
use crate::screen::{header_lines, one_line, show, show_payload};
use crate::table::{local, moment_of, text};

/// `myelin consumer next`
#[derive(Args, Debug)]
pub(super) struct Next {
    #[command(flatten)]
    pub(super) which: Which,
    /// Messages to take at most
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// How long to wait for them [default: --timeout]
    #[arg(long, value_name = "DURATION")]
    wait: Option<Time>,
    #[command(flatten)]
    reaction: Reaction,
    /// Payloads and nothing else
    #[arg(short, long)]
    raw: bool,
}

/// `myelin consumer sub`
#[derive(Args, Debug)]
pub(super) struct Subscription {
    #[command(flatten)]
    pub(super) which: Which,
    /// End after so many messages
    #[arg(long)]
    count: Option<u64>,
    #[command(flatten)]
    reaction: Reaction,
    /// Payloads and nothing else
    #[arg(short, long)]
    raw: bool,
}

/// Answer that the consumer gets for each message.
#[derive(Args, Debug)]
struct Reaction {
    /// Acknowledge, as without these flags
    #[arg(long, overrides_with = "no_ack")]
    ack: bool,
    /// Leave messages unacknowledged
    #[arg(long, overrides_with = "ack")]
    no_ack: bool,
    /// Ask for another delivery
    #[arg(long, conflicts_with_all = ["ack", "no_ack", "term"])]
    nak: bool,
    /// Ask for no further delivery
    #[arg(long, conflicts_with_all = ["ack", "no_ack"])]
    term: bool,
}

impl Reaction {
    fn words(&self) -> Option<(&'static str, &'static str)> {
        match (self.no_ack, self.nak, self.term) {
            (true, ..) => None,
            (_, true, _) => Some(("-NAK", "Asked for another delivery")),
            (_, _, true) => Some(("+TERM", "Ended its deliveries")),
            _ => Some(("+ACK", "Acknowledged message")),
        }
    }
}

pub(super) fn next(admin: &mut Admin, wanted: &Next) -> Result<(), BenchError> {
    let info = info(admin, &wanted.which)?;
    if info["config"]["deliver_subject"].is_string() {
        return Err(BenchError::Usage("this consumer pushes its messages: use sub".into()));
    }
    let deadline = Instant::now() + wanted.wait.map_or(admin.timeout(), |Time(wait)| wait);
    let mut reader = ConsumerReader::of(admin, &info, wanted.count)?;
    for taken in 0..wanted.count {
        let Some(pulled) = reader.next(Some(deadline))? else {
            return match taken {
                0 => Err(BenchError::Usage("no message came in time".into())),
                _ => Ok(()),
            };
        };
        take(&mut reader, &pulled, &wanted.reaction, wanted.raw)?;
    }
    Ok(())
}

pub(super) fn subscribe(admin: &mut Admin, wanted: &Subscription) -> Result<(), BenchError> {
    let info = info(admin, &wanted.which)?;
    let (subject, group) = (text(&info["config"]["deliver_subject"]), text(&info["config"]["deliver_group"]));
    if !subject.is_empty() {
        return pushed(admin, &subject, &group, wanted);
    }
    let count = wanted.count.unwrap_or(u64::MAX);
    let mut reader = ConsumerReader::of(admin, &info, count)?;
    for _ in 0..count {
        let Some(pulled) = reader.next(None)? else { return Ok(()) };
        take(&mut reader, &pulled, &wanted.reaction, wanted.raw)?;
    }
    Ok(())
}

fn take(
    reader: &mut ConsumerReader<'_>,
    pulled: &Pulled,
    reaction: &Reaction,
    is_raw: bool,
) -> Result<(), BenchError> {
    shown(pulled, is_raw)?;
    let Some((words, said)) = reaction.words() else { return Ok(()) };
    reader.settle(pulled, words)?;
    if is_raw { Ok(()) } else { show(&format!("{said}\n\n")) }
}

fn pushed(admin: &mut Admin, subject: &str, group: &str, wanted: &Subscription) -> Result<(), BenchError> {
    names::word("deliver subject", subject)?;
    let queue = if group.is_empty() { String::new() } else { format!("{group} ") };
    admin.connection().begin(format!("SUB {subject} {queue}2\r\n").as_bytes())?;
    log(&format!("Subscribing on {}", one_line(subject)));
    let mut left = wanted.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(message) = admin.connection().receive_until(None)? else { continue };
        let mut frame = Vec::new();
        let reply = message.reply.clone().unwrap_or_default();
        if let Some(numbers) = Delivery::read(reply.as_bytes()) {
            left -= 1;
            shown(&Pulled { message, numbers }, wanted.raw)?;
            if let Some((words, _)) = wanted.reaction.words() {
                write_message(&mut frame, &reply, None, "", words.as_bytes());
            }
        } else if message.status() == Some(100) && !reply.is_empty() {
            // Flow control: the consumer goes on when this is answered.
            write_message(&mut frame, &reply, None, "", b"");
        }
        admin.connection().begin(&frame)?;
    }
    Ok(())
}

/// Prints a message with the numbers of its delivery.
fn shown(pulled: &Pulled, is_raw: bool) -> Result<(), BenchError> {
    let Pulled { message, numbers } = pulled;
    if !is_raw {
        let Delivery { times, stream_sequence, consumer_sequence, stored, pending } = numbers;
        show(&format!(
            "[{}] subj: {} / tries: {times} / cons seq: {consumer_sequence} / str seq: {stream_sequence} / \
             pending: {pending}\n\n{}",
            local(moment_of(*stored)),
            one_line(&message.subject),
            header_lines(&message.header),
        ))?;
    }
    show_payload(&message.payload, is_raw)?;
    show(if is_raw { "\n" } else { "\n\n" })
}
