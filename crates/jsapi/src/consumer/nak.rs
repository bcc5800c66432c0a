//! Options of a negative acknowledgement.

use crate::json::{self, object, parse_duration};

/// The body in an object.
#[derive(Default)]
struct NakOptions {
    delay: i64,
}

object! { NakOptions, "ConsumerNakOptions":
    "delay" delay "time.Duration",
}

/// Delay that a `-NAK` asks for: nanoseconds in an object, or a duration as Go writes it.
/// `None`: neither.
#[must_use]
pub fn nak_delay(how: &[u8]) -> Option<i64> {
    if how.first() != Some(&b'{') {
        return parse_duration(how);
    }
    let mut options = NakOptions::default();
    json::lenient(how, "server.ConsumerNakOptions", &mut options).ok().map(|()| options.delay)
}
