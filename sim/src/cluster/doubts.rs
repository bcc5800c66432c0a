//! Scenes of what a server takes for true that is so no more: support that has ended by when it is
//! heard of, and messages that a disk has taken and not kept.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use myelin_stdx::rng::Rng;

use super::history::Outcome;
use super::model::Publication;
use super::node::NAMES;
use super::scenes::Roles;
use super::world::{SECOND, World};

/// Whether disks lose what was confirmed, besides that they fail.
static DOES_DAMAGE: AtomicBool = AtomicBool::new(false);

/// Has disks of clusters lose what was confirmed from here on, in scenes of disks that fail. What
/// that finds is open: docs/simulation.md.
pub fn damage_disks() {
    DOES_DAMAGE.store(true, Relaxed);
}

impl World {
    /// Whatever is for a leader takes long, answers to its heartbeats, too. Then nobody hears it,
    /// while answers still come. Others lead, and the first one is asked meanwhile.
    pub(super) fn late_support(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let leader = roles.leader;
        let by = SECOND / 2 + rng.below(SECOND);
        self.tell(|| format!("what is for {leader} takes {} ms more", by / 1_000_000));
        self.all().for_each(|other| self.network.slow_down(other, leader, by));
        let does_rest = rng.below(2) == 0;
        for _ in 0..2 + rng.below(6) {
            if !does_rest {
                self.publish_plain(stream, leader);
            }
            self.pass(SECOND / 4 + rng.below(SECOND / 2))?;
        }
        self.all().for_each(|other| self.network.cut(leader, other));
        self.tell(|| format!("nobody hears {leader}"));
        for _ in 0..60 {
            self.pass(SECOND / 20)?;
            if self.publish_at_others(stream, leader, rng)? {
                self.pass_until_answered(SECOND / 10)?;
                self.look_at(stream, leader, &[leader]);
            }
        }
        Ok(())
    }

    /// A member has confirmed messages when its disk fails, and may have lost them without its
    /// process having ended. Then it is with those that have never heard of them.
    pub(super) fn failed_confirmation(
        &mut self,
        stream: usize,
        roles: &Roles,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let Roles { leader, confirming, rest } = roles;
        let (&forgetful, late) = confirming.split_first().ok_or("a group of one")?;
        let absent = [rest.as_slice(), late].concat();
        let absent = if late.is_empty() || rng.below(2) == 0 { rest.clone() } else { absent };
        let present: Vec<usize> = self.all().filter(|number| !absent.contains(number)).collect();
        self.divide(&present, &absent);
        self.publish_many(stream, *leader, rng.below(6) + 1, 500);
        self.pass_until_answered(SECOND / 2)?;
        self.break_disk(forgetful, rng.below(6));
        self.publish_many(stream, *leader, rng.below(6) + 1, 500);
        self.pass_until(SECOND / 2, |world| world.has_failed(stream, forgetful))?;
        if DOES_DAMAGE.load(Relaxed) && self.has_failed(stream, forgetful) {
            self.damage_last(stream, forgetful);
        }
        self.pass(rng.below(SECOND))?;
        self.machines[forgetful].disk.heal();
        let others: Vec<usize> = [absent.as_slice(), &[forgetful]].concat();
        let informed: Vec<usize> = self.all().filter(|number| !others.contains(number)).collect();
        self.leave_with(forgetful, (&informed, &others), rng)?;
        self.publish_at_others(stream, *leader, rng).map(drop)
    }

    /// Whether a stream has failed on a server, and is to be opened anew.
    fn has_failed(&self, stream: usize, number: usize) -> bool {
        let live = self.node(number).and_then(|node| node.stream(&self.streams[stream].plan.name));
        live.is_some_and(|live| live.failure().is_some())
    }

    /// A disk loses the last message of a stream that is known to be stored, if the server may be
    /// without it.
    fn damage_last(&mut self, stream: usize, number: usize) {
        let is_stored = |one: &&Publication| matches!(one.outcome, Outcome::Stored(_));
        let last = self.streams[stream].publications.iter().rev().find(is_stored);
        let Some(payload) = last.map(|one| one.payload.clone()) else { return };
        if !self.may_lose(number) {
            return;
        }
        self.tell(|| format!("the disk of {} loses {payload}", NAMES[number]));
        let subjects = format!("{}.", self.streams[stream].plan.name);
        let disk = &self.machines[number].disk;
        for path in disk.files().into_keys().filter(|path| path.starts_with("/store/streams")) {
            let content = disk.read_all(&path).unwrap_or_default();
            let position =
                |text: &str| content.windows(text.len()).position(|bytes| bytes == text.as_bytes());
            // Other streams have messages that are called so.
            let at = position(&subjects).and_then(|_| position(&payload));
            for at in at.into_iter().map(|at| at as u64) {
                // What cannot be damaged is not there any more.
                let _ = disk.zero(&path, at..at + payload.len() as u64);
            }
        }
    }
}
