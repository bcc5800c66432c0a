//! Keys of calls: what a call has to itself while it waits.
//!
//! Calls were made for a thread that does one after the other: nothing of what one has looked at
//! changes before it is through. So it is still, for what it is about: a stream with its consumers,
//! and for calls that make, change or remove streams the streams of the account.

use crate::engine::ApiRequest;

/// An account and its stream; without a name: which streams it has.
pub(super) type CallKey = (Box<str>, Box<str>);

/// Keys of the call that a request means.
pub(super) fn keys_of(request: &ApiRequest) -> Vec<CallKey> {
    let subject = String::from_utf8_lossy(&request.subject);
    let Some((_, rest)) = subject.split_once(".API.") else { return Vec::new() };
    let tokens: Vec<&str> = rest.split('.').collect();
    let (stream, changes_table) = match tokens[..] {
        ["STREAM", "CREATE" | "UPDATE" | "DELETE" | "RESTORE", name] => (name, true),
        ["STREAM", "MSG", _, name] | ["STREAM", _, name] => (name, false),
        ["CONSUMER", "DURABLE", "CREATE", name, ..] | ["CONSUMER", _, name, ..] => (name, false),
        _ => return Vec::new(),
    };
    let key = |name: &str| (request.account.name().into(), name.into());
    changes_table.then(|| key("")).into_iter().chain([key(stream)]).collect()
}
