//! How much later deliveries were sent than they were decided, where they wait for a commit: their
//! redelivery is due so much later.

use myelin_store::Timestamp;
use std::collections::VecDeque;

/// Steps that are kept; with more, the oldest are taken together.
const STEPS: usize = 32;
/// Nanoseconds by which a delivery may be sent late without being counted as that. An
/// acknowledgement may be late by so much.
const LEAST: i64 = 1_000_000;

/// Delays by the time of the decision: never too small, and at most twice as large as they were.
#[derive(Debug, Default)]
pub(super) struct SendDelays {
    /// Time from which on nothing that was decided was sent yet.
    pub(super) held_from: Option<Timestamp>,
    /// From when on, and how long.
    steps: VecDeque<(Timestamp, i64)>,
}

impl SendDelays {
    /// Notes that deliveries that were decided at `decided` were sent so much later.
    pub(super) fn note(&mut self, decided: Timestamp, delay: i64) {
        let delay = if delay < LEAST { 0 } else { delay };
        let last = self.steps.back().map_or(0, |(_, delay)| *delay);
        if delay <= last && delay >= last / 2 {
            return;
        }
        match self.steps.back_mut() {
            // A clock that was set back, or another turn of this moment.
            Some((from, known)) if *from >= decided => *known = delay.max(*known),
            _ => self.steps.push_back((decided, delay)),
        }
        if self.steps.len() > STEPS
            && let Some((from, oldest)) = self.steps.pop_front()
            && let Some(first) = self.steps.front_mut()
        {
            *first = (from, first.1.max(oldest));
        }
    }

    /// How much later what was decided then was sent, or will have been.
    pub(super) fn of(&self, decided: Timestamp) -> i64 {
        if self.held_from.is_some_and(|from| decided >= from) {
            return i64::MAX;
        }
        let step = self.steps.iter().rev().find(|(from, _)| *from <= decided);
        step.map_or(0, |(_, delay)| *delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_stdx::rng::Rng;

    #[test]
    fn a_delay_is_never_told_too_short() {
        for seed in 0..200 {
            let mut rng = Rng::seeded(seed);
            let mut delays = SendDelays::default();
            let mut noted: Vec<(i64, i64)> = Vec::new();
            let mut now = 0;
            for _ in 0..300 {
                now += rng.below(50 * LEAST as u64) as i64;
                let bits = rng.below(36);
                let delay = rng.below(1 << bits) as i64;
                delays.note(now, delay);
                noted.push((now, delay));
                assert!(delays.of(now) <= 2 * delay.max(LEAST), "seed {seed}");
            }
            for (decided, delay) in noted {
                let told = delays.of(decided);
                assert!(told >= delay || delay < LEAST, "seed {seed}: {told} for {delay}");
            }
            delays.held_from = Some(now);
            assert_eq!((delays.of(now), delays.of(now + 1)), (i64::MAX, i64::MAX));
            assert!(delays.of(now - 1) < i64::MAX, "it was sent");
        }
    }
}
