//! Asks an authority, by HTTP. Small answers only, and in time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, LOCATION};
use hyper::{Method, Request, StatusCode, Uri};
use myelin_stdx::base64;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::http_client::{self, HttpAnswer};

/// The longest answer. Real ones have one to three thousand bytes.
const LONGEST: usize = 64 * 1024;

/// Questions on their way at once, for the whole process.
static QUESTIONS: Semaphore = Semaphore::const_new(64);

/// Requests that one question may take, as with Go's client: the last one is not redirected.
const REQUESTS: usize = 10;

/// An answer over HTTP, good or not.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
    /// Where to ask instead.
    location: Option<String>,
}

impl Reply {
    fn redirection(&self) -> Option<&str> {
        let elsewhere = matches!(self.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        self.location.as_deref().filter(|_| elsewhere)
    }

    /// Whether the same is to be asked there, and not just for what is there.
    fn repeats(&self) -> bool {
        matches!(self.status.as_u16(), 307 | 308)
    }
}

/// Asks in the way that every responder knows.
pub(super) async fn post(url: &str, question: &[u8], patience: Duration) -> Result<Reply, String> {
    send(url, Some(question), patience).await
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
    send(&format!("{}/{text}", url.trim_end_matches('/')), None, patience).await
}

async fn send(url: &str, question: Option<&[u8]>, patience: Duration) -> Result<Reply, String> {
    let asking = async {
        let _place = QUESTIONS.acquire().await.map_err(|error| error.to_string())?;
        follow(url.to_owned(), question).await
    };
    timeout(patience, asking).await.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
}

/// Asks, and goes where it is sent.
async fn follow(mut url: String, mut question: Option<&[u8]>) -> Result<Reply, String> {
    for _ in 0..REQUESTS {
        let reply = ask(&url, question).await?;
        let Some(location) = reply.redirection() else { return Ok(reply) };
        url = resolve(&url, location)?;
        question = question.filter(|_| reply.repeats());
    }
    Err(format!("stopped after {REQUESTS} redirects"))
}

/// Resolves `location`, which the server at `url` has sent.
fn resolve(url: &str, location: &str) -> Result<String, String> {
    let unknown = || format!("failed to parse Location header {location:?}");
    if location.parse::<Uri>().is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some()) {
        return Ok(location.to_owned());
    }
    let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
    let found = match location {
        "" => return Err(unknown()),
        other if other.starts_with("//") => format!("{scheme}:{other}"),
        path if path.starts_with('/') => format!("{scheme}://{host}{path}"),
        name => format!("{scheme}://{host}{folder}{name}"),
    };
    found.parse::<Uri>().map(|_| found).map_err(|_| unknown())
}

/// One request: a question in its body, or in its address.
async fn ask(url: &str, question: Option<&[u8]>) -> Result<Reply, String> {
    let uri: Uri = url.parse().map_err(|error| format!("parse {url:?}: {error}"))?;
    let host = uri.host().ok_or_else(|| format!("parse {url:?}: no host"))?.to_owned();
    let is_secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let authority = uri.authority().map_or(host.as_str(), |authority| authority.as_str());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = match question {
        None => Request::builder().method(Method::GET),
        Some(_) => Request::builder()
            .method(Method::POST)
            .header(CONTENT_TYPE, "application/ocsp-request")
            .header(ACCEPT, "application/ocsp-response"),
    };
    let request = request
        .uri(path)
        .header(HOST, authority)
        .body(Full::new(Bytes::copy_from_slice(question.unwrap_or_default())))
        .map_err(|error| error.to_string())?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((bare, port)).await.map_err(|error| crate::os_error::words(&error))?;
    let answer = if is_secure {
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| error.to_string())?;
        let connecting = TlsConnector::from(trust()?).connect(name, stream);
        let stream = connecting.await.map_err(|error| error.to_string())?;
        http_client::exchange(stream, request, LONGEST).await?
    } else {
        http_client::exchange(stream, request, LONGEST).await?
    };
    let HttpAnswer { status, headers, body } = answer;
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Reply { status, body, location })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;

    /// Answers each request with the next of these, and tells the first line and the body of each.
    fn told(answers: &[String]) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let answers: Vec<_> = answers.iter().map(|answer| answer.replace("@", &url)).collect();
        let serving = std::thread::spawn(move || {
            let mut heard = Vec::new();
            for answer in answers {
                let mut peer = BufReader::new(listener.accept().expect("a peer").0);
                let (mut line, mut length) = (String::new(), 0);
                peer.read_line(&mut line).expect("a request");
                loop {
                    let mut header = String::new();
                    peer.read_line(&mut header).expect("a header");
                    if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().expect("a length");
                    }
                    if header.trim().is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                peer.read_exact(&mut body).expect("a body");
                heard.push(format!("{} {}", line.trim(), String::from_utf8_lossy(&body)));
                peer.get_mut().write_all(answer.as_bytes()).expect("sent");
            }
            heard
        });
        (url, serving)
    }

    fn moved(status: u16, location: &str) -> String {
        format!(
            "HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    #[test]
    fn who_is_sent_elsewhere_goes_there() {
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_owned();
        let answers = [moved(307, "/a/b"), moved(308, "c"), moved(302, "@/d"), good];
        let (url, serving) = told(&answers);
        let reply = runtime().block_on(post(&url, b"q", Duration::from_secs(30))).expect("an answer");
        assert_eq!((reply.status, &reply.body[..]), (StatusCode::OK, &b"ok"[..]));
        let heard = serving.join().expect("it ends");
        assert_eq!(
            heard,
            ["POST / HTTP/1.1 q", "POST /a/b HTTP/1.1 q", "POST /a/c HTTP/1.1 q", "GET /d HTTP/1.1 "]
        );
    }

    #[test]
    fn there_is_an_end_to_it() {
        let answers = vec![moved(301, "/again"); REQUESTS];
        let (url, serving) = told(&answers);
        let error = runtime().block_on(post(&url, b"q", Duration::from_secs(30))).err();
        assert_eq!(error.as_deref(), Some("stopped after 10 redirects"));
        assert_eq!(serving.join().expect("it ends").len(), REQUESTS);
    }

    #[test]
    fn places_are_understood_from_where_they_are_said() {
        for (url, location, expected) in [
            ("http://a/x/y", "https://b/z", Some("https://b/z")),
            ("http://a/x/y", "//b/z", Some("http://b/z")),
            ("https://a:1/x/y", "/z?q", Some("https://a:1/z?q")),
            ("http://a/x/y", "z", Some("http://a/x/z")),
            ("http://a", "z", Some("http://a/z")),
            ("http://a/x", "", None),
            ("http://a/x", "\u{7f}", None),
        ] {
            assert_eq!(resolve(url, location).ok().as_deref(), expected, "{location:?}");
        }
    }
}
