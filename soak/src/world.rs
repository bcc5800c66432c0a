//! State that loads share: where the server is, the gate that they pass, and how they talk to it.

use crate::Error;
use crate::plan::Plan;
use crate::server::{Reloader, Server};
use crate::settings::Ports;
use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use myelin_stdx::rng::Rng;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::timeout;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// State that every load has.
#[derive(Debug)]
pub(crate) struct World {
    ports: Ports,
    folder: PathBuf,
    pid: u32,
    reloader: Reloader,
    is_myelin: bool,
    plan: Plan,
    /// Held for reading by each load in its turn, for writing while all rest.
    gate: RwLock<()>,
    is_over: AtomicBool,
    next_number: AtomicU64,
}

impl World {
    pub(crate) fn new(plan: &Plan, server: &Server) -> Self {
        Self {
            ports: server.ports(),
            folder: server.folder().to_owned(),
            pid: server.pid(),
            reloader: Reloader::of(server),
            is_myelin: server.is_myelin(),
            plan: plan.clone(),
            gate: RwLock::new(()),
            is_over: AtomicBool::new(false),
            next_number: AtomicU64::new(0),
        }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// File of the authority that signed the server's certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    pub(crate) fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    /// Whether it is ours, and not one to compare with.
    pub(crate) fn is_myelin(&self) -> bool {
        self.is_myelin
    }

    /// A number that nobody else gets, for names.
    pub(crate) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Choices of one load, which follow from the seed and its name.
    pub(crate) fn rng(&self, name: &str) -> Rng {
        let mixed = name
            .bytes()
            .fold(self.plan.seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Rng::seeded(mixed)
    }

    /// Waits until loads may act; holding it keeps the rest away.
    pub(crate) async fn pass(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// Waits until every load has ended its turn; holding it keeps them at rest.
    pub(crate) async fn rest(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// A client of the account with JetStream.
    pub(crate) async fn client(&self, name: &str) -> Result<Client, Error> {
        self.client_as("a", name).await
    }

    /// A client of one of the configuration's users.
    pub(crate) async fn client_as(&self, user: &str, name: &str) -> Result<Client, Error> {
        let options = options(user).name(name);
        Ok(options.connect(format!("nats://{}", self.ports.clients)).await?)
    }

    /// A monitoring page.
    pub(crate) async fn page(&self, path: &str) -> Result<Value, Error> {
        Ok(serde_json::from_slice(&self.page_bytes(path).await?)?)
    }

    /// The body of a monitoring page that need not be JSON.
    pub(crate) async fn page_bytes(&self, path: &str) -> Result<Vec<u8>, Error> {
        let answer = timeout(PATIENCE, get(self.ports, path)).await??;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let end = end.ok_or_else(|| format!("{path}: no answer over HTTP"))?;
        Ok(answer[end + 4..].to_vec())
    }
}

/// Options of every official client here: one whose server has gone stays away, since that is the
/// end of the run.
pub(crate) fn options(user: &str) -> ConnectOptions {
    ConnectOptions::with_user_and_password(user.into(), "p".into())
        .request_timeout(Some(PATIENCE))
        .connection_timeout(PATIENCE)
}

async fn get(ports: Ports, path: &str) -> Result<Vec<u8>, std::io::Error> {
    let mut stream = TcpStream::connect(ports.monitor).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Asks JetStream's API; what it refuses is an error.
pub(crate) async fn api(client: &Client, call: &str, body: &str) -> Result<Value, Error> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let answer = client.request(format!("$JS.API.{call}"), body).await.map_err(|e| format!("{call}: {e}"))?;
    let answer: Value = serde_json::from_slice(&answer.payload)?;
    match answer.get("error") {
        None => Ok(answer),
        Some(error) => Err(format!("{call}: {error}").into()),
    }
}

/// Creates a stream with this name, which takes everything under `NAME.>`; `more` is the rest of
/// its configuration.
pub(crate) async fn create_stream(client: &Client, name: &str, more: &str) -> Result<(), Error> {
    let body = format!("{{\"name\":\"{name}\",\"subjects\":[\"{name}.>\"],{more}}}");
    api(client, &format!("STREAM.CREATE.{name}"), &body).await.map(drop)
}

/// Creates a consumer from the members of its configuration; an answer names it.
pub(crate) async fn create_consumer(
    client: &Client,
    stream: &str,
    name: &str,
    config: &str,
) -> Result<(), Error> {
    let body = format!("{{\"stream_name\":\"{stream}\",\"config\":{{{config}}}}}");
    api(client, &format!("CONSUMER.CREATE.{stream}.{name}"), &body).await.map(drop)
}
