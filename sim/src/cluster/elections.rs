//! Scenes of elections: votes that are forgotten, leaders that come and go before others have what
//! they began, and members whose confirmation counts after they have forgotten it.

use myelin_replica::RaftRole;
use myelin_stdx::rng::Rng;
use myelin_store::Wait;

use super::scenes::{LARGE, Roles};
use super::world::{SECOND, World};

/// Nanoseconds within which a majority elects somebody.
const ELECTION: u64 = 6 * SECOND;

impl World {
    /// A member votes, and ends before it hears anything of whom it has elected, perhaps before its
    /// disk has the vote. Then it is with those that know nothing of that.
    pub(super) fn forgotten_vote(
        &mut self,
        stream: usize,
        roles: &Roles,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let Roles { leader, confirming, rest } = roles;
        let forgetful = *confirming.first().ok_or("a group of one")?;
        let (elects, knows_nothing) = rest.split_first().ok_or("a group of two")?;
        let mut electing = [confirming.as_slice(), &[*elects]].concat();
        let mut others = [&[*leader], knows_nothing].concat();
        if rng.below(2) == 0 {
            self.keep_disk_busy(forgetful, ELECTION);
        }
        self.divide(&others, &electing);
        let before = self.term(stream);
        self.pass_until(ELECTION, |world| world.reigns(stream, before).is_some())?;
        self.check()?;
        self.kill(forgetful);
        electing.retain(|&number| number != forgetful);
        others.push(forgetful);
        self.divide(&others, &electing);
        if self.machines[forgetful].node.is_none() {
            self.start(forgetful)?;
        }
        for _ in 0..2 * ELECTION / SECOND * 10 {
            self.pass(SECOND / 10)?;
            self.check()?;
        }
        Ok(())
    }

    /// One leader after the other is cut off: with large messages that nobody else has; just
    /// elected; the first one again, that had begun to give the others what it has; and whoever has
    /// heard nothing of that leads at last.
    pub(super) fn short_reigns(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let Roles { leader, confirming, .. } = roles;
        let first = *leader;
        let others: Vec<usize> = self.all().filter(|&number| number != first).collect();
        self.divide(&[first], &others);
        self.publish_large(stream, first, 1 + rng.below(3));
        self.pass(rng.below(SECOND))?;
        let before = self.term(stream);
        self.pass_until(ELECTION, |world| world.reigns(stream, before).is_some())?;
        let Some(second) = self.reigns(stream, before) else { return Ok(()) };
        self.pass(rng.below(2) * rng.below(2 * self.plan.delay))?;
        self.check()?;
        // The first one and as many of the others as are a majority with it, without the second.
        let members: Vec<usize> = others.iter().copied().filter(|&number| self.has(number, stream)).collect();
        let mut again: Vec<usize> = members.iter().copied().filter(|&number| number != second).collect();
        again.truncate(confirming.len());
        again.push(first);
        let away: Vec<usize> = self.all().filter(|number| !again.contains(number)).collect();
        self.divide(&again, &away);
        let before = self.term(stream);
        self.pass_until(ELECTION, |world| world.reigns(stream, before).is_some())?;
        self.pass(rng.below(8 * self.plan.delay))?;
        self.check()?;
        self.see_all(stream)?;
        let before = self.term(stream);
        self.divide(&[first], &others);
        self.pass_until(ELECTION, |world| world.reigns(stream, before).is_some())?;
        self.pass(rng.below(SECOND))?;
        self.check()?;
        self.see_all(stream)?;
        self.publish_at_others(stream, first, rng).map(drop)
    }

    /// Of five members two have a message. One of them forgets it and comes back, while clients
    /// publish more. Then it is with two that know nothing, while a third one hears of the message:
    /// these were three, if it had not forgotten.
    pub(super) fn late_confirmation(
        &mut self,
        stream: usize,
        roles: &Roles,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let Roles { leader, confirming, rest } = roles;
        let [forgetful, late] = confirming[..] else { return Ok(()) };
        let absent = [rest.as_slice(), &[late]].concat();
        self.divide(&[*leader, forgetful], &absent);
        self.keep_disk_busy(forgetful, SECOND);
        self.publish_many(stream, *leader, 1 + rng.below(4), 50);
        self.pass(4 * self.plan.delay + rng.below(SECOND / 8))?;
        self.lose_unsynced(forgetful);
        if self.machines[forgetful].node.is_none() {
            self.start(forgetful)?;
        }
        self.pass(SECOND / 5 + rng.below(SECOND / 4))?;
        self.publish_plain(stream, *leader);
        self.pass(2 * self.plan.delay + rng.below(SECOND / 8))?;
        self.divide(&[*leader, late], &[rest.as_slice(), &[forgetful]].concat());
        self.pass_until_answered(SECOND / 2)?;
        self.pass(3 * SECOND + rng.below(5 * SECOND))?;
        self.publish_at_others(stream, *leader, rng).map(drop)
    }

    /// The highest term that a member of a stream's group is in.
    pub(super) fn term(&self, stream: usize) -> u64 {
        let terms = self.all().filter_map(|number| self.group(number, stream)).map(|(_, term)| term);
        terms.max().unwrap_or(0)
    }

    /// The server that leads the group of a stream in a term behind this one.
    fn reigns(&self, stream: usize, before: u64) -> Option<usize> {
        let leads = |number: usize| {
            self.group(number, stream).is_some_and(|(role, term)| role == RaftRole::Leader && term > before)
        };
        self.all().find(|&number| leads(number))
    }

    /// Role and term of a member of a stream's group, if it is there.
    pub(super) fn group(&self, number: usize, stream: usize) -> Option<(RaftRole, u64)> {
        let live = self.node(number)?.stream(&self.streams[stream].plan.name)?;
        live.group_status().map(|status| (status.role, status.term))
    }

    fn has(&self, number: usize, stream: usize) -> bool {
        self.group(number, stream).is_some()
    }

    /// Clients publish large messages to one server, each of which is an entry that goes alone.
    fn publish_large(&mut self, stream: usize, to: usize, count: u64) {
        for _ in 0..count {
            let name = self.publication(stream, None);
            self.streams[stream].publications[name].payload += &"z".repeat(LARGE);
            self.send(stream, name, to, &[to]);
        }
    }

    /// Looks at the last messages that any server shows: a sequence has the same one for all.
    fn see_all(&mut self, stream: usize) -> Result<(), String> {
        let name = self.streams[stream].plan.name.clone();
        for number in self.all() {
            let Some(live) = self.node(number).and_then(|node| node.stream(&name)) else { continue };
            let (reader, mut buffer) = (live.reader(), Vec::new());
            let totals = reader.state().totals;
            for seq in totals.first_seq.max(totals.last_seq.saturating_sub(8))..=totals.last_seq {
                let message = reader.get(seq, Wait::Allowed, &mut buffer);
                let message = message.map_err(|error| format!("{name}: {seq} cannot be read: {error}"))?;
                let Some(message) = message else { continue };
                let payload = String::from_utf8_lossy(message.payload).into_owned();
                let now = self.now;
                self.streams[stream].see(seq, &payload, now)?;
            }
        }
        Ok(())
    }
}
