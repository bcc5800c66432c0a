//! Rows about what stands between a server and the world: TLS and WebSocket.
//!
//! Owns the certificates, the server's configuration, and the runs: one publisher and one
//! subscriber through either, full handshakes one after another, and connections that do nothing.
//! The subscriber reads through the transport, unlike that of `throughput`, which counts bytes of a
//! plain socket: rates are bound by the driver, and what is compared is the server's CPU.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use myelin_loadgen::connection::address::Address;
use myelin_loadgen::connection::tls::{Tls, TlsSettings};
use myelin_loadgen::connection::transport::Transport;
use myelin_loadgen::connection::{Connection, PATIENCE};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::meter::{CpuTime, Meter};
use myelin_loadgen::pubsub::flow::{Delivery, Flow};
use myelin_loadgen::pubsub::publisher::{self, Until};
use myelin_loadgen::pubsub::script::{Script, ScriptSubjects, Sizes};
use rcgen::{CertificateParams, KeyPair};

use crate::rows::footprint;
use crate::rows::subjects::SUBJECTS;
use crate::servers::process::{Server, free_port};
use crate::servers::scratch::Scratch;

/// Group of these rows, for `--rows`.
pub(crate) const GROUP: &str = "edges";

const WINDOW: u64 = 8 * 1024 * 1024;
const BURST: usize = 64 * 1024;
const READ_SIZE: usize = 256 * 1024;
const HANDSHAKES: u32 = 200;
const LARGEST: usize = 1024 * 1024;

/// Transport of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Tls,
    WebSocket,
    /// WebSocket with permessage-deflate in both directions.
    Deflate,
}

/// Workload of a row about TLS or WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsWebSocketLoad {
    /// One publisher, one subscriber.
    Pair { over: Over, size: usize },
    /// Full handshakes (ECDSA P-256, no tickets), one after another.
    Handshakes,
    /// TLS connections that have sent CONNECT and PING.
    Idle,
}

impl fmt::Display for TlsWebSocketLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair { over, size } => {
                let over = match over {
                    Over::Tls => "TLS",
                    Over::WebSocket => "WebSocket",
                    Over::Deflate => "WebSocket with compression",
                };
                write!(f, "1 publisher, 1 subscriber, {SUBJECTS} subjects, {size} B, {over}")
            }
            Self::Handshakes => write!(f, "full TLS handshakes, ECDSA P-256"),
            Self::Idle => write!(f, "memory of idle TLS connections"),
        }
    }
}

/// Result of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsWebSocketOutcome {
    /// Messages, or handshakes.
    pub(crate) count: u64,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: CpuTime,
}

/// How a server is reached.
#[derive(Debug)]
pub(crate) struct Post {
    address: Address,
    authority: std::path::PathBuf,
}

impl TlsWebSocketLoad {
    /// Starts a server that offers it.
    pub(crate) fn server(self, binary: &Path, scratch: &Scratch) -> Result<(Server, Post), BenchError> {
        let port = free_port()?;
        let room = scratch.room(&format!("server-{port}"))?;
        let (authority, tls) = certificates(room.path())?;
        let web = free_port()?;
        let text = match self {
            Self::Pair { over: Over::WebSocket | Over::Deflate, .. } => {
                format!("websocket {{ listen: \"127.0.0.1:{web}\", no_tls: true, compression: true }}\n")
            }
            _ => tls,
        };
        let server = Server::with_configuration(binary, port, room, &text)?;
        let settings = TlsSettings { authorities: Some(authority.clone()), ..TlsSettings::default() };
        let address = match self {
            Self::Pair { over: over @ (Over::WebSocket | Over::Deflate), .. } => {
                Address { web: Some(over == Over::Deflate), ..Address::loopback(web) }
            }
            _ => Address { tls: Arc::new(Tls::new(settings)), ..server.address().clone() },
        };
        Ok((server, Post { address, authority }))
    }
}

impl Post {
    /// Does it once. For `Idle` see [`Post::idle`].
    pub(crate) fn run(
        &self,
        load: TlsWebSocketLoad,
        until: Until,
        meter: Meter,
    ) -> Result<TlsWebSocketOutcome, BenchError> {
        match load {
            TlsWebSocketLoad::Pair { size, .. } => pair(&self.address, size, until, meter),
            TlsWebSocketLoad::Handshakes | TlsWebSocketLoad::Idle => self.handshakes(meter),
        }
    }

