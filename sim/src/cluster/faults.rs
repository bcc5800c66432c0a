//! Faults of servers of a cluster, of their disks, clocks and links; and their end.

use std::io::ErrorKind;

use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};
use myelin_jetstream::ClusterHealth;

use super::node::NAMES;
use super::world::{SECOND, World};

/// Nanoseconds before a loss of power of all: news that was told before that survives.
const BOUND: u64 = 100_000_000;

/// Nanoseconds between two starts of a server whose stream has failed, at least.
const MENDS_EVERY: u64 = 30 * SECOND;

impl World {
    /// Something goes wrong, or is mended.
    pub(super) fn fault(&mut self) -> Result<(), String> {
        let number = self.any();
        let other = self.any();
        let runs = self.machines[number].node.is_some();
        if self.is_recovering() {
            // All have lost power: they are to come back before anything else happens to them.
            return if runs { Ok(()) } else { self.start(number) };
        }
        match self.rng.below(24) {
            0..6 if !runs => self.start(number)?,
            6..9 => {
                self.tell(|| "all links are as usual".to_owned());
                self.network.heal();
            }
            9 => self.isolate(number),
            10 => {
                self.tell(|| format!("{} is not heard by {}", NAMES[number], NAMES[other]));
                self.network.cut(number, other);
            }
            11 => {
                self.tell(|| format!("{} and {} hear nothing of each other", NAMES[number], NAMES[other]));
                self.network.cut(number, other);
                self.network.cut(other, number);
            }
            12 => {
                let by = self.rng.below(SECOND);
                self.network.slow_down(number, other, by);
            }
            13 | 14 if runs => self.kill(number),
            15 | 16 if runs => self.lose_power(number),
            17 if runs => self.silence(number),
            18 if !self.plan.has_lifetimes() => self.jump(number),
            19 if runs => self.slow_disk(number),
            20 | 21 if runs && self.plan.do_disks_fail => self.fail_disk(number),
            22 if self.rng.below(4) == 0 => self.replace_disk(number),
            23 if self.rng.below(4) == 0 => self.lose_all_power()?,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn isolate(&mut self, number: usize) {
        self.tell(|| format!("{} is cut off", NAMES[number]));
        for other in self.all() {
            self.network.cut(number, other);
            self.network.cut(other, number);
        }
    }

    fn silence(&mut self, number: usize) {
        let longest = [100_000_000, 3 * SECOND, 20 * SECOND][self.rng.below(3) as usize];
        let time = self.rng.below(longest);
        self.tell(|| format!("{} is silent for {} ms", NAMES[number], time / 1_000_000));
        let machine = &mut self.machines[number];
        (machine.silent_from, machine.silent_until) = (self.now, self.now + time);
    }

    fn jump(&mut self, number: usize) {
        let by = (1 + self.rng.below(100)).cast_signed() * SECOND.cast_signed();
        let by = if self.rng.below(2) == 0 { by } else { -by };
        self.tell(|| format!("the time of day of {} jumps by {by}", NAMES[number]));
        let machine = &self.machines[number];
        machine.clock.jump(by);
        if let Some(node) = machine.node.as_ref().filter(|_| by < 0) {
            node.host.ring_all();
        }
    }

    fn slow_disk(&mut self, number: usize) {
        let pause = [0, 3_000_000, 100_000_000][self.rng.below(3) as usize];
        self.tell(|| format!("the disk of {} takes {pause} ns for each piece of work", NAMES[number]));
        let machine = &mut self.machines[number];
        machine.disk_pause = pause;
        machine.node.iter_mut().for_each(|node| node.disk.1 = pause);
    }

    fn fail_disk(&mut self, number: usize) {
        self.counts.faults += 1;
        let after = self.rng.below(20);
        let luck = self.rng.below(4);
        let disk = &self.machines[number].disk;
        if luck > 1 && self.plan.has_memory() {
            // Its process may end by that later, when another one is without its memory.
            return;
        }
        match luck {
            0 => disk.set_capacity(Some(disk.used() + (after << 10))),
            1 => disk.set_capacity(None),
            _ => disk.fail_at(disk.points() + after, DiskFault::Error(ErrorKind::Other)),
        }
        self.tell(|| format!("the disk of {} fails ({luck}, {after})", NAMES[number]));
    }

    /// One of the next pieces of work with a disk fails.
    pub(super) fn break_disk(&mut self, number: usize, after: u64) {
        if self.plan.has_memory() {
            return;
        }
        self.counts.faults += 1;
        let disk = &self.machines[number].disk;
        disk.fail_at(disk.points() + after, DiskFault::Error(ErrorKind::Other));
        self.tell(|| format!("the disk of {} fails soon ({after})", NAMES[number]));
    }

    /// Whether more than one server may be without what it had confirmed: all have lost power.
    pub(super) fn is_recovering(&self) -> bool {
        self.weak.iter().filter(|&&weak| !self.remembers(weak)).count() > 1
    }

    /// Whether what a server has confirmed may be lost: no other one is without it.
    fn may_forget(&mut self, number: usize) -> bool {
        let is_weak = |&weak: &usize| weak == number || !self.remembers(weak);
        self.weak = self.weak.iter().copied().filter(is_weak).collect();
        if self.weak.iter().any(|&weak| weak != number) {
            return false;
        }
        self.weak.insert(number);
        true
    }

    /// Streams of one replica lose with the power of their server, in the default mode, changes of
    /// just before; and what it had answered is not heard any more.
    fn forget_alone(&mut self, number: usize) {
        let alone = |at: &usize| self.streams[*at].plan.replicas == 1;
        let alone: Vec<usize> = (0..self.streams.len()).filter(alone).collect();
        let machine = &self.machines[number];
        // Nothing is synced while the process stands still.
        let has_stood_still = machine.silent_until + BOUND > self.now;
        let last = if has_stood_still { machine.silent_from } else { self.now };
        let since = last.saturating_sub(BOUND + machine.disk_pause * 8);
        for at in alone {
            let name = self.streams[at].plan.name.clone();
            let is_here = self.node(number).is_none_or(|node| node.stream(&name).is_some());
            if is_here && !self.plan.is_always_synced {
                self.network.drop_answers();
                self.streams[at].forget_since(since);
            }
        }
    }

    /// Whether a server has all again that it can have confirmed.
    fn remembers(&self, number: usize) -> bool {
        let Some(node) = self.node(number) else { return false };
        let groups = node.groups();
        if self.moves.is_some() {
            // Which streams it has to have, the cluster says.
            let health = node.jetstream.cluster_health();
            let is_well = |health: ClusterHealth| health.meta.is_none() && health.streams.is_empty();
            return health.is_some_and(is_well) && groups.iter().all(|view| !view.status.is_amnesiac);
        }
        let is_whole = |name: &str| {
            let live = node.stream(name);
            live.and_then(|live| live.group_status()).is_some_and(|status| !status.is_amnesiac)
        };
        let has_meta = groups.first().is_some_and(|meta| meta.account.is_empty());
        has_meta
            && groups.iter().all(|view| !view.status.is_amnesiac)
            && self.machines[number].held.iter().all(|name| is_whole(name))
    }

    /// Notes which streams a server has that is about to end.
    fn note_held(&mut self, number: usize) {
        let names = self.streams.iter().map(|model| model.plan.name.clone());
        let Some(node) = self.node(number) else { return };
        let held: Vec<String> = names.filter(|name| node.stream(name).is_some()).collect();
        // One that had not come to all of its streams has them still.
        self.machines[number].held.extend(held);
    }

    /// Ends a server's process.
    pub(super) fn kill(&mut self, number: usize) {
        self.note_held(number);
        if self.plan.has_memory() && !self.may_forget(number) {
            return;
        }
        self.tell(|| format!("{} is killed", NAMES[number]));
        let disk = self.machines[number].disk.kill();
        self.end(number, disk);
    }

    fn survival(&mut self) -> Survival {
        match self.rng.below(4) {
            0 => Survival::None,
            1 => Survival::All,
            2 => Survival::Prefix(self.rng.below(50)),
            _ => Survival::Random(self.rng.next_u64()),
        }
    }

    pub(super) fn lose_power(&mut self, number: usize) {
        if self.may_lose_power(number) {
            let survival = self.survival();
            self.cut_power(number, survival);
        }
    }

    /// Loses power, and all that was not synced.
    pub(super) fn lose_unsynced(&mut self, number: usize) {
        if self.may_lose_power(number) {
            self.cut_power(number, Survival::None);
        }
    }

    /// Whether a disk may lose what its server has confirmed.
    pub(super) fn may_lose(&mut self, number: usize) -> bool {
        self.note_held(number);
        self.may_forget(number)
    }

    fn may_lose_power(&mut self, number: usize) -> bool {
        self.note_held(number);
        let is_safe = self.plan.is_always_synced && !self.plan.has_memory();
        is_safe || (!self.plan.do_disks_fail && self.may_forget(number))
    }

    fn cut_power(&mut self, number: usize, survival: Survival) {
        self.forget_alone(number);
        self.tell(|| format!("{} loses power: {survival:?}", NAMES[number]));
        let disk = self.machines[number].disk.power_cycle(survival);
        self.end(number, disk);
    }

    /// All lose power at once: where all is synced that is acknowledged, nothing may be lost.
    fn lose_all_power(&mut self) -> Result<(), String> {
        if self.plan.has_memory() {
            return Ok(());
        }
        if !self.plan.is_always_synced {
            return self.lose_all_unsynced();
        }
        for number in self.all() {
            if self.machines[number].node.is_some() {
                self.lose_power(number);
            }
        }
        Ok(())
    }

    /// All lose power at once in the default mode: only what was told just before may be lost, as
    /// all of them come back.
    fn lose_all_unsynced(&mut self) -> Result<(), String> {
        let is_prompt = |machine: &super::world::Machine| {
            machine.disk_pause == 0 && machine.silent_until + SECOND < self.now
        };
        let is_slow = !self.machines.iter().all(is_prompt);
        if !self.has_extras || self.plan.do_disks_fail || is_slow || self.now < 2 * SECOND {
            return Ok(());
        }
        self.tell(|| "all lose power".to_owned());
        let since = self.now - BOUND;
        self.streams.iter_mut().for_each(|model| model.forget_since(since));
        for number in self.all() {
            if self.machines[number].node.is_some() {
                self.note_held(number);
                let survival = self.survival();
                self.cut_power(number, survival);
            }
            self.weak.insert(number);
        }
        self.network.heal();
        self.all().try_for_each(|number| self.start(number))
    }

    /// A server comes back with an empty disk, while all others have everything.
    fn replace_disk(&mut self, number: usize) {
        let others: Vec<usize> = self.all().filter(|&other| other != number).collect();
        let is_alone = |model: &super::model::StreamModel| model.plan.replicas == 1;
        if self.streams.iter().any(is_alone)
            || self.plan.do_disks_fail
            || !others.iter().all(|&other| self.remembers(other))
        {
            return;
        }
        self.note_held(number);
        if !self.may_forget(number) {
            return;
        }
        self.tell(|| format!("{} is given an empty disk", NAMES[number]));
        let disk = FaultyDisk::new(self.rng.next_u64());
        self.end(number, disk);
    }

    /// Begins those anew whose stream has failed twice within a minute: an operator does it.
    pub(super) fn mend(&mut self) -> Result<(), String> {
        for number in self.all() {
            let has_failed = self.node(number).is_some_and(|node| {
                let failure = |name: &str| node.stream(name).and_then(|live| live.failure());
                self.streams.iter().any(|model| failure(&model.plan.name).is_some())
            });
            // What is damaged is given to it as a whole, if it goes on for long enough.
            let is_time = self.machines[number].mended + MENDS_EVERY < self.now;
            if has_failed && self.plan.do_disks_fail && is_time {
                self.machines[number].mended = self.now;
                self.kill(number);
                // What it has in memory may be needed: it goes on until it is not.
                if self.machines[number].node.is_none() {
                    self.start(number)?;
                }
            }
        }
        Ok(())
    }

    /// Nothing goes wrong any more, and everybody is there.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.tell(|| "nothing goes wrong any more".to_owned());
        self.network.calm();
        for number in self.all() {
            let machine = &mut self.machines[number];
            machine.disk.forget_plans();
            machine.disk.set_capacity(None);
            machine.disk.heal();
            machine.disk_pause = 0;
            // It reads what it has not read yet: what clients asked for long ago must not happen
            // when everything was looked at.
            self.network.hasten(number, machine.silent_until, self.now);
            machine.silent_until = machine.silent_until.min(self.now);
            machine.clock.catch_up();
            machine.node.iter_mut().for_each(|node| node.disk = (0, 0));
            if machine.node.is_none() {
                self.start(number)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_takes_what_a_process_that_stood_still_had_not_synced() {
        let mut world = World::new(1, false);
        world.plan.is_always_synced = false;
        world.streams[0].plan.replicas = 1;
        world.streams[0].see(1, "synced", 3 * SECOND).unwrap();
        world.streams[0].see(2, "not synced", 5 * SECOND).unwrap();
        world.now = 20 * SECOND;
        world.forget_alone(0);
        assert_eq!(world.streams[0].seen.len(), 2, "both are synced by then");
        (world.machines[0].silent_from, world.machines[0].silent_until) = (5 * SECOND, 30 * SECOND);
        world.forget_alone(0);
        assert_eq!(world.streams[0].seen.keys().collect::<Vec<_>>(), [&1]);
    }

    #[test]
    fn who_goes_on_when_all_is_mended_has_stood_still_until_then() {
        let mut world = World::new(1, false);
        world.heal().unwrap();
        world.now = 20 * SECOND;
        for (number, until) in [30 * SECOND, 7 * SECOND, 0].into_iter().enumerate() {
            world.machines[number].silent_until = until;
        }
        world.heal().unwrap();
        let until: Vec<_> = world.machines.iter().map(|machine| machine.silent_until).collect();
        assert_eq!(until[..3], [20 * SECOND, 7 * SECOND, 0], "what it was about to send may leave now");
    }
}
