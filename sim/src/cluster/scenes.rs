//! Scenes: faults of several servers in an order that leaves nobody with a majority's memory but
//! those who are to have it. Drawn one by one they rarely come in such an order. They are drawn
//! from numbers of their own, in half of the seeds in which no stream changes its members, and
//! begin and end with everything well. Those that came later (`elections`, `rest`, and what ends in
//! vain) have other numbers, and another half of the seeds.

use myelin_stdx::rng::Rng;

use super::plan::{ClusterPlan, LIFETIME};
use super::world::{SECOND, World};

/// Tell the numbers of scenes, of those that came later, and of the last ones, from the others.
const SCENES: [u64; 3] = [0x7363_656e, 0x006c_6174_6572, 0x006c_6173_7465];
/// One operation in so many is followed by a scene.
const RATE: u64 = 50;
/// Bytes of one message of a batch that is more than an entry of the log holds.
pub(super) const LARGE: usize = 400 << 10;

/// Members of a group, by what becomes of them.
pub(super) struct Roles {
    pub(super) leader: usize,
    /// Others that are a majority with the leader.
    pub(super) confirming: Vec<usize>,
    /// Servers that learn nothing at first: the other members, and who is none.
    pub(super) rest: Vec<usize>,
}

type Play = fn(&mut World, usize, &Roles, &mut Rng) -> Result<(), String>;

impl World {
    /// Numbers for scenes, where there are any.
    pub(super) fn draw_scenes(seed: u64, plan: &ClusterPlan) -> [Option<Rng>; 3] {
        let (changes, fails) = (super::changes_members(seed), plan.do_disks_fail);
        let [first, later, last] = SCENES.map(|scenes| {
            let mut rng = Rng::seeded(seed ^ scenes);
            (rng.below(2) == 0).then_some(rng)
        });
        let is_usual = !changes && !fails;
        [first.filter(|_| is_usual), later.filter(|_| is_usual), last.filter(|_| !(changes && fails))]
    }

    /// Now and then a stream is in a scene.
    pub(super) fn scene(&mut self) -> Result<(), String> {
        for (at, play) in [Self::play_first, Self::play_later, Self::play_last].into_iter().enumerate() {
            let Some(mut rng) = self.scenes[at].take() else { continue };
            let played = if rng.below(RATE) == 0 { self.play(&mut rng, play) } else { Ok(()) };
            self.scenes[at] = Some(rng);
            played?;
        }
        Ok(())
    }

    fn play(&mut self, rng: &mut Rng, play: Play) -> Result<(), String> {
        let stream = rng.below(self.streams.len() as u64) as usize;
        if !self.may_publish(stream) {
            return Ok(());
        }
        self.heal()?;
        self.end_moves()?;
        self.settle()?;
        let Some(roles) = self.roles(stream, rng) else { return Ok(()) };
        play(self, stream, &roles, rng)?;
        let nap = rng.below(3 * SECOND);
        self.pass(nap)?;
        self.heal()?;
        self.end_moves()?;
        self.settle()?;
        (0..self.streams.len()).try_for_each(|stream| self.check_contents(stream).map(drop))?;
        self.network.loss = self.plan.loss;
        Ok(())
    }

    fn play_first(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let luck = rng.below(8);
        self.tell(|| format!("scene {luck} of S{stream}"));
        match luck {
            0..2 => self.forgotten_confirmation(stream, roles, rng),
            2..4 => self.forgotten_promise(stream, roles, rng),
            4..7 => self.long_coup(stream, roles, rng),
            _ => self.halved_batch(stream, roles, rng),
        }
    }

    fn play_later(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let luck = rng.below(10);
        self.tell(|| format!("later scene {luck} of S{stream}"));
        match luck {
            0..2 => self.forgotten_vote(stream, roles, rng),
            2..4 => self.short_reigns(stream, roles, rng),
            4 => self.death_at_rest(stream, roles, rng),
            5..7 => self.bad_link(roles, rng),
            _ if self.streams[stream].plan.has_lifetimes => self.vain_end(stream, roles, rng),
            _ if roles.confirming.len() > 1 => self.late_confirmation(stream, roles, rng),
            _ => self.short_reigns(stream, roles, rng),
        }
    }

    /// Plays one of the last scenes, which depend on what goes wrong in a seed besides.
    fn play_last(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let luck = rng.below(4);
        self.tell(|| format!("last scene {luck} of S{stream}"));
        match luck {
            0 if self.moves.is_some() => self.absent_leaver(stream, roles, rng),
            _ if self.moves.is_some() => self.divided_change(stream, roles, rng),
            _ if self.plan.do_disks_fail => self.failed_confirmation(stream, roles, rng),
            _ => self.late_support(stream, roles, rng),
        }
    }

