//! Which subjects a stream may take: none of the server's own, none twice, none of another stream.

use super::{OtherStreams, StreamConfig, collide, invalid, is_within};
use crate::error::ApiError;
use hashbrown::HashMap;
use myelin_subject::{has_wildcard, is_valid_pattern};
use myelin_wire::error::Quoted;

/// Checks the subjects, or takes the stream's name for the only one.
pub(super) fn fill(config: &mut StreamConfig) -> Result<(), ApiError> {
    if config.subjects.is_empty() {
        if config.mirror.is_none() && config.sources.is_empty() {
            config.subjects.push(config.name.clone());
        }
        return Ok(());
    }
    let own = OwnSubjects::of(&config.subjects);
    for (at, subject) in config.subjects.iter().enumerate() {
        if !is_valid_pattern(subject.as_bytes()) {
            return invalid("invalid subject");
        }
        capturing_all(config, subject)?;
        if !config.no_ack {
            reserved(subject)?;
        }
        if let Some(other) = own.first_overlap(at) {
            let (a, b) = (Quoted(subject.as_bytes()), Quoted(other.as_bytes()));
            return invalid(format_args!("subject {a} overlaps with {b}"));
        }
    }
    Ok(())
}

/// Whether another stream has some of these subjects.
pub(crate) fn overlap(config: &StreamConfig, all: &dyn OtherStreams) -> Result<(), ApiError> {
    let is_taken = all.is_taken_by_other(&config.name, &config.subjects);
    if is_taken { Err(ApiError::STREAM_SUBJECT_OVERLAP) } else { Ok(()) }
}

fn capturing_all(config: &StreamConfig, subject: &str) -> Result<(), ApiError> {
    if subject != ">" {
        return Ok(());
    }
    if !config.no_ack {
        return invalid("capturing all subjects requires no-ack to be true");
    }
    if config.num_replicas != 1 {
        return invalid("capturing all subjects requires replicas of 1");
    }
    Ok(())
}

/// Subjects that the server itself answers would be acknowledged by the stream, too. Events are
/// harmless.
fn reserved(subject: &str) -> Result<(), ApiError> {
    let api = ["$JS.>", "$JSC.>", "$NRG.>"].iter().any(|space| collide(subject, space));
    if api && !is_within(subject, "$JS.EVENT.>") {
        return invalid("subjects that overlap with jetstream api require no-ack to be true");
    }
    if collide(subject, "$SYS.>") && !is_within(subject, "$SYS.ACCOUNT.>") {
        return invalid("subjects that overlap with system api require no-ack to be true");
    }
    Ok(())
}

/// The stream's own subjects, so arranged that many literal ones are compared in one look.
struct OwnSubjects<'a> {
    subjects: &'a [String],
    /// Where each literal stands last.
    literals: HashMap<&'a str, usize>,
    /// Where patterns stand.
    patterns: Vec<usize>,
}

impl<'a> OwnSubjects<'a> {
    fn of(subjects: &'a [String]) -> Self {
        let is_pattern = |at: &usize| has_wildcard(subjects[*at].as_bytes());
        let (patterns, literals): (Vec<usize>, Vec<usize>) = (0..subjects.len()).partition(is_pattern);
        let literals = literals.into_iter().map(|at| (subjects[at].as_str(), at)).collect();
        Self { subjects, literals, patterns }
    }

    /// The first subject behind `at` that overlaps with the one there.
    fn first_overlap(&self, at: usize) -> Option<&'a str> {
        let (subject, rest) = (&self.subjects[at], &self.subjects[at + 1..]);
        let collides = |other: &str| collide(other, subject);
        let literal = self.literals.get(subject.as_str());
        let alone = literal.is_some_and(|last| *last == at)
            && !self.patterns.iter().any(|&other| other > at && collides(&self.subjects[other]));
        if alone { None } else { rest.iter().map(String::as_str).find(|other| collides(other)) }
    }
}
