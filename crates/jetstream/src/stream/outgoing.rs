//! What may be said only when the store has released a batch: acknowledgements and republished messages, in order.

use std::collections::VecDeque;

use myelin_broker::Parcel;
use myelin_store::{Release, Ticket};

/// Emptied parcels that are kept.
const SPARE: usize = 4;

/// See the module.
#[derive(Default)]
pub(super) struct Outgoing {
    waiting: VecDeque<(Ticket, Parcel)>,
    spare: Vec<Parcel>,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// An empty parcel.
    pub(super) fn parcel(&mut self) -> Parcel {
        self.spare.pop().unwrap_or_default()
    }

    /// Holds a parcel back until `ticket` is released.
    pub(super) fn wait(&mut self, ticket: Ticket, parcel: Parcel) {
        self.waiting.push_back((ticket, parcel));
    }

    /// Moves what is released to `out`.
    pub(super) fn release(&mut self, release: &Release, out: &mut Parcel) {
        while let Some((ticket, parcel)) = self.waiting.front_mut()
            && release.is_released(*ticket)
        {
            out.append(parcel);
            let (_, mut parcel) = self.waiting.pop_front().expect("it was just looked at");
            if self.spare.len() < SPARE {
                parcel.clear();
                self.spare.push(parcel);
            }
        }
    }

    /// What will never be released.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Parcel> {
        self.waiting.drain(..).map(|(_, parcel)| parcel)
    }
}
