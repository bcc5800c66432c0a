//! Operations of half of the seeds beside the rest. They are drawn from numbers of their own, so
//! that the other half is as it was before there were any.

use myelin_stdx::rng::Rng;

use crate::plan::{Acks, ConsumerPlan, StreamPlan};

/// Change of the seed from which these are drawn.
const SALT: u64 = 0x6d79_656c_696e_2d32;
/// Change of the seed from which its pace is drawn.
const PACE_SALT: u64 = 0x7061_6365_206f_6620;
/// Subjects of a stream that consumers ask for by name.
const SUBJECTS: u64 = 5;

/// How often something goes wrong, and how often everything is looked at: one operation in so many.
/// Half of the seeds are as those before 29 November 2026. In the others a server lives long enough
/// for what many operations make: more segments, more that is pending, merges and compactions.
pub(crate) struct Pace {
    pub(crate) faults: u64,
    pub(crate) checks: u64,
}

impl Pace {
    /// Follows from the seed alone, and takes no number from anything else that is drawn.
    pub(crate) fn draw(seed: u64) -> Self {
        let (faults, checks) = match Rng::seeded(seed ^ PACE_SALT).below(4) {
            0 | 1 => (60, 120),
            2 => (240, 240),
            _ => (960, 480),
        };
        Self { faults, checks }
    }
}

/// Draws of consumers with filters and of their updates, of purges that keep some of a subject, and
/// of streams that refuse by subject.
pub(crate) struct Extras(Option<Rng>);

impl Extras {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed ^ SALT);
        Self((rng.below(2) == 0).then_some(rng))
    }

    /// Whether one of so many comes.
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.0.as_mut().is_some_and(|rng| rng.below(many) == 0)
    }

    /// Patterns of subjects of a stream; none: a consumer gets all.
    pub(crate) fn filters(&mut self, stream: &str) -> Vec<String> {
        let Some(rng) = &mut self.0 else { return Vec::new() };
        let one = rng.below(SUBJECTS);
        let subject = |number: u64| format!("{stream}.{number}");
        match rng.below(6) {
            0..2 => vec![subject(one)],
            2 => vec![subject(one), subject((one + 1 + rng.below(SUBJECTS - 1)) % SUBJECTS)],
            3 => vec![format!("{stream}.*")],
            _ => Vec::new(),
        }
    }

    /// A stream that refuses what is new may do so by subject.
    pub(crate) fn change_stream(&mut self, plan: &mut StreamPlan) {
        let can = plan.refuses_new && plan.limits.per_subject > 0;
        plan.refuses_per_subject = can && self.one_in(2);
    }

    /// Another configuration of a consumer, by which it is not another one.
    pub(crate) fn changed(&mut self, plan: &ConsumerPlan) -> Option<ConsumerPlan> {
        let rng = self.0.as_mut().filter(|_| plan.acks != Acks::None)?;
        Some(plan.with_max_ack_pending(1 + rng.below(30)))
    }
}
