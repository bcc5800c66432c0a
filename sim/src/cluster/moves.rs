//! Changes of a stream's replicas while clients are at work: more and fewer of them, a server that
//! is to be left, and changes that are called off. Drawn from numbers of their own, in a third of
//! the seeds.

use myelin_stdx::rng::Rng;

use super::node::NAMES;
use super::plan::{ClusterPlan, Kept};
use super::world::{Asked, SECOND, World};

/// Tells the numbers of changes of members from the others.
const MOVES: u64 = 0x006d_6f76_6573;
/// One operation in so many is followed by a change.
const RATE: u64 = 25;
/// Seconds after which no earlier request is carried out any more: the meta leader may hold one for
/// ten, and of two that are under way at once either one may be the last.
const HELD: u64 = 15;
/// Seconds in which the last change of a stream is accepted, when nothing goes wrong any more.
const LONGEST: u64 = 150;

/// Draws for changes of members.
pub(super) struct Moves {
    rng: Rng,
    /// Whether a stream may have one replica for a while: half of the seeds check less then, as
    /// what one server alone has may be lost with its power.
    can_be_alone: bool,
}

/// Whether streams change their members in a seed.
#[must_use]
pub fn changes_members(seed: u64) -> bool {
    Rng::seeded(seed ^ MOVES).below(3) == 0
}

impl Moves {
    pub(super) fn draw(seed: u64, plan: &ClusterPlan) -> Option<Self> {
        let mut rng = Rng::seeded(seed ^ MOVES);
        let is_drawn = rng.below(3) == 0;
        let can_be_alone = rng.below(2) == 0 && !plan.do_disks_fail;
        is_drawn.then_some(Self { rng, can_be_alone })
    }
}

impl World {
    /// Now and then a stream gets other members.
    pub(super) fn move_some(&mut self) {
        let size = self.machines.len();
        let Some(Moves { rng, can_be_alone }) = &mut self.moves else { return };
        if rng.below(RATE) != 0 {
            return;
        }
        let stream = rng.below(self.streams.len() as u64) as usize;
        let (luck, at) = (rng.below(10), rng.below(size as u64) as usize);
        let plan = &self.streams[stream].plan;
        let may_be_alone =
            *can_be_alone && plan.kept == Kept::Limits && !plan.is_in_memory && !plan.has_lifetimes;
        let least = if may_be_alone { 1 } else { 3 };
        let counts: Vec<usize> =
            [1, 3, 5].into_iter().filter(|count| (least..=size).contains(count)).collect();
        let replicas = counts[rng.below(counts.len() as u64) as usize];
        match luck {
            0..6 => self.scale(stream, replicas, false),
            6..8 => self.leave(stream, at),
            8 => self.call_off(stream),
            _ => {
                self.prefer(stream, at);
            }
        }
    }

    /// Whether streams may have one replica for a while.
    pub(super) fn can_be_alone(&self) -> bool {
        self.moves.as_ref().is_some_and(|moves| moves.can_be_alone)
    }

    /// Asks for a stream to have so many replicas.
    pub(super) fn scale(&mut self, stream: usize, replicas: usize, is_last: bool) {
        let Some(home) = self.home() else { return };
        let to = self.running();
        let model = &mut self.streams[stream];
        model.wanted = replicas;
        // Until it is through, and known to be, the stream may have as few as it had or will have.
        model.plan.replicas = model.plan.replicas.min(replicas);
        let body = super::plan::StreamPlan { replicas, ..model.plan.clone() }.request();
        let api = format!("$JS.API.STREAM.UPDATE.{}", model.plan.name);
        self.ask(Asked::Scale { stream, is_last }, home, &to, (&api, &body));
    }

    /// Asks for a stream to leave a server for another one, if it is there.
    pub(super) fn leave(&mut self, stream: usize, server: usize) {
        let Some(home) = self.home() else { return };
        let (to, name) = (self.running(), &self.streams[stream].plan.name);
        let api = format!("$JS.API.STREAM.PEER.REMOVE.{name}");
        let body = format!(r#"{{"peer":"{}"}}"#, NAMES[server]);
        self.ask(Asked::Nothing, home, &to, (&api, &body));
    }

    /// Asks for a change that goes on to be called off.
    fn call_off(&mut self, stream: usize) {
        let Some(home) = self.home() else { return };
        let (to, name) = (self.running(), &self.streams[stream].plan.name);
        let api = format!("$JS.API.STREAM.CANCEL_MOVE.{name}");
        self.ask(Asked::Nothing, home, &to, (&api, ""));
    }

    /// Asks for a stream to be led by a server, if it is one of its members. Answers where the
    /// client is that asks.
    pub(super) fn prefer(&mut self, stream: usize, server: usize) -> Option<usize> {
        let home = self.home()?;
        let (to, name) = (self.running(), &self.streams[stream].plan.name);
        let api = format!("$JS.API.STREAM.LEADER.STEPDOWN.{name}");
        let body = format!(r#"{{"placement":{{"preferred":"{}"}}}}"#, NAMES[server]);
        self.ask(Asked::Nothing, home, &to, (&api, &body));
        Some(home)
    }

    /// Has each stream come to the replicas that were asked for last, when all is well.
    pub(super) fn end_moves(&mut self) -> Result<(), String> {
        if self.moves.is_none() {
            return Ok(());
        }
        self.pass(HELD * SECOND)?;
        for stream in 0..self.streams.len() {
            self.streams[stream].is_scaled = false;
            let wanted = self.streams[stream].wanted;
            for _ in 0..LONGEST {
                self.scale(stream, wanted, true);
                self.pass(SECOND)?;
                if self.streams[stream].is_scaled {
                    break;
                }
            }
            if !self.streams[stream].is_scaled {
                return Err(format!("S{stream}: it does not get its {wanted} replicas"));
            }
        }
        self.settle()?;
        self.streams.iter_mut().for_each(|model| model.plan.replicas = model.wanted);
        Ok(())
    }
}
