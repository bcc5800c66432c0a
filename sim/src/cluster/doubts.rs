//! Scenes of what a server takes for true that is so no more: support that has ended by when it is
//! heard of, and messages that a disk has taken and not kept.

use myelin_stdx::rng::Rng;

use super::scenes::Roles;
use super::world::{SECOND, World};

impl World {
    /// Whatever is for a leader takes long, answers to its heartbeats, too. Then nobody hears it any
    /// more, while answers still come. Others lead, and the first one is asked meanwhile.
    pub(super) fn late_support(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let leader = roles.leader;
        let by = SECOND / 2 + rng.below(SECOND);
        self.tell(|| format!("what is for {leader} takes {} ms more", by / 1_000_000));
        self.all().for_each(|other| self.network.slow_down(other, leader, by));
        // Its group does not rest: what is open of that stands in docs/simulation.md.
        for _ in 0..2 + rng.below(6) {
            self.publish_plain(stream, leader);
            self.pass(SECOND / 4 + rng.below(SECOND / 4))?;
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
        self.pass(rng.below(4 * self.plan.delay))?;
        self.break_disk(forgetful, rng.below(6));
        self.publish_many(stream, *leader, rng.below(6) + 1, 500);
        self.pass_until_answered(SECOND / 2)?;
        self.pass(rng.below(SECOND))?;
        self.machines[forgetful].disk.heal();
        let others: Vec<usize> = [absent.as_slice(), &[forgetful]].concat();
        let informed: Vec<usize> = self.all().filter(|number| !others.contains(number)).collect();
        self.divide(&informed, &others);
        if self.machines[forgetful].node.is_none() {
            self.start(forgetful)?;
        }
        self.pass(3 * SECOND + rng.below(8 * SECOND))?;
        self.publish_at_others(stream, *leader, rng).map(drop)
    }
}
