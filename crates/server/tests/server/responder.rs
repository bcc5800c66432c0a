//! Tests only: an authority with certificates that may be revoked, and its responder.
//!
//! Both the tests within the server and those of the program use this file.
#![allow(dead_code, reason = "each of the two uses its part")]

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use jiff::Timestamp;
use myelin_stdx::base64;
use myelin_wire::der::{tag, write};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SerialNumber, SigningKey,
};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Answer that the responder gives about a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    Good,
    Revoked,
    Unknown,
    /// Nothing of use.
    Nonsense,
    /// Good, but no longer.
    Outdated,
    /// Good, signed by somebody else.
    Forged,
}

/// An authority.
pub(crate) struct Authority {
    name: String,
    pub(crate) cert: Certificate,
    issuer: Issuer<'static, KeyPair>,
    /// Key of the authority, which `issuer` holds as well.
    key: KeyPair,
}

/// A certificate with its key.
pub(crate) struct Signed {
    pub(crate) cert: Certificate,
    pub(crate) key: KeyPair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        let same = KeyPair::from_pem(&key.serialize_pem()).expect("the same key");
        Self { name: name.to_owned(), cert, issuer: Issuer::new(params, key), key: same }
    }

    /// A certificate for another authority. Whoever sees it can ask about this serial number there.
    pub(crate) fn vouch(&self, other: &Self, responder: Option<(u64, &str)>) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, other.name.as_str());
        params.serial_number = responder.map(|(serial, _)| SerialNumber::from(serial));
        params.custom_extensions.extend(responder.map(|(_, url)| access(url)));
        params.signed_by(&other.key, &self.issuer).expect("a certificate").der().clone()
    }

    /// Signs a certificate for this host. Whoever sees it can ask at `responder`; `must` says that
    /// it is not to be shown without a proof.
    pub(crate) fn sign(&self, host: &str, serial: u64, responder: Option<&str>, must: bool) -> Signed {
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        params.serial_number = Some(SerialNumber::from(serial));
        params.distinguished_name.push(DnType::CommonName, host);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.custom_extensions.extend(responder.map(access));
        if must {
            let feature = write(tag::SEQUENCE, &[&write(tag::INTEGER, &[&[5]])]);
            params
                .custom_extensions
                .push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], feature));
        }
        self.finish(params)
    }

    /// A certificate whose owner may answer for the authority, if `may`.
    pub(crate) fn delegate(&self, may: bool) -> Signed {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "delegate");
        if may {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
        }
        self.finish(params)
    }

    fn finish(&self, params: CertificateParams) -> Signed {
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        Signed { cert, key }
    }

    /// Response of the authority about its certificate with this serial number at `now`, in seconds
    /// since 1970.
    pub(crate) fn answer(&self, serial: &[u8], says: Says, now: i64) -> Vec<u8> {
        let forger = KeyPair::generate().expect("a key");
        let signer = if says == Says::Forged { &forger } else { &self.key };
        self.answer_by(signer, &[], serial, says, now)
    }

    /// Makes a response that `signer` signs and that shows these certificates.
    pub(crate) fn answer_by(
        &self,
        signer: &KeyPair,
        shown: &[&[u8]],
        serial: &[u8],
        says: Says,
        now: i64,
    ) -> Vec<u8> {
        if says == Says::Nonsense {
            return b"nonsense".to_vec();
        }
        let from = if says == Says::Outdated { now - 7200 } else { now - 60 };
        let status = match says {
            Says::Revoked => write(tag::wrapped(1), &[&time(from)]),
            Says::Unknown => write(tag::plain(2), &[]),
            _ => write(tag::plain(0), &[]),
        };
        let (_, parsed) = X509Certificate::from_der(self.cert.der()).expect("a certificate");
        let key = parsed.public_key().subject_public_key.data.as_ref();
        let hash =
            |bytes: &[u8]| write(tag::OCTET_STRING, &[digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref()]);
        let (name_hash, key_hash) = (hash(parsed.subject().as_raw()), hash(key));
        let sha1 = sequence(&[&write(tag::OID, &[&[0x2b, 0x0e, 3, 2, 0x1a]]), &write(tag::NULL, &[])]);
        let id = sequence(&[&sha1, &name_hash, &key_hash, &write(tag::INTEGER, &[serial])]);
        let until = write(tag::wrapped(0), &[&time(from + 3600)]);
        let single = sequence(&[&id, &status, &time(from), &until]);
        let signed = sequence(&[&write(tag::wrapped(2), &[&key_hash]), &time(from), &sequence(&[&single])]);
        let signature = signer.sign(&signed).expect("a signature");
        let ecdsa = sequence(&[&write(tag::OID, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]])]);
        let shown = if shown.is_empty() { Vec::new() } else { write(tag::wrapped(0), &[&sequence(shown)]) };
        let basic = sequence(&[&signed, &ecdsa, &write(tag::BIT_STRING, &[&[0], &signature]), &shown]);
        let kind = write(tag::OID, &[&[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1]]);
        let typed = sequence(&[&kind, &write(tag::OCTET_STRING, &[&basic])]);
        sequence(&[&write(tag::ENUMERATED, &[&[0]]), &write(tag::wrapped(0), &[&typed])])
    }
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    write(tag::SEQUENCE, parts)
}

