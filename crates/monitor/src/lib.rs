//! The monitoring answers: `/varz`, `/connz`, `/subsz`, `/healthz` and the index page.
//!
//! This room turns plain snapshots into the bytes that nats-server would answer: same keys, same order,
//! same rules for what is left out, same error texts. It owns no connection, clock or counter: everything
//! comes from a [`Source`], which the server implements, and [`Pages::respond`] is a pure function of it. It never
//! knows about sockets or HTTP framing: an [`Answer`] is a status, headers and a body.

mod answer;
mod connz;
mod healthz;
mod index;
mod json;
mod page;
mod query;
mod snapshot;
mod subsz;
mod text;
mod varz;
mod window;

pub use answer::Answer;
pub use page::Pages;
pub use snapshot::{
    Clocks, Closed, ConnSnapshot, Health, Identity, InterestSnapshot, Limits, LinkCounts, Process,
    ServerSnapshot, Settings, Source, Stamp, SubSnapshot, Traffic,
};
