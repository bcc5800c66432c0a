//! Losses of streams whose disk was damaged: health names them, and is well.

use serde::Serialize;

use crate::snapshot::StoredStream;

/// Messages that one stream has lost since the last start, or was found to have lost by it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LostMessages {
    account: String,
    stream: String,
    messages: u64,
}

impl LostMessages {
    /// Loss of a stream of `account`, if it has one.
    pub(super) fn of(account: &str, stream: &StoredStream) -> Option<Self> {
        let lost =
            || Self { account: account.to_owned(), stream: stream.name.clone(), messages: stream.lost };
        (stream.lost > 0).then(lost)
    }
}