fn time(seconds: i64) -> Vec<u8> {
    let time = Timestamp::from_second(seconds).expect("a time").strftime("%Y%m%d%H%M%SZ").to_string();
    write(tag::GENERALIZED_TIME, &[time.as_bytes()])
}

/// Where to ask.
fn access(url: &str) -> CustomExtension {
    let ocsp = write(tag::OID, &[&[0x2b, 6, 1, 5, 5, 7, 0x30, 1]]);
    let description = sequence(&[&ocsp, &write(tag::plain(6), &[url.as_bytes()])]);
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], sequence(&[&description]))
}

/// A responder on a port of its own, for as long as the test runs.
pub(crate) struct Responder {
    pub(crate) url: String,
    pub(crate) authority: Arc<Authority>,
    says: Arc<Mutex<HashMap<u64, Says>>>,
    asked: Arc<AtomicUsize>,
}

impl Responder {
    /// Says "good" of everything until it is told otherwise.
    pub(crate) fn start(name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let authority = Arc::new(Authority::new(name));
        let (says, asked) = (Arc::<Mutex<HashMap<_, _>>>::default(), Arc::<AtomicUsize>::default());
        let (by, told, count) = (Arc::clone(&authority), Arc::clone(&says), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, SeqCst);
                // Whoever asks may have given up already.
                let _ = serve(stream, &by, &told);
            }
        });
        Self { url, authority, says, asked }
    }

    pub(crate) fn say(&self, serial: u64, says: Says) {
        self.says.lock().expect("nobody panics").insert(serial, says);
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }
}

fn serve(mut stream: TcpStream, by: &Authority, told: &Mutex<HashMap<u64, Says>>) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    let question = loop {
        let n = stream.read(&mut chunk)?;
        if n == 0 {
            return Ok(());
        }
        request.extend_from_slice(&chunk[..n]);
        if let Some(question) = question(&request) {
            break question;
        }
    };
    // The serial number is the last thing in a question, and here it is never long.
    let length = (1..9).find(|n| question[question.len() - n - 2..][..2] == [tag::INTEGER, *n as u8]);
    let serial = &question[question.len() - length.expect("a serial number")..];
    let number = serial.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let says = told.lock().expect("nobody panics").get(&number).copied().unwrap_or(Says::Good);
    let answer = by.answer(serial, says, Timestamp::now().as_second());
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\nConnection: close\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n", answer.len())?;
    stream.write_all(&answer)
}

/// The question in a request that is whole.
fn question(request: &[u8]) -> Option<Vec<u8>> {
    let end = request.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&request[..end]).into_owned();
    let path = head.split(' ').nth(1)?;
    if head.starts_with("GET ") {
        let text = path.rsplit('/').next()?.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
        return base64::decode(&text);
    }
    let line =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let body = &request[end + 4..];
    (body.len() >= line?.parse().ok()?).then(|| body.to_vec())
}
