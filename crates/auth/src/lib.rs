//! Credentials to identity, and what an identity may do.
//!
//! One function, [`authenticate`], turns what a CONNECT says into an [`Identity`]; one type,
//! [`Permissions`], decides per subject. Both are pure: no socket, clock or random source. The
//! clock of [`ReplyGrants`] is passed in.
//!
//! Who comes with a token is let in through [`operator`], which reads it with [`jwt`]; who comes
//! with a certificate may be the user that it names ([`ClientCertificate`]); and a service may be
//! asked about everybody else ([`callout`]).

mod account_name;
mod attempt;
mod authenticate;
pub mod callout;
mod certificate;
mod config;
mod connection_type;
mod credentials;
mod distinguished;
mod identity;
pub mod jwt;
pub mod operator;
mod permissions;
mod proxy;
mod replies;
mod rules;
mod secret;
mod signature;
#[cfg(test)]
mod twin;
mod users;
mod xkey;

pub use account_name::AccountName;
pub use attempt::{Attempt, Reject};
pub use authenticate::{Decision, authenticate};
pub use certificate::{ClientCertificate, NameLookup};
pub use config::{AuthConfig, Method};
pub use connection_type::{ConnectionType, ConnectionTypes};
pub use credentials::Credentials;
pub use distinguished::DistinguishedName;
pub use identity::Identity;
pub use permissions::{Permissions, ResponseRule, SubjectRules};
pub use replies::ReplyGrants;
pub use rules::InvalidRule;
pub use secret::{Secret, StoredSecret};
pub use signature::{KeyPair, is_signed};
pub use users::{NkeyUser, User, Users};
pub use xkey::{SealFault, XKey};
