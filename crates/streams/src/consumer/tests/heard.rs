//! Words of a consumer, read as its client reads them, and what it says of itself beside what it
//! does.

use super::twin::Said;
use crate::consumer::ConsumerEvent;
use myelin_jsapi::api::why::{ConsumerCause, Holds};
use myelin_store::Seq;

/// Something holds all deliveries back exactly where nothing is delivered although there is
/// something.
pub(super) fn check_why(
    why: &[(Holds, ConsumerCause)],
    has_something: bool,
    said: &[Said],
) -> Result<(), String> {
    let delivered = said.iter().filter(|said| matches!(said, Said::Message(..))).count();
    let holds_all = why.iter().any(|(holds, _)| *holds == Holds::All);
    let is_first = why.first().is_some_and(|(holds, _)| *holds == Holds::All);
    if holds_all != (has_something && delivered == 0) || holds_all != is_first {
        return Err(format!("why: {why:?}, delivered {delivered}, has something: {has_something}"));
    }
    let ends = why.iter().filter(|(holds, _)| *holds == Holds::Nothing).count();
    if (ends > 0) == has_something {
        return Err(format!("why at the end: {why:?}, has something: {has_something}"));
    }
    Ok(())
}

/// Reads which delivery of the message, the message, and the consumer's delivery.
pub(super) fn parse(subject: &str) -> Result<(u64, Seq, u64), String> {
    let tokens: Vec<&str> = subject.split('.').collect();
    let number = |at: usize| tokens.get(at).and_then(|token| token.parse().ok());
    match (tokens.len(), number(4), number(5), number(6)) {
        (9, Some(deliveries), Some(seq), Some(delivery)) => Ok((deliveries, seq, delivery)),
        _ => Err(format!("not an acknowledgement's subject: {subject}")),
    }
}

pub(super) fn told(event: &ConsumerEvent) -> Said {
    let answered = |what: &str, answered: &crate::consumer::AckedDelivery| {
        format!("{what} {} {} {}", answered.delivery.0, answered.seq, answered.deliveries)
    };
    Said::Told(match event {
        ConsumerEvent::MaxDeliveries { seq, deliveries } => format!("max deliveries of {seq}: {deliveries}"),
        ConsumerEvent::Nak(which) => answered("nak", which),
        ConsumerEvent::Terminated(which, _) => answered("term", which),
        ConsumerEvent::Pause => "pause".into(),
        other => format!("{other:?}"),
    })
}
