//! Keys of calls: what a call has to itself while it waits.
//!
//! Calls were made for a thread that does one after the other: nothing of what one has looked at
//! changes before it is through. So it is still, for what it is about: a stream with its consumers,
//! and for calls that make, change or remove streams the streams of the account. What others leave
//! to that thread has its scope, too ([`Host::spawn_api`](crate::engine::Host::spawn_api)).

use crate::engine::ApiRequest;

/// Scope of a call or a task: what it looks at and changes, which nobody else does meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallScope {
    /// Nothing that would be half done while a call waits.
    Nothing,
    /// A stream with its consumers: names of the account and of the stream.
    Stream(Box<str>, Box<str>),
    /// A consumer: names of the account, of the stream and its own. Others may have other consumers
    /// of the stream meanwhile.
    Consumer(Box<str>, Box<str>, Box<str>),
    /// A stream, and which streams its account has.
    Streams(Box<str>, Box<str>),
    /// All streams of an account.
    Account(Box<str>),
    /// All streams of all accounts.
    Server,
}

/// An account and its stream. Without a stream: which streams it has; without either: who wants all
/// to itself, and those who have come since.
pub(super) type CallKey = (Box<str>, Box<str>);

/// A key that a call or task needs: to itself, or together with others that share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NeededKey {
    pub(super) key: CallKey,
    pub(super) is_shared: bool,
}

impl NeededKey {
    fn whole(key: CallKey) -> Self {
        Self { key, is_shared: false }
    }
}

/// Key of those that come while somebody waits for all streams.
pub(super) fn key_of_server() -> CallKey {
    Default::default()
}

impl CallScope {
    /// Scope of the call that a request means.
    pub(super) fn of(request: &ApiRequest) -> Self {
        let subject = String::from_utf8_lossy(&request.subject);
        let Some((_, rest)) = subject.split_once(".API.") else { return Self::Nothing };
        let tokens: Vec<&str> = rest.split('.').collect();
        let account = || request.account.name().into();
        match tokens[..] {
            ["ACCOUNT", "PURGE", name] if request.account.is_system() => Self::Account(name.into()),
            ["STREAM", "CREATE" | "UPDATE" | "DELETE" | "RESTORE", name] => {
                Self::Streams(account(), name.into())
            }
            ["ACCOUNT", "STREAM", _, account, name] => Self::Stream(account.into(), name.into()),
            ["STREAM", "MSG" | "PEER", _, name] | ["STREAM", _, name] => Self::Stream(account(), name.into()),
            ["CONSUMER", "DURABLE", "CREATE", stream, name]
            | ["CONSUMER", "CREATE", stream, name, ..]
            | ["CONSUMER", "INFO", stream, name] => Self::Consumer(account(), stream.into(), name.into()),
            ["CONSUMER", "DURABLE", "CREATE", name, ..] | ["CONSUMER", _, name, ..] => {
                Self::Stream(account(), name.into())
            }
            _ => Self::Nothing,
        }
    }

    /// Keys of the scope. `streams`: those that an account has; `held`: the keys that others have
    /// or wait for.
    pub(super) fn keys<'k>(
        &self,
        streams: impl FnOnce(&str) -> Vec<Box<str>>,
        held: impl Iterator<Item = &'k CallKey>,
    ) -> Vec<NeededKey> {
        let all = match self {
            Self::Nothing => Vec::new(),
            Self::Stream(account, stream) => vec![(account.clone(), stream.clone())],
            Self::Consumer(account, stream, consumer) => {
                // Neither name has a space.
                let own = NeededKey::whole((account.clone(), format!("{stream} > {consumer}").into()));
                let of_stream = NeededKey { key: (account.clone(), stream.clone()), is_shared: true };
                return vec![of_stream, own];
            }
            Self::Streams(account, stream) => {
                vec![(account.clone(), Box::default()), (account.clone(), stream.clone())]
            }
            Self::Account(account) => {
                // With streams that others are about to make.
                let of_account = held.filter(|(of, _)| of == account).map(|(_, stream)| stream.clone());
                let mut names: Vec<_> = of_account.chain(streams(account)).chain([Box::default()]).collect();
                names.sort_unstable();
                names.dedup();
                names.into_iter().map(|stream| (account.clone(), stream)).collect()
            }
            Self::Server => {
                let mut keys: Vec<_> = held.cloned().chain([key_of_server()]).collect();
                keys.sort_unstable();
                keys.dedup();
                keys
            }
        };
        all.into_iter().map(NeededKey::whole).collect()
    }
}
