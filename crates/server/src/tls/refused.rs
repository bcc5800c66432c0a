//! Certificates that a verifier has refused, for the log: rustls does not keep what it has not
//! verified.
//!
//! A handshake is computed by one thread without a pause, which notes here what its verifier
//! refuses and takes it when it is done.

use super::peer::fingerprinted;
use rustls::pki_types::CertificateDer;
use std::cell::RefCell;

/// Certificates that are shown at most: a stranger may send a great many.
const MOST: usize = 8;

thread_local! {
    static REFUSED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes what a verifier has said of these certificates, the peer's own first.
pub(super) fn note<T, E>(
    verified: Result<T, E>,
    own: &CertificateDer<'_>,
    chain: &[CertificateDer<'_>],
) -> Result<T, E> {
    if verified.is_err() {
        let shown = std::iter::once(own).chain(chain).take(MOST);
        REFUSED.set(shown.map(|cert| fingerprinted(cert)).collect());
    }
    verified
}

/// The certificates that were refused on this thread since it was last asked, as the reference's
/// log has them behind the error; empty for none.
pub(crate) fn take_refused() -> String {
    let refused = REFUSED.take();
    if refused.is_empty() { String::new() } else { format!(" ({})", refused.join("; ")) }
}