    fn roles(&mut self, stream: usize, rng: &mut Rng) -> Option<Roles> {
        let [leader] = self.leading(stream)[..] else { return None };
        let name = &self.streams[stream].plan.name;
        let has_it = |number: usize| self.node(number).is_some_and(|node| node.stream(name).is_some());
        let (mut members, others): (Vec<usize>, Vec<usize>) =
            self.all().filter(|&number| number != leader).partition(|&number| has_it(number));
        if members.len() < 2 {
            return None;
        }
        for at in (1..members.len()).rev() {
            members.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let mut rest = members.split_off(members.len() / 2);
        rest.extend(others);
        Some(Roles { leader, confirming: members, rest })
    }

    /// Servers of one side hear nothing of those of the other.
    pub(super) fn divide(&mut self, one: &[usize], other: &[usize]) {
        self.tell(|| format!("{one:?} and {other:?} hear nothing of each other"));
        self.network.heal();
        for &one in one {
            for &other in other {
                self.network.cut(one, other);
                self.network.cut(other, one);
            }
        }
    }

    /// A member confirms a message, and forgets it before the message is on its disk. Then it is
    /// alone with those that have never heard of it.
    fn forgotten_confirmation(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let Roles { leader, confirming, rest } = roles;
        let (&forgetful, late) = confirming.split_first().ok_or("a group of one")?;
        let are_late = !late.is_empty() && rng.below(2) == 0;
        let mut absent = rest.clone();
        absent.extend(late.iter().filter(|_| are_late));
        let present: Vec<usize> = self.all().filter(|number| !absent.contains(number)).collect();
        self.divide(&present, &absent);
        self.keep_disk_busy(forgetful, SECOND);
        self.publish_many(stream, *leader, rng.below(6) + 1, 50);
        self.pass_until_answered(SECOND / 2)?;
        if rng.below(4) == 0 {
            self.lose_power(forgetful);
        } else {
            self.lose_unsynced(forgetful);
        }
        if rng.below(4) > 0 && self.machines[forgetful].node.is_none() {
            self.start(forgetful)?;
        }
        if are_late {
            self.pass(rng.below(SECOND))?;
            let present: Vec<usize> = self.all().filter(|number| !rest.contains(number)).collect();
            self.divide(&present, rest);
            self.pass_until_answered(SECOND / 2)?;
        }
        let informed: Vec<usize> =
            self.all().filter(|number| number == leader || late.contains(number)).collect();
        let others: Vec<usize> = self.all().filter(|number| !informed.contains(number)).collect();
        self.leave_with(forgetful, (&informed, &others), rng)?;
        self.publish_at_others(stream, *leader, rng).map(drop)
    }

    /// Parts those that know something from the others, with a member among these that has
    /// forgotten it and begins anew where it has ended, for as long as an election takes.
    pub(super) fn leave_with(
        &mut self,
        forgetful: usize,
        (informed, others): (&[usize], &[usize]),
        rng: &mut Rng,
    ) -> Result<(), String> {
        self.divide(informed, others);
        if self.machines[forgetful].node.is_none() {
            self.start(forgetful)?;
        }
        self.pass(3 * SECOND + rng.below(8 * SECOND))
    }

    /// Members that support a leader forget that with their processes, and elect another one at
    /// once with those that have not heard of it for a while. The first one is asked meanwhile.
    fn forgotten_promise(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let Roles { leader, confirming, rest } = roles;
        for &other in rest {
            self.network.cut(*leader, other);
            self.network.cut(other, *leader);
        }
        self.pass(SECOND + rng.below(2 * SECOND))?;
        self.isolate(*leader);
        for &forgetful in confirming {
            self.kill(forgetful);
            if self.machines[forgetful].node.is_none() {
                self.start(forgetful)?;
            }
        }
        for _ in 0..40 {
            self.pass(SECOND / 25)?;
            if self.publish_at_others(stream, *leader, rng)? {
                self.pass_until_answered(SECOND / 10)?;
                self.look_at(stream, *leader, &[*leader]);
            }
        }
        Ok(())
    }

    /// A leader is cut off with more than a segment of messages, and with removals; when others
    /// lead it comes back, and leads again.
    fn long_coup(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let leader = roles.leader;
        self.publish_many(stream, leader, rng.below(8), 500);
        self.pass(SECOND)?;
        let others: Vec<usize> = self.all().filter(|&number| number != leader).collect();
        self.divide(&[leader], &others);
        for _ in 0..1 + rng.below(3) {
            self.publish_many(stream, leader, rng.below(20), 3000);
            if rng.below(2) == 0 {
                self.delete_at(stream, leader, &[leader]);
            } else {
                self.purge_at(stream, leader, &[leader]);
            }
            self.pass(rng.below(SECOND / 2))?;
        }
        self.pass(rng.below(5 * SECOND))?;
        match rng.below(6) {
            0 => self.kill(leader),
            1 => self.lose_power(leader),
            _ => {}
        }
        self.publish_at_others(stream, leader, rng)?;
        self.pass(rng.below(SECOND))?;
        self.network.heal();
        if self.machines[leader].node.is_none() {
            self.start(leader)?;
        }
        self.pass(2 * SECOND)?;
        self.prefer(stream, leader);
        self.pass(SECOND)?;
        if self.streams[stream].plan.has_lifetimes {
            self.pass(3 * LIFETIME * SECOND)?;
        }
        Ok(())
    }

    /// A leader is cut off while an atomic batch that is more than one entry is on its way.
    fn halved_batch(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let leader = roles.leader;
        self.streams[stream].batches += 1;
        self.send_batch(stream, leader, &[leader], LARGE);
        self.pass(rng.below(3 * self.plan.delay))?;
        let others: Vec<usize> = self.all().filter(|&number| number != leader).collect();
        self.divide(&[leader], &others);
        if rng.below(2) == 0 {
            self.kill(leader);
        }
        self.pass(SECOND + rng.below(5 * SECOND))?;
        self.publish_at_others(stream, leader, rng).map(drop)
    }

    /// Messages end while their leader is cut off, which removes them; others lead, whose clocks
    /// are behind, and then it leads again.
    fn vain_end(&mut self, stream: usize, roles: &Roles, rng: &mut Rng) -> Result<(), String> {
        let leader = roles.leader;
        self.publish_many(stream, leader, 1 + rng.below(8), 500);
        self.pass(LIFETIME * SECOND - rng.below(2 * SECOND))?;
        let others: Vec<usize> = self.all().filter(|&number| number != leader).collect();
        let mut behind = Vec::new();
        for &other in &others {
            let by = (6 * SECOND + rng.below(4 * SECOND)).cast_signed();
            behind.push((other, by));
            self.machines[other].clock.jump(-by);
            self.machines[other].node.iter().for_each(|node| node.host.ring_all());
        }
        self.divide(&[leader], &others);
        self.pass(2 * SECOND)?;
        self.pass_until(4 * SECOND, |world| {
            others.iter().any(|&other| {
                world.node(other).is_some_and(|node| node.leads(&world.streams[stream].plan.name))
            })
        })?;
        self.network.heal();
        self.pass(rng.below(SECOND))?;
        self.prefer(stream, leader);
        self.pass(3 * LIFETIME * SECOND)?;
        // Of several such scenes the last one would find them behind by more than a message lives.
        behind.into_iter().for_each(|(other, by)| self.machines[other].clock.jump(by));
        Ok(())
    }

    /// A server's disk does nothing for so long.
    pub(super) fn keep_disk_busy(&mut self, number: usize, time: u64) {
        let machine = &mut self.machines[number];
        let until = machine.clock.elapsed() + time;
        machine.node.iter_mut().for_each(|node| node.disk.0 = until);
    }

    /// Clients publish so many messages to one server, each with up to so many bytes.
    pub(super) fn publish_many(&mut self, stream: usize, to: usize, count: u64, most: u64) {
        for _ in 0..count {
            let name = self.publication(stream, None);
            let more = "y".repeat(self.rng.below(most) as usize);
            self.streams[stream].publications[name].payload += &more;
            self.send(stream, name, to, &[to]);
        }
    }

    /// Whoever leads by now, and is another one, is given some messages. `false`: nobody is.
    pub(super) fn publish_at_others(
        &mut self,
        stream: usize,
        leader: usize,
        rng: &mut Rng,
    ) -> Result<bool, String> {
        let others: Vec<usize> = self.leading(stream).into_iter().filter(|&other| other != leader).collect();
        let [other] = others[..] else { return Ok(false) };
        self.publish_many(stream, other, rng.below(3) + 1, 50);
        self.turns(100)?;
        Ok(true)
    }

    /// Waits until a client has heard that a message is stored, or for so long.
    pub(super) fn pass_until_answered(&mut self, longest: u64) -> Result<(), String> {
        let before = self.counts.stored;
        for _ in 0..20 {
            self.pass(longest / 20)?;
            if self.counts.stored > before {
                break;
            }
        }
        Ok(())
    }
}
