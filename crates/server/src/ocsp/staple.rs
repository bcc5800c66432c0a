//! Proofs of our own certificate (`ocsp`): fetched from its authority, kept in a file, shown in
//! handshakes, and fetched again before they end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use myelin_broker::Span;
use myelin_conf::options::{OcspMode, Options, TlsIdentity, TlsOptions};
use myelin_wire::ocsp::CertStatus;
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::cache::write_anew;
use super::certificate::{hex_fingerprint, is_authority, is_issuer, must_staple, question, responders};
use super::fetch;
use super::peer::now;
use super::proof::{self, Proof};
use crate::logging::Logger;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{Staple, authorities, subject};

/// Time between two questions when the answer does not say it, and when it has ended already.
const USUALLY: Duration = Duration::from_secs(24 * 3600);
const AT_LEAST: Duration = Duration::from_secs(120);

/// Time for a question.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where proofs are kept, under the directory of stores.
const DIRECTORY: &str = "ocsp";

/// A certificate that is shown with a proof.
pub(crate) struct Stapling {
    /// Purpose: `Client`.
    kind: &'static str,
    cert: CertificateDer<'static>,
    issuer: CertificateDer<'static>,
    /// The file it is from, for the log.
    file: String,
    responders: Vec<String>,
    directory: Option<PathBuf>,
    /// The server ends when the certificate was revoked.
    ends_server: bool,
    staple: Arc<Staple>,
    log: Arc<Logger>,
}

impl Stapling {
    /// Makes the staple for a listener's first certificate, if anything is to be stapled.
    ///
    /// # Errors
    /// When it cannot be: the issuer is not to be found, or there is nowhere to keep proofs.
    pub(crate) fn of(
        options: &Options,
        (tls, kind): (&TlsOptions, &'static str),
        staple: &Arc<Staple>,
        log: &Arc<Logger>,
    ) -> Result<Option<Self>, String> {
        let Some(cert) = staple.chain().first().cloned() else { return Ok(None) };
        let file = match &tls.identity {
            TlsIdentity::One(files) => files.cert_file.display().to_string(),
            // Compat: one of several has no name there.
            _ => String::new(),
        };
        let is_asked = must_staple(&cert);
        let stapling = options.ocsp.stapling.as_ref();
        let (is_wanted, ends_server) = match stapling.map(|stapling| stapling.mode) {
            Some(OcspMode::Never) => {
                if is_asked {
                    log.warn(format_args!("Certificate at '{file}' has MustStaple but OCSP is disabled"));
                }
                (false, false)
            }
            Some(OcspMode::Always) => (true, true),
            Some(OcspMode::Must) => (is_asked, is_asked),
            Some(OcspMode::Auto) | None => (is_asked, false),
        };
        if !is_wanted {
            return Ok(None);
        }
        let directory = options.jetstream.store_dir.as_ref().map(|directory| directory.join(DIRECTORY));
        directory.iter().try_for_each(|directory| make(directory))?;
        let issuer = issuer(tls, staple.chain())?;
        let url = stapling.and_then(|stapling| stapling.url.clone());
        let responders = url.map_or_else(|| responders(&cert), |url| vec![url]);
        let (staple, log) = (Arc::clone(staple), Arc::clone(log));
        Ok(Some(Self { kind, cert, issuer, file, responders, directory, ends_server, staple, log }))
    }

    /// Finds the first proof, in its file or by asking.
    ///
    /// # Errors
    /// When there is none, or it says that the certificate was revoked and that ends servers.
    pub(crate) async fn begin(&self) -> Result<(), String> {
        let proof = match self.kept().or_else(|| self.shown()) {
            Some(proof) => proof,
            None => self.ask().await.map_err(|error| {
                format!("bad OCSP status update for certificate at '{}': {error}", self.file)
            })?,
        };
        let status = proof.status;
        if status != CertStatus::Good && self.ends_server {
            let file = &self.file;
            return Err(format!("found existing OCSP status for certificate at '{file}': {status}"));
        }
        self.staple.set(proof.raw.clone(), proof.next_update);
        Ok(())
    }

    /// Goes on fetching proofs; `end` is told when the server has to end.
    pub(crate) fn watch(self, end: Arc<Notify>) -> Monitor {
        self.log.info(format_args!("OCSP Stapling enabled for {} connections", self.kind));
        Monitor(supervise::spawn_guarding(async move {
            supervise::persist(SupervisedPart::OcspStaple, || self.run(&end)).await;
        }))
    }

    async fn run(&self, end: &Notify) {
        let mut wait = Duration::ZERO;
        if let Some(proof) = self.kept().or_else(|| self.shown()) {
            if proof.status == CertStatus::Good {
                wait = next_run(&proof);
                self.announce("Found", "certificate at", &proof, wait);
            } else if self.ends_server {
                self.report("Found", "certificate at", proof.status);
                return end.notify_one();
            }
        }
        loop {
            tokio::time::sleep_until(Instant::now() + wait).await;
            match self.ask().await {
                Ok(proof) => {
                    self.staple.set(proof.raw.clone(), proof.next_update);
                    if proof.status != CertStatus::Good {
                        self.report("Received", "certificate", proof.status);
                        if self.ends_server {
                            end.notify_one();
                        }
                        return;
                    }
                    wait = next_run(&proof);
                    self.announce("Received", "certificate", &proof, wait);
                }
                Err(error) => {
                    wait = self.shown().map_or(AT_LEAST, |proof| next_run(&proof));
                    let what = format_args!("Bad OCSP status update for certificate '{}'", self.file);
                    self.log.error(format_args!("{what}: {error}, trying again in {}", Span(wait)));
                }
            }
        }
    }

    fn announce(&self, verb: &str, what: &str, proof: &Proof, wait: Duration) {
        let (kind, file, wait) = (self.kind, &self.file, Span(wait));
        let until = proof.next_update.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let until = until.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |time| time.to_string());
        self.log.info(format_args!(
            "{verb} OCSP status for {kind} {what} '{file}': good, next update {until}, checking again in {wait}"
        ));
    }

