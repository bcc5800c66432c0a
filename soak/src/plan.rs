//! How long a run is, how it is divided into rounds, and how much load there is.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Shorter rounds would be mostly rest.
const SHORTEST_ROUND: Duration = Duration::from_secs(10);
/// The third round of a long run ends with its third minute.
const LONGEST_ROUND: Duration = Duration::from_secs(60);
/// Number of rounds of a run, unless these were too short or too long then.
const ROUNDS: u32 = 10;

/// One run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server's program.
    pub server: PathBuf,
    /// How long it is loaded.
    pub duration: Duration,
    /// Connections a second that come and go.
    pub visitors: u32,
    /// Messages a second for each stream with a limit.
    pub rate: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// Only loads whose names contain this.
    pub only: Option<String>,
}

impl Plan {
    /// How long one round is: a tenth of the run, 10 to 60 s.
    #[must_use]
    pub fn round(&self) -> Duration {
        (self.duration / ROUNDS).clamp(SHORTEST_ROUND, LONGEST_ROUND)
    }

    /// Whether what fills up in the first minutes is still filling when the rule begins to hold.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.round() < LONGEST_ROUND
    }

    /// How many rounds there are, at least the four that a judgement needs.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        let rounds = self.duration.as_secs_f64() / self.round().as_secs_f64();
        (rounds.round() as u32).max(crate::judge::FEWEST_ROUNDS)
    }
}

/// A seed that no other run had.
#[must_use]
pub fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasting(seconds: u64) -> (u64, u32) {
        let duration = Duration::from_secs(seconds);
        let plan = Plan { server: PathBuf::new(), duration, visitors: 10, rate: 100, seed: 1, only: None };
        (plan.round().as_secs(), plan.rounds())
    }

    #[test]
    fn rounds_are_a_tenth_within_bounds() {
        assert_eq!(lasting(1), (10, 5));
        assert_eq!(lasting(120), (12, 10));
        assert_eq!(lasting(300), (30, 10));
        assert_eq!(lasting(3600), (60, 60));
    }
}
