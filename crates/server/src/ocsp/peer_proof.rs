//! Proofs that other servers show when they are dialled, and what is wrong with them.
//!
//! Compat: where this server's own certificate is shown with a proof, theirs has to be. The words
//! and their order are the reference's.

use super::peer::{PeerKind, is_current, now, verified_chains};
use super::proof::{self, NO_DELEGATE};
use myelin_conf::options::OcspPeerOptions;
use myelin_wire::ocsp::CertStatus;
use rustls::pki_types::CertificateDer;

/// Looks at the proof that a server has shown with these certificates, which TLS has verified by
/// these authorities.
///
/// # Errors
/// When it is none, or says that the certificate is not good.
pub(crate) fn check_proof(
    shown_proof: &[u8],
    shown: &[CertificateDer<'static>],
    trusted: &[CertificateDer<'static>],
    kind: PeerKind,
) -> Result<(), String> {
    let kind = kind.name();
    if shown_proof.is_empty() {
        return Err(format!("{kind} peer missing OCSP Staple"));
    }
    let chains = verified_chains(shown, trusted);
    let chain = chains.first().ok_or_else(|| format!("{kind} peer missing TLS verified chains"))?;
    let [own, issuer, ..] = &chain[..] else {
        return Err(format!("failed to get issuer certificate for {kind} peer"));
    };
    let proof = proof::read(shown_proof, own, issuer, now()).map_err(|error| match &error[..] {
        NO_DELEGATE => "OCSP staple's signer missing authorization by CA to act as OCSP signer".to_owned(),
        _ => format!("failed to parse OCSP response from {kind} peer: {error}"),
    })?;
    if !is_current(&OcspPeerOptions::default(), &proof) {
        return Err(format!("OCSP staple from {kind} peer not current"));
    }
    if proof.status != CertStatus::Good {
        return Err(format!("bad status for OCSP Staple from {kind} peer: {}", proof.status));
    }
    Ok(())
}
