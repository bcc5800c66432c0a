//! Whether an authority's answer can be believed, and what it says.
//!
//! Believed is what was signed by the certificate's own issuer, or by somebody whom that issuer has
//! allowed to answer for it, and is about this very certificate. Nothing else: not who sent it, nor
//! what it says of itself.

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use myelin_wire::ocsp::{self, CertStatus, Single};

use super::certificate::{has_signed, is_issuer, is_valid_at, issuer_hashes, may_answer, serial};

/// Statement of an authority about a certificate. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) status: CertStatus,
    pub(super) this_update: i64,
    pub(super) next_update: Option<i64>,
    /// The whole answer.
    pub(super) raw: Vec<u8>,
}

/// Reads an answer about `cert`, which `issuer` has signed, at `now`.
///
/// # Errors
/// When it is none, or cannot be believed.
pub(super) fn read(raw: &[u8], cert: &[u8], issuer: &[u8], now: i64) -> Result<Proof, String> {
    let answer = ocsp::read(raw).map_err(|error| error.to_string())?;
    let serial = serial(cert).ok_or("certificate cannot be read")?;
    let mut about = answer.singles.iter().filter(|single| single.serial == serial);
    let single = about.next().ok_or("no response matching the supplied certificate")?;
    if single.has_critical_extension {
        return Err("unsupported critical extension".to_owned());
    }
    // Compat: the reference looks at the serial number only, and issuers have the same ones.
    is_about(single, issuer)?;
    let signer = match answer.certificates.first() {
        Some(delegate) if *delegate != issuer => {
            check_delegate(delegate, issuer, now)?;
            *delegate
        }
        _ => issuer,
    };
    if !has_signed(signer, answer.signed, answer.algorithm, answer.signature) {
        return Err("bad OCSP signature".to_owned());
    }
    let Single { status, this_update, next_update, .. } = *single;
    Ok(Proof { status, this_update, next_update, raw: raw.to_vec() })
}

fn is_about(single: &Single<'_>, issuer: &[u8]) -> Result<(), String> {
    let algorithm = hash(single.hash).ok_or("unsupported issuer hash algorithm")?;
    let hashes = issuer_hashes(issuer, algorithm).ok_or("issuer cannot be read")?;
    if hashes[0] == single.name_hash && hashes[1] == single.key_hash {
        return Ok(());
    }
    Err("no response matching the supplied certificate".to_owned())
}

fn hash(oid: &[u8]) -> Option<&'static Algorithm> {
    match oid {
        ocsp::SHA1 => Some(&SHA1_FOR_LEGACY_USE_ONLY),
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, rest @ ..] => match rest {
            [1] => Some(&SHA256),
            [2] => Some(&SHA384),
            [3] => Some(&SHA512),
            _ => None,
        },
        _ => None,
    }
}

fn check_delegate(delegate: &[u8], issuer: &[u8], now: i64) -> Result<(), String> {
    if !is_issuer(issuer, delegate) {
        return Err("bad signature on embedded certificate".to_owned());
    }
    if !may_answer(delegate) || !is_valid_at(delegate, now) {
        return Err(NO_DELEGATE.to_owned());
    }
    Ok(())
}

/// Why somebody may not answer for an issuer.
pub(super) const NO_DELEGATE: &str = "OCSP response signer missing authorization by CA to act as OCSP signer";
