//! The part of a link that only gateways have: the cluster at its other end, and what has been said
//! of accounts.

use myelin_stdx::sync::lock;
use myelin_wire::peer::gateway::{self, ShortName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Accounts of which a link knows at most how far they are: a peer can name as many as it likes.
pub(super) const MOST_ACCOUNTS: usize = 64 * 1024;

/// Direction of a link with another cluster: messages go one way only, and interest the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewaySide {
    /// The other side has dialled: it sends messages, and hears what is wanted here.
    Inbound,
    /// This server has dialled: it sends messages, and hears what is wanted there.
    Outbound,
}

/// Terms of a link with another cluster, known when its handshake is over.
#[derive(Debug, Clone)]
pub struct GatewayTerms {
    /// Name of the other cluster's gateway.
    pub name: String,
    /// Which of both sends messages.
    pub side: GatewaySide,
    /// The other side tells all of its interest from the first moment.
    pub tells_all: bool,
}

/// How far an account is, of whose interest one side tells the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterestMode {
    /// Messages are sent unless it was said that nobody wants them.
    Optimistic,
    /// The other side is telling everything.
    Transitioning,
    /// Everything was told: what is not wanted is not sent.
    InterestOnly,
}

impl InterestMode {
    /// The mode as monitoring calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Optimistic => "Optimistic",
            Self::Transitioning => "Transitioning",
            Self::InterestOnly => "Interest-Only",
        }
    }
}

/// How far an account is over there, which an older server tells of.
#[derive(Default)]
pub(super) struct OptimisticAccount {
    /// Nobody over there has that account.
    pub(super) is_unwanted: bool,
    /// Subjects that nobody over there wants.
    pub(super) unwanted: BTreeSet<Box<[u8]>>,
    pub(super) mode: Option<InterestMode>,
}

impl OptimisticAccount {
    fn mode(&self) -> InterestMode {
        self.mode.unwrap_or(InterestMode::Optimistic)
    }

    fn sends(&self, subject: &[u8]) -> bool {
        !self.is_unwanted && self.mode() != InterestMode::InterestOnly && !self.unwanted.contains(subject)
    }
}

/// The part of a link that only gateways have.
pub(crate) struct GatewayEnd {
    pub(crate) name: Box<str>,
    pub(crate) short: ShortName,
    pub(crate) side: GatewaySide,
    /// The other side tells all of its interest from the first moment.
    pub(crate) tells_all: bool,
    /// The last round trip in microseconds: the nearest cluster is asked first.
    round_trip: AtomicU64,
    /// Inbound: how far accounts are of whose interest the other side is told. Whoever has this
    /// lock may take those of the link's control bytes and of its outbox, and no other.
    pub(super) told: Mutex<BTreeMap<Box<str>, InterestMode>>,
    /// Outbound: how far accounts are of whose interest the other side tells.
    pub(super) optimistic: Mutex<BTreeMap<Box<str>, OptimisticAccount>>,
}

impl GatewayEnd {
    pub(super) fn new(terms: GatewayTerms) -> Self {
        let GatewayTerms { name, side, tells_all } = terms;
        Self {
            short: gateway::short_name(&name),
            name: name.into(),
            side,
            tells_all,
            round_trip: AtomicU64::new(u64::MAX),
            told: Mutex::default(),
            optimistic: Mutex::default(),
        }
    }

    pub(crate) fn is_outbound(&self) -> bool {
        self.side == GatewaySide::Outbound
    }

    pub(crate) fn round_trip(&self) -> u64 {
        self.round_trip.load(Relaxed)
    }

    pub(super) fn set_round_trip(&self, rtt: Duration) {
        self.round_trip.store(u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// How far each account is of whose interest the other side is told.
    pub(super) fn told_accounts(&self) -> Vec<(String, InterestMode)> {
        lock(&self.told).iter().map(|(name, mode)| (name.to_string(), *mode)).collect()
    }
}

impl GatewayEnd {
    /// Whether a message goes there although nobody has said that it is wanted.
    pub(crate) fn sends_anyway(&self, account: &str, subject: &[u8]) -> bool {
        if self.tells_all || !self.is_outbound() {
            return false;
        }
        lock(&self.optimistic).get(account).is_none_or(|account| account.sends(subject))
    }

    /// How far accounts are whose interest the other side tells.
    pub(super) fn heard_accounts(&self) -> Vec<(String, InterestMode)> {
        lock(&self.optimistic).iter().map(|(name, account)| (name.to_string(), account.mode())).collect()
    }

    /// Changes what is known of an account, if it is one of those that are kept.
    pub(super) fn change<R: Default>(
        &self,
        account: &str,
        change: impl FnOnce(&mut OptimisticAccount) -> R,
    ) -> R {
        let mut accounts = lock(&self.optimistic);
        if !accounts.contains_key(account) && accounts.len() >= MOST_ACCOUNTS {
            return R::default();
        }
        change(accounts.entry(account.into()).or_default())
    }

    pub(super) fn mode(&self, account: &str) -> Option<InterestMode> {
        lock(&self.optimistic).get(account).map(OptimisticAccount::mode)
    }
}
