//! Requests as the reference reads them: Go's `encoding/json` with unknown fields refused.
//!
//! Clients see the faults, in errors 10025, so they are Go's to the letter: which fault is told when there are several,
//! what it calls types and fields. Types say how they are read with `Decode`, objects with the `object!` table.
//! Owns nothing; the syntax is `myelin_wire::json`'s.

mod decode;
mod duration;
mod moment;
mod number;
mod request;

pub(crate) use decode::{Abort, Decode, Object, Reader, embedded, object, same_name, word};
pub(crate) use duration::go_duration;
pub use moment::{Moment, parse_moment, rfc3339};
pub(crate) use number::atoi;
pub(crate) use request::{lenient, request};
