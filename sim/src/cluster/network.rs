//! Network between servers: delay, loss, order, repetition, cuts and slow links, all drawn by the
//! run. Clients are at a server: what is for another one goes over the same links.

use std::collections::BTreeMap;

use myelin_stdx::rng::Rng;

use super::node::{BULK, CLIENTS, Letter};

/// Letter on its way.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) letter: Letter,
    /// Whether it is an answer on its way to the client at `to`, and which life of that server the
    /// client is connected to.
    pub(super) is_answer: bool,
}

/// The links.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// By when they arrive, and in the order in which they were sent.
    parcels: BTreeMap<(u64, u64), Box<Parcel>>,
    sent: u64,
    /// When the last one of a link and account arrives, where order is kept.
    latest: BTreeMap<(usize, usize, usize), u64>,
    /// Links that carry nothing in this direction.
    cuts: Vec<(usize, usize)>,
    /// Links on which all takes so many nanoseconds more.
    slow: BTreeMap<(usize, usize), u64>,
    /// Links on which so many of a thousand are lost, instead of as many as elsewhere.
    bad: BTreeMap<(usize, usize), u64>,
    /// Messages of a thousand that are lost, and as many that come twice.
    pub(super) loss: u64,
    pub(super) is_ordered: bool,
    pub(super) delay: u64,
}

impl Network {
    pub(super) fn new(loss: u64, is_ordered: bool, delay: u64) -> Self {
        Self { loss, is_ordered, delay, ..Self::default() }
    }

    /// Sends a letter, if the link carries anything.
    pub(super) fn send(&mut self, rng: &mut Rng, now: u64, parcel: Parcel) {
        let Parcel { from, to, .. } = parcel;
        if self.is_cut(from, to) {
            return;
        }
        let is_client = parcel.letter.account == CLIENTS;
        let luck = rng.below(1000);
        let loss = self.bad.get(&(from, to)).copied().unwrap_or(self.loss);
        if luck < loss {
            return;
        }
        // A client's words come once, or never.
        if !is_client && luck < 2 * loss {
            self.put(rng, now, Box::new(parcel.clone()));
        }
        self.put(rng, now, Box::new(parcel));
    }

    fn put(&mut self, rng: &mut Rng, now: u64, parcel: Box<Parcel>) {
        let Parcel { from, to, .. } = *parcel;
        let is_client = parcel.letter.account == CLIENTS;
        let extra = self.slow.get(&(from, to)).copied().unwrap_or(0);
        let delay = if from == to { 0 } else { rng.below(self.delay) + extra };
        let mut due = now + delay;
        // Pieces of a stream come over one connection: no consensus makes up for their order.
        let is_bulk = parcel.letter.account == BULK;
        if self.is_ordered || is_client || is_bulk {
            let latest = self.latest.entry((from, to, parcel.letter.account)).or_default();
            due = due.max(*latest);
            *latest = due;
        }
        self.sent += 1;
        self.parcels.insert((due, self.sent), parcel);
    }

    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// When the next letter arrives.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.parcels.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next letter that has arrived. One that is cut off meanwhile is lost.
    pub(super) fn take(&mut self, now: u64) -> Option<Box<Parcel>> {
        let first = self.parcels.first_entry().filter(|first| first.key().0 <= now)?;
        let parcel = first.remove();
        (!self.is_cut(parcel.from, parcel.to)).then_some(parcel)
    }

    /// Puts a letter back that its receiver does not read yet.
    pub(super) fn put_off(&mut self, until: u64, parcel: Box<Parcel>) {
        self.sent += 1;
        self.parcels.insert((until, self.sent), parcel);
    }

    /// A receiver reads again before `until`: what was put off until then comes now.
    pub(super) fn hasten(&mut self, to: usize, until: u64, now: u64) {
        let is_put_off = |(due, _): &(u64, u64), parcel: &mut Box<Parcel>| *due == until && parcel.to == to;
        let put_off: Vec<_> = self
            .parcels
            .extract_if((until, 0)..=(until, u64::MAX), is_put_off)
            .map(|(_, parcel)| parcel)
            .collect();
        put_off.into_iter().for_each(|parcel| self.put_off(now, parcel));
    }

    /// Clients hear no answer that is on its way.
    pub(super) fn drop_answers(&mut self) {
        self.parcels.retain(|_, parcel| !parcel.is_answer);
    }

    /// A server has ended: what is on its way to it is lost.
    pub(super) fn drop_for(&mut self, to: usize) {
        self.parcels.retain(|_, parcel| parcel.to != to);
    }

    pub(super) fn cut(&mut self, from: usize, to: usize) {
        if from != to && !self.is_cut(from, to) {
            self.cuts.push((from, to));
        }
    }

    pub(super) fn slow_down(&mut self, from: usize, to: usize, by: u64) {
        if from != to {
            self.slow.insert((from, to), by);
        }
    }

    /// A link loses so many of a thousand in this direction.
    pub(super) fn worsen(&mut self, from: usize, to: usize, loss: u64) {
        if from != to {
            self.bad.insert((from, to), loss);
        }
    }

    /// All links are as usual.
    pub(super) fn heal(&mut self) {
        self.cuts.clear();
        self.slow.clear();
        self.bad.clear();
    }

    /// Nothing is lost from now on, nor comes twice.
    pub(super) fn calm(&mut self) {
        self.heal();
        self.loss = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_link_loses_more_in_one_direction_until_all_are_as_usual() {
        let (mut network, mut rng) = (Network::new(0, true, 1000), Rng::seeded(1));
        let mut arrive = |network: &mut Network, from, to| {
            for _ in 0..100 {
                network.send(&mut rng, 0, Parcel { from, to, letter: Letter::default(), is_answer: false });
            }
            std::iter::from_fn(|| network.take(u64::MAX)).count()
        };
        network.worsen(0, 1, 1000);
        assert_eq!((arrive(&mut network, 0, 1), arrive(&mut network, 1, 0)), (0, 100));
        network.heal();
        assert_eq!(arrive(&mut network, 0, 1), 100);
    }

    #[test]
    fn what_a_silent_server_has_not_read_comes_when_it_is_there_again() {
        let (mut network, mut rng) = (Network::new(0, true, 1000), Rng::seeded(1));
        for to in [1, 2] {
            network.send(&mut rng, 0, Parcel { from: 0, to, letter: Letter::default(), is_answer: false });
        }
        while let Some(parcel) = network.take(1000) {
            network.put_off(20_000, parcel);
        }
        network.hasten(1, 20_000, 5000);
        assert_eq!(network.take(5000).map(|parcel| parcel.to), Some(1));
        assert_eq!((network.take(5000).is_none(), network.next_due()), (true, Some(20_000)));
    }

    #[test]
    fn what_is_large_comes_in_order() {
        let (mut network, mut rng) = (Network::new(0, false, 20_000_000), Rng::seeded(1));
        for payload in 0..20 {
            let letter = Letter { account: BULK, payload: vec![payload], ..Letter::default() };
            network.send(&mut rng, 0, Parcel { from: 0, to: 1, letter, is_answer: false });
        }
        let came: Vec<u8> =
            std::iter::from_fn(|| network.take(u64::MAX)).map(|parcel| parcel.letter.payload[0]).collect();
        assert_eq!(came, (0..20).collect::<Vec<u8>>());
    }
}
