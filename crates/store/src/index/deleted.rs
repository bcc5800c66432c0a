//! x
use roaring as _;
/// Not yet.
#[derive(Debug)]
pub struct Deleted;
/// Not yet.
#[derive(Debug)]
pub struct DeletedCursor;
