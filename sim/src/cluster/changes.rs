//! Scenes of changes of members: who leads is cut off with those that come, as soon as it knows of
//! a step that the others have not heard of; and a member is left while nobody hears it.

use myelin_stdx::rng::Rng;

use super::plan::Kept;
use super::scenes::Roles;
use super::world::{SECOND, World};

/// Nanoseconds within which one step of a change is taken.
const STEP: u64 = 3 * SECOND;
/// Nanoseconds within which those that are cut off from their leader elect another one.
const ELECTION: u64 = 6 * SECOND;

impl World {
    /// A stream changes its members. After some step of that its leader, with those that come, has
    /// messages confirmed, while as many of those that were members as are a majority of these have
    /// not heard of the step, and elect another leader.
    pub(super) fn divided_change(
        &mut self,
        stream: usize,
        roles: &Roles,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let leader = roles.leader;
        let mut others: Vec<usize> =
            self.all().filter(|&number| number != leader && self.group(number, stream).is_some()).collect();
        let replicas = self.other_size(stream, others.len() + 1, rng);
        if replicas == others.len() + 1 {
            let left = others[rng.below(others.len() as u64) as usize];
            self.leave(stream, left);
        } else {
            self.scale(stream, replicas, false);
        }
        for _ in 0..1 + rng.below(4) {
            let known = self.committed(stream, leader);
            self.pass_until(STEP, |world| world.committed(stream, leader) > known)?;
        }
        let majority = others.len().div_ceil(2) + 1;
        while others.len() > majority {
            others.remove(rng.below(others.len() as u64) as usize);
        }
        let with_leader: Vec<usize> = self.all().filter(|number| !others.contains(number)).collect();
        self.divide(&with_leader, &others);
        self.publish_many(stream, leader, 1 + rng.below(4), 50);
        self.pass_until_answered(SECOND)?;
        self.pass_until(ELECTION, |world| {
            world.leading(stream).iter().any(|number| others.contains(number))
        })?;
        self.check()?;
        self.publish_at_others(stream, leader, rng)?;
        self.pass(rng.below(2 * SECOND))
    }

    /// A member is left for another one, or for nobody, while it hears nothing, and comes back.
    pub(super) fn absent_leaver(
        &mut self,
        stream: usize,
        roles: &Roles,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let absent = *roles.confirming.first().ok_or("a group of one")?;
        self.isolate(absent);
        self.publish_many(stream, roles.leader, 1 + rng.below(3), 50);
        self.pass(SECOND + rng.below(4 * SECOND))?;
        let members = 1 + roles.confirming.len() + roles.rest.len();
        let fewer = self.other_size(stream, members, rng);
        if fewer < members && rng.below(2) == 0 {
            self.scale(stream, fewer, false);
        } else {
            self.leave(stream, absent);
        }
        self.pass(3 * SECOND + rng.below(5 * SECOND))?;
        self.network.heal();
        self.publish_many(stream, roles.leader, 1, 50);
        self.pass(rng.below(4 * SECOND))
    }

    /// Another number of replicas that a stream may have.
    fn other_size(&self, stream: usize, now: usize, rng: &mut Rng) -> usize {
        let plan = &self.streams[stream].plan;
        let may_be_alone =
            self.can_be_alone() && plan.kept == Kept::Limits && !plan.is_in_memory && !plan.has_lifetimes;
        let least = if may_be_alone { 1 } else { 3 };
        let sizes: Vec<usize> =
            [1, 3, 5].into_iter().filter(|size| (least..=self.machines.len()).contains(size)).collect();
        let others: Vec<usize> = sizes.into_iter().filter(|&size| size != now).collect();
        if others.is_empty() || rng.below(4) == 0 {
            return now;
        }
        others[rng.below(others.len() as u64) as usize]
    }

    /// Index up to which a member knows the log of a stream's group to be committed.
    fn committed(&self, stream: usize, number: usize) -> u64 {
        let live = self.node(number).and_then(|node| node.stream(&self.streams[stream].plan.name));
        live.and_then(|live| live.group_status()).map_or(0, |status| status.committed)
    }
}
