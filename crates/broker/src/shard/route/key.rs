//! Names and keys under which routes are in the cache.

/// Key of a route beside its name: publishers with equal ones share routes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RouteKey {
    pub(super) account: u32,
    /// How the message has come, whether the name is a prefix, mappings apply, the message is
    /// imported.
    pub(super) kind: u32,
    pub(super) permissions: usize,
}

impl RouteKey {
    /// Bit of `kind`.
    pub(super) const PREFIX: u32 = 1 << 2;

    /// Whether the name is a prefix.
    pub(super) fn is_prefix(&self) -> bool {
        self.kind & Self::PREFIX != 0
    }

    /// Spreads equal subjects of different accounts and users; what is not told apart by it is by
    /// the key.
    #[inline(always)]
    pub(super) fn salt(&self) -> u64 {
        (u64::from(self.account) ^ self.permissions as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Under which text a route is in the cache.
#[derive(Clone, Copy)]
pub(super) struct RouteName<'a> {
    pub(super) text: &'a [u8],
    /// The text is not a subject but the [prefix](crate::reply_prefix::shared_prefix) of many: the
    /// route is for all of them.
    pub(super) is_prefix: bool,
}
