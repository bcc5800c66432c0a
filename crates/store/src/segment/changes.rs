//! Changes of a segment: the state of the stream when it ended, for everything that the segment
//! touched.
//!
//! Owns the section `changes` of a footer. Its states are absolute: recovery lays those of a newer
//! segment over those of an older one and never adds them up.

use myelin_stdx::varint;

use super::column::{self, Form};
use super::{SubjectChanges, Texts, Totals};
use crate::document::Fields;
use crate::ranges::Ranges;
use crate::{Seq, Timestamp};

/// The state after a segment, as far as the segment touched it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of the whole stream.
    pub totals: Totals,
    /// Every subject with a message in the segment, or of which the segment deleted a message.
    pub subjects: SubjectChanges,
    /// The last sequence that the smallest `Truncate` of the segment left: older segments count
    /// only up to it.
    pub truncated_to: Option<Seq>,
    /// Sequences that the segment took away, and that are not there at its end. Those before
    /// `totals.first_seq`, and those that a `Truncate` cut off, need not be in it.
    pub deleted: Ranges,
    /// Messages of the segment with a lifetime of their own that are there at its end, by sequence.
    pub expiries: Vec<(Seq, Timestamp)>,
}

impl Changes {
    /// The section. The subjects' texts are not in it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + 16 * self.subjects.len() + 12 * self.expiries.len());
        out.extend_from_slice(&self.totals.to_bytes());
        out.push(u8::from(self.truncated_to.is_some()));
        out.extend_from_slice(&self.truncated_to.unwrap_or(0).to_le_bytes());
        self.deleted.encode(&mut out);
        self.subjects.encode_numbers(&mut out);
        encode_expiries(&self.expiries, &mut out);
        out
    }

    /// Reads the section. `None` if it is not one for these subjects.
    pub(crate) fn decode(mut input: &[u8], texts: Texts) -> Option<Self> {
        let mut fields = Fields(input);
        let totals = Totals::decode(fields.bytes()?)?;
        let truncated_to = match (fields.byte()?, fields.u64()?) {
            (0, 0) => None,
            (1, last) => Some(last),
            _ => return None,
        };
        input = fields.0;
        let deleted = Ranges::decode(&mut input)?;
        let subjects = SubjectChanges::decode_numbers(texts, &mut input)?;
        let expiries = decode_expiries(&mut input)?;
        input.is_empty().then_some(Self { totals, truncated_to, subjects, deleted, expiries })
    }
}

/// Appends expiries: their number, a plain column of sequences, a column of times.
pub(crate) fn encode_expiries(expiries: &[(Seq, Timestamp)], out: &mut Vec<u8>) {
    varint::put(expiries.len() as u64, out);
    let sequences: Vec<u64> = expiries.iter().map(|(seq, _)| *seq).collect();
    column::encode(&sequences, Form::Plain, out);
    let times: Vec<u64> = expiries.iter().map(|(_, expires)| *expires as u64).collect();
    column::encode(&times, Form::Short, out);
}

/// Takes expiries off the front of `input`. `None` if they are cut, or their sequences do not grow.
pub(crate) fn decode_expiries(input: &mut &[u8]) -> Option<Vec<(Seq, Timestamp)>> {
    let count = usize::try_from(varint::take(input)?).ok()?;
    let sequences = column::decode(count, Form::Plain, input)?;
    let times = column::decode(count, Form::Short, input)?;
    let grows = sequences.windows(2).all(|pair| pair[0] < pair[1]);
    grows.then(|| sequences.into_iter().zip(times.into_iter().map(|time| time as Timestamp)).collect())
}
