//! Tokens behind a URL: a GET for each, with the account's key at its end.
//!
//! Compat: a new connection for each. Accounts are asked for once, so there is nothing to gain from
//! keeping one.

use crate::http_client::{self, HttpAnswer};
use http_body_util::Full;
use hyper::{Request, StatusCode, header};
use myelin_conf::options::TlsOptions;
use myelin_stdx::base64;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_millis(1900);
/// Bytes of the longest token.
const MAX_SIZE: usize = 1024 * 1024;

/// Resolver that asks for account tokens over HTTP, one GET for each.
pub(super) struct UrlResolver {
    /// Ends with a slash.
    base: String,
    tls: Arc<rustls::ClientConfig>,
    control: Handle,
}

/// A URL in the parts that a request is made of.
struct RequestUrl {
    is_secure: bool,
    host: String,
    port: u16,
    path: String,
    /// User and password, as they stand in a header.
    login: Option<String>,
}

impl UrlResolver {
    /// # Errors
    /// When the files of `resolver_tls` are no good.
    pub(super) fn new(url: &str, tls: Option<&TlsOptions>, control: Handle) -> Result<Self, String> {
        let slash = if url.ends_with('/') { "" } else { "/" };
        let tls = Arc::new(crate::tls::outbound_config(tls)?);
        Ok(Self { base: format!("{url}{slash}"), tls, control })
    }

    /// The token of an account, or whatever stands at the URL itself for an empty key. Waits: not
    /// for threads of the runtime.
    pub(super) fn fetch(&self, key: &str) -> Result<String, String> {
        let url = format!("{}{key}", self.base);
        let shown = myelin_wire::error::Quoted(redacted(&url).as_bytes()).to_string();
        let failed = |error: String| format!("could not fetch <{shown}>: {error}");
        let get = |error: String| format!("Get {shown}: {error}");
        let target = RequestUrl::parse(&url).map_err(|error| failed(get(error)))?;
        let answer = self.control.block_on(async {
            match tokio::time::timeout(TIMEOUT, target.get(&self.tls)).await {
                Ok(answer) => answer,
                Err(_) => {
                    Err("context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
                        .to_owned())
                }
            }
        });
        let answer = answer.map_err(|error| failed(get(error)))?;
        if answer.status != StatusCode::OK {
            return Err(failed(answer.status.to_string()));
        }
        String::from_utf8(answer.body).map_err(|_| failed("the answer is no text".to_owned()))
    }
}

/// A URL without its password.
fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    match authority.rsplit_once('@').map(|(login, _)| login) {
        Some(login) if login.contains(':') => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:xxxxx{}", &rest[login.len()..])
        }
        _ => url.to_owned(),
    }
}

impl RequestUrl {
    fn parse(url: &str) -> Result<Self, String> {
        let unsupported = |scheme: &str| format!("unsupported protocol scheme {scheme:?}");
        let (scheme, rest) = url.split_once("://").ok_or_else(|| unsupported(""))?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            other => return Err(unsupported(other)),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let default = if is_secure { 443 } else { 80 };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| format!("invalid port {port:?}"))?)
            }
            _ => (place, default),
        };
        if host.is_empty() {
            return Err("no Host in request URL".to_owned());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        Ok(Self { is_secure, host, port, path, login: login.map(basic) })
    }

    async fn get(&self, tls: &Arc<rustls::ClientConfig>) -> Result<HttpAnswer, String> {
        let place = crate::os_error::with_port(&self.host, self.port);
        let mut request =
            Request::get(&self.path).header(header::HOST, &place).header(header::USER_AGENT, "myelin-server");
        if let Some(login) = &self.login {
            request = request.header(header::AUTHORIZATION, login);
        }
        let request = request.body(Full::default()).map_err(|error| error.to_string())?;
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| {
            format!("dial tcp {place}: connect: {}", myelin_stdx::os_error::words(&error))
        })?;
        if self.is_secure {
            let stream = crate::tls::secure(stream, &self.host, tls).await?;
            http_client::exchange(stream, request, MAX_SIZE).await
        } else {
            http_client::exchange(stream, request, MAX_SIZE).await
        }
    }
}

/// Value of a header for a user and a password.
fn basic(login: &str) -> String {
    format!("Basic {}", base64::encode(login.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_parts() {
        let target = RequestUrl::parse("http://u:p@localhost:81/jwt/v1/accounts/A").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.is_secure), ("localhost", 81, false));
        assert_eq!(
            (target.path.as_str(), target.login.as_deref()),
            ("/jwt/v1/accounts/A", Some("Basic dTpw"))
        );
        let target = RequestUrl::parse("https://[::1]/").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 443));
        for url in ["/accounts/", "ftp://a/", "http:///x", "http://a:x/"] {
            assert!(RequestUrl::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(redacted("http://u:secret@a:1/x"), "http://u:xxxxx@a:1/x");
        assert_eq!(redacted("http://u@a:1/x@y:z"), "http://u@a:1/x@y:z");
        assert_eq!(redacted("/accounts/"), "/accounts/");
    }
}
