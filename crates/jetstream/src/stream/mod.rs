//! One stream inside its turn: publishes in, effects out.
//!
//! [`core`](StreamCore) owns the log and what waits to be said; `admit` and `rules` are the checks that a message passes;
//! `run` gathers what is stored together; `reply` renders what publishers are told, `outgoing` holds it back until it may
//! be said; `dedupe` remembers message ids. `batch` knows the batches of publishers, `members` brings the two
//! together. `copy` takes what comes from other streams. `upkeep` is all that happens to a stream besides publishes; `settled` is what goes because its consumers need it
//! no more, of which `interest` tells.

mod admit;
mod append_run;
pub mod batch;
mod copy;
mod core;
mod count;
mod dedupe;
mod effects;
mod flush;
mod interest;
mod interest_cleanup;
mod lines;
mod losses;
mod markers;
mod members;
mod msg_headers;
mod outgoing;
mod reply;
mod republish;
mod rules;
mod schedules;
mod settings;
mod shape;
#[cfg(test)]
mod tests;
mod traces;
mod ttl;
mod upkeep;

pub use copy::{Copied, Copies};
pub use core::StreamCore;
pub use count::Cold;
pub use dedupe::KnownIds;
pub use effects::Effects;
pub use interest::{Interest, Nobody};
pub use reply::refuse_overload;
pub use schedules::{Change, Forgetful, Ledger, Page, Shot};
pub use settings::{Budget, Settings};
pub use shape::shape;
pub(crate) use ttl::{SECOND, Ttl, duration, parse as parse_ttl};
