//! The name of an account.

use std::fmt;
use std::sync::Arc;

/// The name of an account. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountName(Arc<str>);

impl AccountName {
    /// The account of everybody who has no other.
    #[must_use]
    pub fn global() -> Self {
        Self("$G".into())
    }

    /// The default system account.
    #[must_use]
    pub fn system() -> Self {
        Self("$SYS".into())
    }

    /// The account called `name`; any text is a name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
