//! Credentials to identity, and what an identity may do.
//!
//! One function, [`authenticate`], turns what a CONNECT says into an [`Identity`]; one type,
//! [`Permissions`], decides per subject. Both are pure: no socket, clock or random source. The clock of
//! [`ReplyGrants`] is passed in.
//!
//! Absent, behind the same seams: nkeys, JWT, auth callout. A JWT or nkey in the credentials
//! authenticates nobody.

mod authenticate;
mod certificate;
mod config;
mod credentials;
mod distinguished;
mod identity;
mod permissions;
mod replies;
mod rules;
mod secret;
#[cfg(test)]
mod twin;

pub use authenticate::{Reject, authenticate};
pub use certificate::{Attempt, ClientCertificate};
pub use config::{AuthConfig, Method, User, Users};
pub use credentials::{ConnectionType, ConnectionTypes, Credentials};
pub use distinguished::DistinguishedName;
pub use identity::{AccountName, Identity};
pub use permissions::{Permissions, ResponseRule, SubjectRules};
pub use replies::ReplyGrants;
pub use rules::InvalidRule;
pub use secret::{Secret, StoredSecret};