    fn report(&self, verb: &str, what: &str, status: CertStatus) {
        let (kind, file) = (self.kind, &self.file);
        self.log.error(format_args!("{verb} OCSP status for {kind} {what} '{file}': {status}"));
    }

    /// The proof that is shown now.
    fn shown(&self) -> Option<Proof> {
        self.read(&self.staple.raw()?).ok()
    }

    /// The proof in the file, if it still holds.
    fn kept(&self) -> Option<Proof> {
        let path = self.directory.as_ref()?.join(hex_fingerprint(&self.cert));
        self.read(&fs::read(path).ok()?).ok()
    }

    fn read(&self, raw: &[u8]) -> Result<Proof, String> {
        let now = now();
        let proof = proof::read(raw, &self.cert, &self.issuer, now)?;
        let time =
            |seconds| Timestamp::from_second(seconds).map_or_else(|_| String::new(), |t| t.to_string());
        match proof.next_update {
            Some(end) if end < now => Err(format!("invalid ocsp NextUpdate, is past time: {}", time(end))),
            _ if proof.this_update > now => {
                Err(format!("invalid ocsp ThisUpdate, is future time: {}", time(proof.this_update)))
            }
            _ => Ok(proof),
        }
    }

    /// Asks the authority, and keeps what it says.
    async fn ask(&self) -> Result<Proof, String> {
        let question = question(&self.cert, &self.issuer).ok_or("certificate cannot be read")?;
        let mut last = None;
        for url in &self.responders {
            match self.ask_at(url, &question).await {
                Ok(proof) => {
                    self.keep(&proof)?;
                    return Ok(proof);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(
            || "no available ocsp servers".to_owned(),
            |error| format!("exhausted ocsp servers: {error}"),
        ))
    }

    async fn ask_at(&self, url: &str, question: &[u8]) -> Result<Proof, String> {
        let url = url.trim_end_matches('/');
        let raw = match self.body("POST", url, fetch::post(url, question, PATIENCE).await) {
            Ok(raw) => raw,
            Err(post) => {
                let got = fetch::get(url, question, PATIENCE).await;
                self.body("GET", url, got).map_err(|get| format!("{post}\n{get}"))?
            }
        };
        self.read(&raw).map_err(|error| format!("failed to get remote status from {url}: {error}"))
    }

    fn body(&self, method: &str, url: &str, reply: Result<fetch::Reply, String>) -> Result<Vec<u8>, String> {
        let reply = reply?;
        let status = reply.status.as_u16();
        self.log.debug(format_args!("Received OCSP response (method={method}, status={status}, url={url})"));
        if status > 299 {
            return Err(format!("non-ok http status on {method} request: {status}"));
        }
        Ok(reply.body)
    }

    fn keep(&self, proof: &Proof) -> Result<(), String> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let written = write_anew(directory, &hex_fingerprint(&self.cert), &proof.raw);
        written.map_err(|error| format!("failed to write ocsp status: {}", crate::os_error::words(&error)))
    }
}

/// Half the way to the end of a proof.
fn next_run(proof: &Proof) -> Duration {
    match proof.next_update {
        None => USUALLY,
        Some(end) => match u64::try_from(end - now()) {
            Ok(seconds) => Duration::from_secs(seconds) / 2,
            Err(_) => AT_LEAST,
        },
    }
}

fn make(directory: &Path) -> Result<(), String> {
    if directory.is_dir() {
        return Ok(());
    }
    if directory.exists() {
        return Err("OCSP storage directory is not a directory".to_owned());
    }
    fs::create_dir_all(directory).map_err(|error| {
        let error = crate::os_error::words(&error);
        format!("could not create OCSP storage directory - mkdir {}: {error}", directory.display())
    })
}

/// Issuer of the first certificate of the chain: the second, or one of those in `ca_file`.
fn issuer(tls: &TlsOptions, chain: &[CertificateDer<'static>]) -> Result<CertificateDer<'static>, String> {
    let leaf = chain.first().ok_or("no issuers found")?;
    let found = match chain.get(1) {
        Some(second) => Some(second.clone()).filter(|second| is_issuer(second, leaf)),
        None => {
            let trusted = authorities(tls).map_err(|error| format!("failed to parse ca_file: {error}"))?;
            trusted.into_iter().find(|cert| is_issuer(cert, leaf))
        }
    };
    let issuer = found.ok_or("no issuers found")?;
    if !is_authority(&issuer) {
        return Err(format!("{} invalid ca basic constraints: is not ca", subject(&issuer)));
    }
    Ok(issuer)
}

/// Fetches proofs for as long as it lives.
#[derive(Debug)]
pub(crate) struct Monitor(JoinHandle<()>);

impl Drop for Monitor {
    fn drop(&mut self) {
        self.0.abort();
    }
}
