//! Scenes of groups at rest: their leader ends without a word, or a member has missed something
//! before.

use myelin_replica::RaftRole;
use myelin_stdx::rng::Rng;

use super::node::NAMES;
use super::scenes::Roles;
use super::world::{SECOND, World};

/// Nanoseconds without a word of a leader after which another member stands for election: its
/// server's support has ended, and as much time as an election takes has passed, by slow clocks.
const STANDS_WITHIN: u64 = 2_900_000_000;
/// Nanoseconds without work after which a group rests, and a few more.
const RESTS_WITHIN: u64 = 2_500_000_000;

impl World {
    /// The leader of a group at rest is gone without a word. Another member stands for election as
    /// soon as it may.
    pub(super) fn death_at_rest(
        &mut self,
        stream: usize,
        roles: &Roles,
        rng: &mut Rng,
    ) -> Result<(), String> {
        if self.streams[stream].plan.has_lifetimes {
            return Ok(());
        }
        self.pass(RESTS_WITHIN + rng.below(3 * SECOND))?;
        if self.leading(stream) != [roles.leader] {
            return Ok(());
        }
        if rng.below(2) == 0 {
            self.kill(roles.leader);
        }
        self.isolate(roles.leader);
        let before = self.term(stream);
        let stands = |world: &Self| {
            world.all().filter(|&number| number != roles.leader).any(|number| {
                let group = world.group(number, stream);
                group.is_some_and(|(role, term)| role != RaftRole::Follower || term > before)
            })
        };
        self.pass_until(STANDS_WITHIN, stands)?;
        if stands(self) {
            return self.pass(rng.below(2 * SECOND));
        }
        Err(format!("S{stream}: its leader is gone, and nobody stands for election"))
    }

    /// A server hears the others badly, and may be set aside, while clients say something now and
    /// then. Each time all have it in the end, though groups rest.
    pub(super) fn bad_link(&mut self, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let deaf = *roles.confirming.first().ok_or("a group of one")?;
        let is_aside = rng.below(2) == 0;
        if is_aside {
            self.set_aside(deaf, true);
            self.pass(SECOND)?;
        }
        for _ in 0..3 + rng.below(8) {
            let loss = 400 + rng.below(500);
            self.tell(|| format!("{} hears the others badly: {loss}", NAMES[deaf]));
            self.all().for_each(|other| self.network.worsen(other, deaf, loss));
            for stream in 0..self.streams.len() {
                if let ([leader], true) = (&self.leading(stream)[..], self.may_publish(stream)) {
                    let leader = *leader;
                    self.publish_many(stream, leader, 1, 50);
                }
            }
            self.pass(RESTS_WITHIN + rng.below(SECOND))?;
            self.network.heal();
            self.settle()?;
        }
        if is_aside {
            self.set_aside(deaf, false);
        }
        Ok(())
    }

    /// A server takes no lead from now on, or may again: clients cannot reach it, or can.
    fn set_aside(&mut self, number: usize, is_aside: bool) {
        self.tell(|| format!("{} is set aside: {is_aside}", NAMES[number]));
        let Some(node) = self.node(number) else { return };
        node.set_aside(is_aside);
    }
}
