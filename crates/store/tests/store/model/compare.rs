//! Everything that a reader can see, held against the twin.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use myelin_stdx::rng::Rng;
use myelin_store::{Filter, Seq, StreamReader, Timestamp, Wait};

use super::operation::filters;
use super::world::{World, agree};
use crate::twin::{Kept, Twin};

impl World {
    /// Numbers only: after every operation.
    pub(super) fn compare_totals(&mut self) -> Result<(), String> {
        let state = self.stream().state();
        let twin = &self.twin;
        let totals = state.totals;
        agree(
            "messages, bytes, first, last",
            (totals.messages, totals.bytes, totals.first_seq, totals.last_seq),
            (twin.messages.len() as u64, twin.bytes(), twin.first_seq(), twin.last_seq),
        )?;
        agree("subjects", state.subjects, twin.subjects(&Filter::All).len() as u64)?;
        let deleted: u64 = twin.deleted().iter().map(|range| range.end() - range.start() + 1).sum();
        agree("deleted", state.deleted, deleted)?;
        if self.is_synced() && state.released > self.synced {
            return Err(format!("{} is released, and only {} is synced", state.released, self.synced));
        }
        if let Some(why) = self.stream().failure() {
            return Err(format!("it has failed: {why}"));
        }
        Ok(())
    }

    /// Everything; `seed` chooses places to look from.
    pub(super) fn compare(&mut self, seed: u64) -> Result<(), String> {
        let mut rng = Rng::seeded(seed);
        if self.is_synced() && rng.below(2) == 0 {
            self.compare_released(&mut rng)?;
        }
        self.round()?;
        let reader = self.stream().reader();
        compare_reader(&reader, &self.twin, &mut rng, self.now())?;
        let now = self.now();
        if let Some(follower) = &mut self.follower {
            let compared = compare_reader(&follower.stream().reader(), &self.twin, &mut rng, now);
            compared.map_err(|why| format!("the follower: {why}"))?;
        }
        self.compare_notes()?;
        self.compare_expiry()?;
        self.verify()
    }

    /// Nobody sees beyond the release position, and what goes is there until that is released.
    fn compare_released(&mut self, rng: &mut Rng) -> Result<(), String> {
        let (reader, now) = (self.stream().reader(), self.now());
        let released = reader.release().seq();
        let ticket = reader.release().ticket();
        while self.twins.front().is_some_and(|(of, _)| *of < ticket) {
            self.twins.pop_front();
        }
        // A part of an operation may be released, of which there is no twin.
        if let Some((_, twin)) = self.twins.front().filter(|(of, _)| *of == ticket) {
            compare_reader(&reader, twin, rng, now)?;
            let totals = reader.state().totals;
            agree(
                "released messages, bytes, first, last",
                (totals.messages, totals.bytes, totals.first_seq, totals.last_seq),
                (twin.messages.len() as u64, twin.bytes(), twin.first_seq(), twin.last_seq),
            )?;
        }
        let mut buffer = Vec::new();
        let beyond =
            reader.get(released + 1, Wait::Allowed, &mut buffer).map_err(|error| error.to_string())?;
        agree("what is not released", beyond.is_some(), false)
    }

    /// A deadline is never told too late.
    fn compare_expiry(&mut self) -> Result<(), String> {
        let next = self.stream().next_expiry().map_err(|error| error.to_string())?;
        let first = (self.now()..self.now() + 400).find(|&time| !self.twin.ended(time).is_empty());
        match (next, first) {
            (None, Some(first)) => Err(format!("nothing ends, and something does at {first}")),
            (Some(next), Some(first)) if next > first => {
                Err(format!("{next} is next, and something ends at {first}"))
            }
            _ => Ok(()),
        }
    }
}

/// Compares all that a reader shows of a stream, which is released.
fn compare_reader(reader: &StreamReader, twin: &Twin, rng: &mut Rng, now: Timestamp) -> Result<(), String> {
    agree("released", reader.release().seq() >= twin.last_seq, true)?;
    compare_messages(reader, twin)?;
    agree("deleted", reader.deleted(), twin.deleted())?;
    for filter in filters() {
        let look = Look { reader, twin, filter: &filter };
        look.walk(0, twin.last_seq)?;
        for _ in 0..3 {
            look.from(rng.below(twin.last_seq + 4))?;
            look.count(rng.below(twin.last_seq + 4), rng.below(twin.last_seq + 4))?;
        }
        look.last()?;
    }
    compare_subjects(reader, twin, rng)?;
    compare_neighbours(reader, twin, rng.below(twin.last_seq + 4), rng.below(twin.last_seq + 4))?;
    for _ in 0..8 {
        let time = 1000 + rng.below((now - 990) as u64) as i64;
        agree(
            &format!("seq_at({time})"),
            reader.seq_at(time).map_err(|error| error.to_string())?,
            twin.seq_at(time),
        )?;
    }
    Ok(())
}

