//! x
/// Not yet.
#[derive(Debug)]
pub struct Expiry;
