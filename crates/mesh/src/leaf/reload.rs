//! Changes of a link when the server has another configuration, or an account another token.
//!
//! Compat: of users that are configured a link keeps its place, whatever becomes of them; a token
//! that is withdrawn, or an account that is gone, ends it.

use super::session::{LeafPhase, LeafSession};
use myelin_auth::operator::Withdrawn;
use myelin_broker::Level;
use myelin_wire::error::CloseReason;
use std::sync::Arc;

impl LeafSession {
    /// Ends a link whose account is gone.
    pub(super) fn check_account(&self) -> Result<(), CloseReason> {
        let Some(account) = self.link.account().filter(|_| matches!(self.state, LeafPhase::Ready)) else {
            return Ok(());
        };
        let is_there = self.broker().account(account.name()).is_some_and(|now| Arc::ptr_eq(&now, account));
        if is_there { Ok(()) } else { Err(CloseReason::ClientClosed) }
    }

    /// Ends the link of a leaf node whose token does not hold any more.
    pub(super) fn check_claims(&mut self) -> Result<(), CloseReason> {
        let Some(claims) = self.claims.clone() else { return Ok(()) };
        let Some(current) = self.broker().trusted().and_then(|trusted| trusted.get(claims.account().key()))
        else {
            // Compat: an account that is taken away is one that has expired.
            self.say(b"-ERR 'Account Authentication Expired'\r\n");
            return Err(CloseReason::AuthenticationExpired);
        };
        if Arc::ptr_eq(&current, claims.account()) {
            return Ok(());
        }
        match claims.under(&current) {
            Ok(claims) => {
                self.link.limit_leaf(Some(&claims), None);
                self.claims = Some(Arc::new(claims));
                Ok(())
            }
            Err(Withdrawn::Bearer) => {
                self.say(b"-ERR 'Authorization Violation'\r\n");
                Err(self.link.leaf_refused(None, ""))
            }
            Err(Withdrawn::Revoked) => {
                self.fail_quietly("User Authentication Revoked");
                Err(CloseReason::Revocation)
            }
            // Compat: without a word, for who signed is nobody now.
            Err(Withdrawn::Signer) => Err(CloseReason::AuthenticationFailure),
        }
    }

    fn fail_quietly(&self, text: &str) {
        self.say(format!("-ERR '{text}'\r\n").as_bytes());
        self.log(Level::Debug, format_args!("{text}"));
    }
}
