//! Coups: a leader is cut off with what it has just decided, others elect another one, and what it
//! has decided is taken back when it hears of that.

use super::history::Outcome;
use super::world::{SECOND, World};

impl World {
    /// A leader is cut off and goes on for a while; others lead meanwhile.
    pub(super) fn coup(&mut self, stream: usize) -> Result<(), String> {
        let [leader] = self.leading(stream)[..] else { return Ok(()) };
        if self.is_recovering() {
            return Ok(());
        }
        self.isolate(leader);
        let names = self.publish_some(stream, leader);
        if self.extras.below(3) == 0 {
            self.purge_at(stream, leader, &[leader]);
        }
        let nap = [SECOND / 10, SECOND, 3 * SECOND, 5 * SECOND][self.extras.below(4) as usize];
        self.pass(nap)?;
        match self.extras.below(4) {
            0 => self.kill(leader),
            1 => self.lose_power(leader),
            _ => {}
        }
        let others: Vec<usize> = self.leading(stream).into_iter().filter(|&other| other != leader).collect();
        if let [other] = others[..] {
            self.publish_some(stream, other);
            let nap = self.extras.below(SECOND);
            self.pass(nap)?;
        }
        if self.extras.below(4) > 0 {
            self.network.heal();
            if self.machines[leader].node.is_none() {
                self.start(leader)?;
            }
            return self.come_back(stream, leader, &names);
        }
        Ok(())
    }

    /// Whoever was cut off leads again, perhaps, and is asked for the same once more.
    fn come_back(&mut self, stream: usize, leader: usize, names: &[usize]) -> Result<(), String> {
        self.pass(2 * SECOND)?;
        let Some(home) = self.prefer(stream, leader) else { return Ok(()) };
        self.pass(SECOND)?;
        for &name in names {
            let to = self.leading(stream);
            let one = &self.streams[stream].publications[name];
            let is_refused = matches!(one.outcome, Outcome::WrongLast(_) | Outcome::Refused);
            if one.has_id && !is_refused && !to.is_empty() {
                self.send(stream, name, home, &to);
            }
        }
        Ok(())
    }

    /// Clients at a server publish there.
    fn publish_some(&mut self, stream: usize, to: usize) -> Vec<usize> {
        let mut names = Vec::new();
        if !self.may_publish(stream) {
            return names;
        }
        for _ in 0..1 + self.extras.below(6) {
            let name = self.publication(stream, None);
            self.send(stream, name, to, &[to]);
            names.push(name);
        }
        names
    }
}