    fn handshakes(&self, meter: Meter) -> Result<TlsWebSocketOutcome, BenchError> {
        let (start, before) = (Instant::now(), meter.cpu()?);
        for _ in 0..HANDSHAKES {
            // Settings of its own: nothing is resumed.
            let settings =
                TlsSettings { authorities: Some(self.authority.clone()), ..TlsSettings::default() };
            drop(Connection::open(&Address { tls: Arc::new(Tls::new(settings)), ..self.address.clone() })?);
        }
        let cpu = meter.cpu()?.since(before);
        Ok(TlsWebSocketOutcome { count: u64::from(HANDSHAKES), elapsed: start.elapsed(), cpu })
    }

    /// Resident bytes for each of `count` connections to a server that has had none.
    pub(crate) fn idle(&self, count: usize, meter: Meter) -> Result<f64, BenchError> {
        footprint::of_connections(&self.address, meter, count)
    }
}

/// The authority's file, and the `tls` block of a certificate that it has signed: itself.
pub(super) fn certificates(room: &Path) -> Result<(std::path::PathBuf, String), BenchError> {
    let made = || {
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()])?.self_signed(&key)?;
        Ok::<_, rcgen::Error>((certificate.pem(), key.serialize_pem()))
    };
    let (certificate, key) = made().map_err(|error| BenchError::Tls(error.to_string()))?;
    let (certificate_file, key_file) = (room.join("server.pem"), room.join("key.pem"));
    fs::write(&certificate_file, certificate).map_err(BenchError::io("writing a certificate"))?;
    fs::write(&key_file, key).map_err(BenchError::io("writing a key"))?;
    let text = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, timeout: 5 }}\n",
        certificate_file.display(),
        key_file.display()
    );
    Ok((certificate_file, text))
}

/// Publishes, and reads everything on another thread.
fn pair(
    address: &Address,
    size: usize,
    until: Until,
    meter: Meter,
) -> Result<TlsWebSocketOutcome, BenchError> {
    let subjects = ScriptSubjects::Rotating { base: "bench".into(), first: 0, count: SUBJECTS };
    let script = Script::encode(&subjects, &Sizes::around(size, LARGEST), BURST);
    let mut subscriber = Connection::open(address)?;
    subscriber.send(b"SUB bench.* 1\r\n")?;
    subscriber.barrier()?;
    let (mut transport, unread) = subscriber.into_transport();
    let mut publisher = Connection::open(address)?;
    let flow = Flow::new(Delivery::Each, 1, WINDOW);
    let (start, before) = (Instant::now(), meter.cpu()?);
    let published = thread::scope(|scope| {
        let receiving =
            scope.spawn(|| receive(&mut transport, unread.len() as u64, &flow).inspect_err(|_| flow.fail()));
        let published =
            publisher::publish(&mut publisher, &script, until, &flow).inspect_err(|_| flow.fail());
        if let Ok(published) = &published {
            flow.expect(published.delivered_bytes);
        }
        let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (published, received) {
            (Err(BenchError::Aborted), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(published), Ok(())) => Ok(published),
        }
    })?;
    let elapsed = start.elapsed();
    Ok(TlsWebSocketOutcome { count: published.messages, elapsed, cpu: meter.cpu()?.since(before) })
}

/// Reads until the flow is complete.
fn receive(transport: &mut Transport, mut total: u64, flow: &Flow) -> Result<(), BenchError> {
    const GLANCE: Duration = Duration::from_millis(50);
    transport.socket().set_read_timeout(Some(GLANCE)).map_err(BenchError::io("setting a time-out"))?;
    let mut buffer = vec![0; READ_SIZE];
    let mut last = Instant::now();
    flow.record(0, total);
    while !flow.is_complete() {
        match transport.recv(&mut buffer) {
            Ok(0) => return Err(BenchError::Closed),
            Ok(count) => {
                total += count as u64;
                flow.record(0, total);
                flow.wake_publishers();
                last = Instant::now();
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                if flow.has_failed() {
                    return Err(BenchError::Aborted);
                }
                if last.elapsed() > PATIENCE {
                    let arrived = flow.arrived();
                    return Err(BenchError::Lost(format!("nothing more arrives after {arrived} bytes")));
                }
            }
            Err(error) => return Err(BenchError::io("receiving messages")(error)),
        }
    }
    Ok(())
}
