//! Facts about other servers that are kept for a moment: what is placed by itself, and not because
//! somebody asks, does not wait for answers.

use super::placement_facts::FactsByServer;
use std::time::{Duration, Instant};

/// Facts are used for so long.
const HOLDS: Duration = Duration::from_secs(5);

/// Facts that were asked for, as they come.
#[derive(Default)]
pub(super) struct KeptFacts {
    asked_at: Option<Instant>,
    /// Servers that were asked and have not answered.
    left: usize,
    found: FactsByServer,
}

/// Facts as they are known at a moment.
pub(super) enum KnownFacts {
    /// Of all servers that have answered, or have had their time to.
    Here(FactsByServer),
    /// Others have been asked.
    Awaited,
    /// Nobody was asked lately.
    Unknown,
}

impl KeptFacts {
    pub(super) fn known(&self, now: Instant) -> KnownFacts {
        match self.asked_at.map(|asked| now.saturating_duration_since(asked)) {
            Some(age) if age >= HOLDS => KnownFacts::Unknown,
            Some(age) if self.left == 0 || age >= HOLDS / 2 => KnownFacts::Here(self.found.clone()),
            Some(_) => KnownFacts::Awaited,
            None => KnownFacts::Unknown,
        }
    }

    /// Notes that servers are being asked.
    pub(super) fn begin(&mut self, now: Instant, asked: usize) {
        *self = Self { asked_at: Some(now), left: asked, found: FactsByServer::new() };
    }

    /// A server has answered. Answers whether it is the last one.
    pub(super) fn hear(&mut self, facts: FactsByServer) -> bool {
        let was_waiting = self.left > 0;
        self.found.extend(facts);
        self.left = self.left.saturating_sub(1);
        was_waiting && self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::host::PlacementFacts;

    #[test]
    fn facts_hold_for_a_moment_once_all_have_answered_or_had_time_to() {
        let (mut kept, began) = (KeptFacts::default(), Instant::now());
        let after = |millis| began + Duration::from_millis(millis);
        let of = |name: &str| [(name.to_owned(), PlacementFacts::default())].into();
        assert!(matches!(kept.known(began), KnownFacts::Unknown));
        kept.begin(began, 2);
        assert!(!kept.hear(of("n1")));
        assert!(matches!(kept.known(after(100)), KnownFacts::Awaited));
        assert!(matches!(kept.known(after(2500)), KnownFacts::Here(facts) if facts.len() == 1));
        assert!(kept.hear(of("n2")), "the last one");
        assert!(matches!(kept.known(after(100)), KnownFacts::Here(facts) if facts.len() == 2));
        assert!(!kept.hear(of("n3")), "nobody waits for it");
        assert!(matches!(kept.known(after(5000)), KnownFacts::Unknown));
    }
}
