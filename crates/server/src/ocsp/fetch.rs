//! Asks an authority, by HTTP. Small answers only, and in time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::base64;

/// The longest answer. Real ones have one to three thousand bytes.
const LONGEST: usize = 64 * 1024;

/// Questions on their way at once, for the whole process.
static QUESTIONS: Semaphore = Semaphore::const_new(64);

/// An answer over HTTP, good or not.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// Asks in the way that every responder knows.
pub(super) async fn post(url: &str, question: &[u8], patience: Duration) -> Result<Reply, String> {
    let request = Request::builder()
        .method(Method::POST)
        .header(CONTENT_TYPE, "application/ocsp-request")
        .header(ACCEPT, "application/ocsp-response");
    send(url, request, question.to_vec(), patience).await
}

/// Asks in the way that proxies can remember.
pub(super) async fn get(url: &str, question: &[u8], patience: Duration) -> Result<Reply, String> {
    let escape = |c: char| match c {
        '+' => "%2B".to_owned(),
        '/' => "%2F".to_owned(),
        '=' => "%3D".to_owned(),
        c => c.to_string(),
    };
    let text: String = base64::encode(question).chars().map(escape).collect();
    let request = Request::builder().method(Method::GET);
    send(&format!("{}/{text}", url.trim_end_matches('/')), request, Vec::new(), patience).await
}

async fn send(
    url: &str,
    request: hyper::http::request::Builder,
    body: Vec<u8>,
    patience: Duration,
) -> Result<Reply, String> {
    let uri: Uri = url.parse().map_err(|error| format!("parse {url:?}: {error}"))?;
    let host = uri.host().ok_or_else(|| format!("parse {url:?}: no host"))?.to_owned();
    let is_secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let authority = uri.authority().map_or(host.as_str(), |authority| authority.as_str());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = request
        .uri(path)
        .header(HOST, authority)
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let asking = async {
        let _place = QUESTIONS.acquire().await.map_err(|error| error.to_string())?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await.map_err(|error| crate::fault::words(&error))?;
        if is_secure {
            let name = ServerName::try_from(bare.to_owned()).map_err(|error| error.to_string())?;
            let connector = TlsConnector::from(trust()?);
            let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
            exchange(stream, request).await
        } else {
            exchange(stream, request).await
        }
    };
    timeout(patience, asking).await.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Reply, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let ends = tokio::spawn(connection);
    let outcome = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes().to_vec();
        Ok(Reply { status, body })
    }
    .await;
    ends.abort();
    outcome
}

/// The authorities of the system.
fn trust() -> Result<Arc<ClientConfig>, String> {
    static TRUST: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let make = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    };
    TRUST.get_or_init(make).clone()
}