fn compare_messages(reader: &StreamReader, twin: &Twin) -> Result<(), String> {
    let mut buffer = Vec::new();
    let from = twin.first_seq().saturating_sub(10);
    for seq in from..twin.last_seq + 3 {
        let found =
            reader.get(seq, Wait::Allowed, &mut buffer).map_err(|error| format!("get {seq}: {error}"))?;
        if found.is_some_and(|found| found.seq != seq) {
            return Err(format!("{seq} gives another message"));
        }
        agree(&format!("message {seq}"), found.as_ref().map(Kept::of), twin.messages.get(&seq).cloned())?;
    }
    Ok(())
}

fn compare_subjects(reader: &StreamReader, twin: &Twin, rng: &mut Rng) -> Result<(), String> {
    for pattern in [&b">"[..], b"a.*", b"b.>", b"k.9.y", b"*.*", b"never.*"] {
        let expected: Vec<_> = twin.subjects(&Filter::new(pattern)).into_iter().collect();
        let found = |after: Option<&[u8]>, limit| -> Vec<(Vec<u8>, u64)> {
            let found = reader.subjects(pattern, after, limit);
            found.into_iter().map(|(text, count)| (text.to_vec(), count)).collect()
        };
        agree("subjects", found(None, usize::MAX), expected.clone())?;
        if !expected.is_empty() {
            let at = rng.below(expected.len() as u64) as usize;
            let page: Vec<_> = expected[at + 1..].iter().take(3).cloned().collect();
            agree("a page of subjects", found(Some(&expected[at].0), 3), page)?;
        }
    }
    Ok(())
}

/// Equal neighbours may be shown twice where a segment ends between them.
fn compare_neighbours(reader: &StreamReader, twin: &Twin, from: Seq, to: Seq) -> Result<(), String> {
    let mut shown: Vec<Vec<u8>> = Vec::new();
    let walk = reader.each_subject(from, to, &mut |subject| {
        shown.push(subject.to_vec());
        ControlFlow::Continue(())
    });
    walk.map_err(|error| error.to_string())?;
    shown.dedup();
    let mut expected: Vec<Vec<u8>> = twin
        .messages
        .iter()
        .filter(|(seq, _)| (from..=to).contains(seq))
        .map(|(_, kept)| kept.subject.clone())
        .collect();
    expected.dedup();
    agree("subjects of a range", shown, expected)
}

/// One filter.
struct Look<'a> {
    reader: &'a StreamReader,
    twin: &'a Twin,
    filter: &'a Filter,
}

impl Look<'_> {
    fn words<T>(&self, what: &str, result: Result<T, myelin_store::ReadError>) -> Result<T, String> {
        result.map_err(|error| format!("{what} of {:?}: {error}", self.filter))
    }

    /// A cursor sees what the twin has, up to `to`.
    fn walk(&self, from: Seq, to: Seq) -> Result<(), String> {
        let mut cursor = self.reader.cursor(self.filter.clone(), from);
        let expected: BTreeMap<Seq, Kept> = self
            .twin
            .matching(self.filter)
            .filter(|seq| (from..=to).contains(seq))
            .map(|seq| (seq, self.twin.messages[&seq].clone()))
            .collect();
        for (seq, kept) in expected {
            let found = self.words("cursor", cursor.next(Wait::Allowed))?;
            let found = found.map(|message| (message.seq, Kept::of(&message)));
            agree(&format!("a cursor from {from} of {:?}", self.filter), found, Some((seq, kept)))?;
        }
        let more = self.words("cursor", cursor.next(Wait::Allowed))?.map(|message| message.seq);
        agree(&format!("the end of a cursor from {from} of {:?}", self.filter), more, None)
    }

    fn from(&self, from: Seq) -> Result<(), String> {
        self.walk(from, self.twin.last_seq)?;
        let what = |what: &str| format!("{what} {from} of {:?}", self.filter);
        let next = self.words("next", self.reader.next_seq(self.filter, from))?;
        agree(&what("next from"), next, self.twin.matching(self.filter).find(|&seq| seq >= from))?;
        let previous = self.words("previous", self.reader.previous_seq(self.filter, from))?;
        let expected = self.twin.matching(self.filter).rev().find(|&seq| seq <= from);
        agree(&what("previous from"), previous, expected)?;
        let pending = self.words("pending", self.reader.pending(self.filter, from))?;
        let expected = self.twin.matching(self.filter).filter(|&seq| seq >= from).count() as u64;
        agree(&what("pending from"), pending, expected)
    }

    fn count(&self, from: Seq, to: Seq) -> Result<(), String> {
        let count = self.words("count", self.reader.count(self.filter, from, to))?;
        let expected = self.twin.matching(self.filter).filter(|seq| (from..=to).contains(seq)).count() as u64;
        agree(&format!("count from {from} to {to} of {:?}", self.filter), count, expected)
    }

    fn last(&self) -> Result<(), String> {
        let last = self.words("last", self.reader.last_seq(self.filter))?;
        agree(&format!("last of {:?}", self.filter), last, self.twin.matching(self.filter).next_back())
    }
}
