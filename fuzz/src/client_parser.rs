//! The client protocol's parser.
//!
//! Promised for any bytes: the result does not depend on how they were split, nor on whether the
//! caller waits for as many bytes as the parser asks for; it asks for more than it has, and never
//! for more than the operation takes; the short way for plain publishes says what the long way
//! says.

use crate::pieces::pieces;
use myelin_wire::parser::{Op, ParseError, Parsed, ParserLimits, next, plain_publish};

const ROOMY: ParserLimits =
    ParserLimits { max_control_line: 4096, max_payload: Some(1 << 20), headers: true };
const TIGHT: ParserLimits = ParserLimits { max_control_line: 24, max_payload: Some(20), headers: false };

/// Any bytes as what a client sends.
pub fn client_parser(data: &[u8]) {
    for limits in [&ROOMY, &TIGHT] {
        let whole = replay([data].into_iter(), limits, Appetite::Eager);
        let bytes = || data.chunks(1);
        for appetite in [Appetite::Eager, Appetite::Patient] {
            assert_eq!(replay(pieces(data), limits, appetite), whole, "in pieces, {appetite:?}");
            assert_eq!(replay(bytes(), limits, appetite), whole, "byte by byte, {appetite:?}");
        }
    }
}

/// When the parser is asked again.
#[derive(Clone, Copy, Debug)]
enum Appetite {
    /// After each piece.
    Eager,
    /// Once there are as many bytes as it asked for, or nothing more comes: as a connection does
    /// it.
    Patient,
}

/// Outcome of parsing a stream of bytes.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Every operation, as its debug text.
    operations: Vec<String>,
    refused: Option<ParseError>,
    /// Bytes of the operation that is not whole.
    held: usize,
}

fn replay<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: &ParserLimits, appetite: Appetite) -> Outcome {
    let mut outcome = Outcome { operations: Vec::new(), refused: None, held: 0 };
    let mut held = Vec::new();
    let mut need = 1;
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        held.extend_from_slice(piece);
        if matches!(appetite, Appetite::Patient) && held.len() < need && pieces.peek().is_some() {
            continue;
        }
        match drain(&mut held, &mut need, limits, &mut outcome.operations) {
            Ok(()) => {}
            Err(error) => {
                outcome.refused = Some(error);
                return outcome;
            }
        }
    }
    outcome.held = held.len();
    outcome
}

/// Takes every whole operation from the front of `held`.
fn drain(
    held: &mut Vec<u8>,
    need: &mut usize,
    limits: &ParserLimits,
    operations: &mut Vec<String>,
) -> Result<(), ParseError> {
    loop {
        let said = next(held, limits);
        agrees_with_the_short_way(held, limits, said);
        match said? {
            Parsed::Op(operation, len) => {
                assert!((1..=held.len()).contains(&len), "an operation of {len} bytes in {}", held.len());
                assert!(len >= *need, "asked for {need} bytes, but {len} were enough");
                operations.push(format!("{operation:?}"));
                held.drain(..len);
                *need = 1;
            }
            Parsed::Need(more) => {
                assert!(more > held.len(), "asks for {more} bytes of {}", held.len());
                *need = more;
                return Ok(());
            }
        }
    }
}

fn agrees_with_the_short_way(held: &[u8], limits: &ParserLimits, said: Result<Parsed<'_>, ParseError>) {
    if let Some((message, len)) = plain_publish(held, limits) {
        assert_eq!(said, Ok(Parsed::Op(Op::Pub(message), len)), "the short way says something else");
    }
}
