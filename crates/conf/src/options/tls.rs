//! `tls{}` blocks.

use super::field::{Field, Read, Report};

/// Where a `tls` block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsPlace {
    /// `resolver_tls`.
    Resolver,
}

/// What a `tls` block says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {}

impl TlsOptions {
    /// Reads a block.
    pub(super) fn read(field: &Field<'_>, _place: TlsPlace, _report: &mut Report) -> Read<Self> {
        field.map().map(|_| Self {})
    }
}
