//! From a fresh connection to a WebSocket: TLS if there is to be any, the request, the answer.

use super::channel::Channel;
use super::{Security, Site, Upgraded};
use crate::budget::StrangerBudget;
use crate::shard::{self, HANDSHAKE};
use crate::tls::details;
use jiff::Timestamp;
use myelin_wire::websocket::upgrade::{
    LONGEST_REQUEST, Upgrade, UpgradeRefusal, UpgradeTarget, end_of_head, negotiate,
};
use rustls::ServerConnection;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Why it does not become one.
pub(super) enum UpgradeFailure {
    /// The request is not granted, and the client knows.
    Refused(UpgradeRefusal),
    /// No TLS, in words for the log.
    Tls(String),
    /// The client has left, or said nothing.
    Gone,
}

/// For who speaks HTTP where TLS is spoken.
const NOT_ENCRYPTED: &str = "client sent an HTTP request to an HTTPS server";

/// Upgrades a connection, in the time that the site gives for it.
pub(super) async fn shake(
    stream: TcpStream,
    peer: SocketAddr,
    site: &Site,
) -> Result<Upgraded, UpgradeFailure> {
    let deadline = Instant::now() + site.timeout;
    let _ = stream.set_nodelay(true);
    let budget = StrangerBudget::new(site.max_control_line);
    let security = site.security();
    let trusted = security.as_ref().map(|security| Arc::clone(&security.terms.trusted)).unwrap_or_default();
    let mut channel = match security {
        None => Channel { stream, security: None, budget },
        Some(security) => {
            match timeout_at(deadline, encrypt(stream, peer, site, (&security, budget))).await {
                Ok(channel) => channel?,
                Err(_) => return Err(UpgradeFailure::Tls("i/o timeout".to_owned())),
            }
        }
    };
    let mut request = Vec::new();
    let head = match timeout_at(deadline, read_head(&mut channel, &mut request)).await {
        Ok(head) => head,
        Err(_) if request.is_empty() => return Err(UpgradeFailure::Gone),
        Err(_) => Err(UpgradeFailure::Refused(UpgradeRefusal::unfinished())),
    };
    let outcome = head.and_then(|end| {
        let upgrade = negotiate(&request[..end], &site.rules).map_err(UpgradeFailure::Refused)?;
        if request.len() > end {
            Err(UpgradeFailure::Refused(UpgradeRefusal::too_eager()))
        } else {
            Ok(upgrade)
        }
    });
    // An answer is short: who does not take it at once has no room for a greeting either.
    let latest = deadline.max(Instant::now() + site.timeout);
    let written = timeout_at(latest, channel.write(&answer(&outcome))).await;
    let upgrade = match outcome {
        Ok(upgrade) if matches!(written, Ok(Ok(()))) => upgrade,
        Ok(_) => return Err(UpgradeFailure::Gone),
        Err(failure) => {
            channel.close().await;
            return Err(failure);
        }
    };
    let Channel { stream, security, budget } = channel;
    let stream = stream.into_std().map_err(|_| UpgradeFailure::Gone)?;
    Ok(Upgraded {
        stream: Some(stream),
        peer,
        security,
        trusted,
        budget,
        listener_info: Arc::clone(&site.listener_info),
        mqtt: site.mqtt.clone().filter(|_| upgrade.target == UpgradeTarget::Mqtt),
        upgrade,
    })
}

/// Answer to the request.
fn answer(outcome: &Result<Upgrade, UpgradeFailure>) -> Vec<u8> {
    match outcome {
        Ok(upgrade) => upgrade.answer.clone(),
        Err(UpgradeFailure::Refused(refusal)) => refusal.answer(&date()),
        Err(_) => Vec::new(),
    }
}

/// Does the TLS handshake.
async fn encrypt(
    stream: TcpStream,
    peer: SocketAddr,
    site: &Site,
    (security, mut budget): (&Security, StrangerBudget),
) -> Result<Channel, UpgradeFailure> {
    let mut first = [0];
    if stream.peek(&mut first).await.is_ok_and(|read| read == 1 && first != [HANDSHAKE])
        && speaks_http(&stream).await
    {
        let mut channel = Channel { stream, security: None, budget };
        let text = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
        let _ = channel.write(text.as_bytes()).await;
        channel.close().await;
        return Err(UpgradeFailure::Tls(NOT_ENCRYPTED.to_owned()));
    }
    let terms = (security.terms.clone(), site.permits.clone());
    match shard::handshake(&stream, peer, terms, Vec::new(), &mut budget).await {
        Ok(connection) if is_accepted(&connection, security) => {
            Ok(Channel { stream, security: Some(connection), budget })
        }
        Ok(_) => Err(UpgradeFailure::Tls("certificate not pinned".to_owned())),
        Err(error) => Err(UpgradeFailure::Tls(error)),
    }
}

/// Compat: the reference checks pins of WebSocket clients only when it reloads its configuration.
fn is_accepted(connection: &ServerConnection, security: &Security) -> bool {
    let shown = details(connection, false, None).peer_certs;
    security.pinned.is_empty()
        || shown.first().is_some_and(|cert| security.pinned.contains(&cert.spki_sha256))
}

async fn speaks_http(stream: &TcpStream) -> bool {
    let mut start = [0; 5];
    let n = stream.peek(&mut start).await.unwrap_or(0);
    [&b"GET /"[..], b"HEAD ", b"POST ", b"PUT /", b"OPTIO"].contains(&&start[..n])
}

/// Reads until the head of the request is whole; says where it ends.
async fn read_head(channel: &mut Channel, request: &mut Vec<u8>) -> Result<usize, UpgradeFailure> {
    loop {
        let seen = request.len();
        if channel.read(request).await.map_err(|_| UpgradeFailure::Gone)? == 0 {
            return Err(UpgradeFailure::Gone);
        }
        if let Some(end) = end_of_head(request, seen) {
            return Ok(end);
        }
        if request.len() > LONGEST_REQUEST {
            return Err(UpgradeFailure::Refused(UpgradeRefusal::too_long()));
        }
    }
}

/// Now, as HTTP writes it.
pub(crate) fn date() -> String {
    Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
