//! Mirrors, and streams that have others as sources: each message of an origin comes once, in
//! order, and all of them come.

use std::collections::BTreeMap;

use myelin_jetstream::LiveStream;
use myelin_store::Filter;
use serde_json::Value;

use crate::copy_model::CopyModel;
use crate::message::id_of;
use crate::model::{Fate, Status, StreamModel};
use crate::plan::{Kept, Kind};
use crate::walk::walk;
use crate::world::{Asked, World};

/// Copies that are there at once, at most.
const COPIES: usize = 2;
/// Seconds until a copy that has not everything counts as stalled.
const PATIENCE: usize = 60;
const SECOND: u64 = 1_000_000_000;

/// Messages of a copy that were found in it: by origin, the sequences there, in order.
type Copied = BTreeMap<String, Vec<u64>>;

impl CopyModel {
    /// Reads what the copy has, and whether it may.
    fn contents(
        &self,
        name: &str,
        live: &LiveStream,
        streams: &BTreeMap<String, StreamModel>,
        now: u64,
    ) -> Result<Copied, String> {
        let mut copied = Copied::new();
        walk(name, &live.reader(), self.is_damaged, now, |message| {
            let (seq, headers) = (message.seq, String::from_utf8_lossy(message.headers));
            let id = id_of(&headers, message.payload)
                .ok_or_else(|| format!("{name}: {seq} is what nobody has published"))?;
            let (origin, of_origin) = if self.is_mirror {
                (self.origins[0].as_str(), seq)
            } else {
                source_of(&headers).ok_or_else(|| format!("{name}: {seq} says no source: {headers}"))?
            };
            if !copied.contains_key(origin) {
                copied.insert(origin.to_owned(), Vec::new());
            }
            let had = copied.get_mut(origin).expect("it was added");
            let before = had.last().copied().unwrap_or(0);
            if before >= of_origin {
                return Err(format!("{name}: {of_origin} of {origin} comes behind {before}"));
            }
            if let Some(model) = streams.get(origin) {
                known(name, model, of_origin, id)?;
            }
            had.push(of_origin);
            Ok(())
        })?;
        Ok(copied)
    }
}

/// Whether an origin has, or may have had, a message with this number at this sequence.
fn known(name: &str, origin: &StreamModel, seq: u64, id: u64) -> Result<(), String> {
    if origin.plan.is_in_memory || origin.status != Status::There {
        return Ok(());
    }
    let from = &origin.plan.name;
    if let Some(had) = origin.given.get(&seq).filter(|had| **had != id) {
        return Err(format!("{name}: {seq} of {from} is {id} here, and {had} there"));
    }
    match origin.publications.get(&id).map(|one| one.fate) {
        None if origin.gone.contains(&id) => Ok(()),
        None => Err(format!("{name}: nobody has published {id} of {from}, or it was refused")),
        Some(Fate::Refused) => Err(format!("{name}: {id} of {from} was refused")),
        Some(Fate::Stored(other)) if other != seq => {
            Err(format!("{name}: {id} of {from} is {seq} here, and {other} there"))
        }
        Some(_) => Ok(()),
    }
}

/// Stream and sequence that a sourced message came from.
fn source_of(headers: &str) -> Option<(&str, u64)> {
    let value = headers.lines().find_map(|line| line.strip_prefix("Nats-Stream-Source: "))?;
    let mut words = value.split(' ');
    // With the name of its configuration behind a colon.
    let name = words.next()?.split(':').next()?;
    Some((name, words.next()?.trim().parse().ok()?))
}

impl World {
    /// Makes a mirror of a stream, or one that has streams as sources.
    pub(crate) fn make_copy(&mut self, client: usize) {
        let alive = self.copies.values().filter(|copy| copy.status != Status::Gone).count();
        let can = |model: &&StreamModel| {
            model.status == Status::There
                && model.plan.kept == Kept::Limits
                && model.plan.kind == Kind::Plain
                && !model.plan.is_in_memory
        };
        let mut origins: Vec<String> =
            self.streams.values().filter(can).map(|model| model.plan.name.clone()).collect();
        if alive >= COPIES || origins.is_empty() {
            return;
        }
        let is_mirror = self.rng.below(2) == 0;
        if is_mirror {
            let at = self.rng.below(origins.len() as u64) as usize;
            origins = vec![origins.swap_remove(at)];
        }
        let name = format!("K{}", self.number());
        let is_damaged = origins.iter().any(|origin| self.streams[origin].is_damaged);
        let is_in_memory = self.rng.below(4) == 0;
        let (status, made_in) = (Status::Making, self.lives);
        let copy = CopyModel { origins, is_mirror, status, made_in, is_in_memory, is_damaged };
        let body = copy.body(&name);
        self.copies.insert(name.clone(), copy);
        self.api(client, &format!("STREAM.CREATE.{name}"), &body, Asked::MakeCopy { copy: name });
    }

    /// Removes one of the copies.
    pub(crate) fn remove_copy(&mut self, client: usize) {
        let there = self.copies.iter_mut().find(|(_, copy)| copy.status == Status::There);
        let Some((name, copy)) = there else { return };
        copy.status = Status::Leaving;
        let name = name.clone();
        let subject = format!("STREAM.DELETE.{name}");
        self.api(client, &subject, &Value::Null, Asked::RemoveCopy { copy: name });
    }

    /// Waits until the copies have what their origins have, and looks what that is.
    pub(crate) fn check_copies(&mut self) -> Result<(), String> {
        let mut missing = None;
        for _ in 0..PATIENCE {
            missing = self.first_missing()?;
            if missing.is_none() {
                return Ok(());
            }
            self.go_on_for(SECOND)?;
        }
        missing.map_or(Ok(()), Err)
    }

    /// Whether a copy may lack a message of its origin. Compat: a stream with sources takes the
    /// second message with an id for a duplicate, whatever its origin did. One that was there when
    /// power was lost may have passed over what had been removed just before, as a consumer may:
    /// the removal was lost, and the message is back.
    fn may_lack(&self, copy: &CopyModel, origin: &str, seq: u64) -> bool {
        let model = self.streams.get(origin);
        let one = model.and_then(|model| model.publications.get(model.given.get(&seq)?));
        one.is_some_and(|one| (!copy.is_mirror && one.msg_id.is_some()) || one.may_be_back(copy.made_in))
    }

    /// Words for the first message that a copy lacks.
    fn first_missing(&self) -> Result<Option<String>, String> {
        let Some(server) = &self.server else { return Ok(None) };
        let streams = server.streams();
        for (name, copy) in self.copies.iter().filter(|(_, copy)| copy.status == Status::There) {
            let live = streams.stream(name).ok_or_else(|| format!("{name}: the copy is gone"))?;
            let copied = copy.contents(name, &live, &self.streams, self.clock.elapsed())?;
            for origin in copy.origins.iter().filter(|_| !copy.is_damaged) {
                let there = self.streams.get(origin).is_some_and(|model| model.status == Status::There);
                let Some(from) = streams.stream(origin).filter(|_| there) else { continue };
                let (reader, none) = (from.reader(), Vec::new());
                let has = copied.get(origin).unwrap_or(&none);
                let mut at = 1;
                while let Ok(Some(seq)) = reader.next_seq(&Filter::All, at) {
                    if has.binary_search(&seq).is_err() && !self.may_lack(copy, origin, seq) {
                        let (came, state) = (has.len(), live.state(false));
                        return Ok(Some(format!(
                            "{name}: {seq} of {origin} never came, of {came} others; {state:?}"
                        )));
                    }
                    at = seq + 1;
                }
            }
        }
        Ok(None)
    }
}
