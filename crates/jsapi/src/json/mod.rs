//! Requests as the reference reads them: Go's `encoding/json` with unknown fields refused.
//!
//! Clients see the faults, in errors 10025, so they are exactly Go's: which fault is told when
//! there are several, what it calls types and fields. Types say how they are read with `Decode`,
//! objects with the `object!` table. Owns nothing; the syntax is `myelin_wire::json`'s.

mod decode;
mod duration;
mod moment;
mod number;
mod request;

pub use decode::{Abort, Decode, JsonReader};
pub(crate) use decode::{Object, embedded, object, same_name, word};
pub(crate) use duration::go_duration;
pub use duration::parse_duration;
pub use moment::{Moment, parse_moment, rfc3339};
pub(crate) use number::atoi;
pub use request::lenient;
pub(crate) use request::request;
