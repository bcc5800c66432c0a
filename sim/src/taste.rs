//! Taste of a seed: how often its clients do what, and what goes wrong how often. One that does
//! much of a kind and nothing of another finds what one with a little of everything does not.

use myelin_stdx::rng::Rng;

/// An operation of clients.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Publish,
    PublishMany,
    Batch,
    FastBatch,
    Fetch,
    Answer,
    Manage,
    Wait,
}

/// An operation that changes no message by itself, or removes some.
#[derive(Clone, Copy)]
pub(crate) enum Management {
    MakeConsumer,
    RemoveConsumer,
    Unpin,
    Pause,
    Purge,
    Delete,
    Update,
    Read,
    ReadLast,
    MakeCopy,
    RemoveCopy,
    MakeStream,
    RemoveStream,
    Wait,
}

/// Something that goes wrong, or that an operator does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Kill,
    LosePower,
    LosePowerInBatch,
    FillDisk,
    Restart,
    JumpClock,
    FailDisk,
    SlowDisk,
    Panic,
    Unreadable,
    /// Damage of files, because of which the model forgives much.
    Damage,
}

type Weighted<T, const N: usize> = [(T, u64); N];

const OPERATIONS: Weighted<Operation, 8> = [
    (Operation::Publish, 28),
    (Operation::PublishMany, 9),
    (Operation::Batch, 3),
    (Operation::FastBatch, 3),
    (Operation::Fetch, 14),
    (Operation::Answer, 20),
    (Operation::Manage, 17),
    (Operation::Wait, 6),
];

const MANAGEMENT: Weighted<Management, 14> = [
    (Management::MakeConsumer, 18),
    (Management::RemoveConsumer, 6),
    (Management::Unpin, 1),
    (Management::Pause, 2),
    (Management::Purge, 9),
    (Management::Delete, 9),
    (Management::Update, 6),
    (Management::Read, 21),
    (Management::ReadLast, 9),
    (Management::MakeCopy, 3),
    (Management::RemoveCopy, 1),
    (Management::MakeStream, 8),
    (Management::RemoveStream, 3),
    (Management::Wait, 6),
];

const FAULTS: Weighted<Fault, 11> = [
    (Fault::Kill, 32),
    (Fault::LosePower, 40),
    (Fault::LosePowerInBatch, 8),
    (Fault::FillDisk, 8),
    (Fault::Restart, 8),
    (Fault::JumpClock, 8),
    (Fault::FailDisk, 24),
    (Fault::SlowDisk, 8),
    (Fault::Panic, 16),
    (Fault::Unreadable, 8),
    (Fault::Damage, 1),
];

/// Factors, one of which each thing of a seed is multiplied with.
const FACTORS: [u64; 6] = [0, 1, 1, 1, 3, 8];

/// Weights of a seed.
pub(crate) struct Taste {
    operations: Weighted<Operation, 8>,
    management: Weighted<Management, 14>,
    faults: Weighted<Fault, 11>,
}

impl Taste {
    /// The usual one, or one of its own.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let mut taste = Self { operations: OPERATIONS, management: MANAGEMENT, faults: FAULTS };
        if rng.below(3) > 0 {
            vary(&mut taste.operations, rng);
            vary(&mut taste.management, rng);
            vary(&mut taste.faults, rng);
        }
        taste
    }

    pub(crate) fn operation(&self, rng: &mut Rng) -> Operation {
        pick(&self.operations, rng)
    }

    pub(crate) fn management(&self, rng: &mut Rng) -> Management {
        pick(&self.management, rng)
    }

    pub(crate) fn fault(&self, rng: &mut Rng) -> Fault {
        pick(&self.faults, rng)
    }
}

/// The first of them is never left out.
fn vary<T: Copy>(weighted: &mut [(T, u64)], rng: &mut Rng) {
    for (at, (_, weight)) in weighted.iter_mut().enumerate() {
        let factor = FACTORS[rng.below(FACTORS.len() as u64) as usize];
        *weight *= if at == 0 { factor.max(1) } else { factor };
    }
}

fn pick<T: Copy>(weighted: &[(T, u64)], rng: &mut Rng) -> T {
    let mut at = rng.below(weighted.iter().map(|(_, weight)| weight).sum());
    for (one, weight) in weighted {
        match at.checked_sub(*weight) {
            Some(left) => at = left,
            None => return *one,
        }
    }
    weighted[0].0
}
