//! The HTTP proxy through which a remote is reached.

use std::time::Duration;

use crate::options::field::{Diagnostics, Field, Read, read_block};
use crate::options::table::BlockKind;
use crate::options::tls::{TlsOptions, TlsUse};
use crate::secret::Secret;
use crate::url::Url;

/// An HTTP proxy that opens a tunnel to a remote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeafProxyOptions {
    /// `http` or `https`, with a host; `None` when nothing of the block says anything.
    pub url: Option<Url>,
    /// Together with a password.
    pub username: Option<String>,
    /// Together with a user name.
    pub password: Option<Secret>,
    /// For the tunnel; `None` is the time for the TCP connection to the remote.
    pub timeout: Option<Duration>,
    /// Only for an `https` proxy.
    pub tls: Option<TlsOptions>,
}

impl LeafProxyOptions {
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        let mut proxy = Self::default();
        let (mut url, mut timeout) = (String::new(), 0);
        let errors = report.errors.len();
        read_block(
            field.block("Expected proxy to be a map")?,
            BlockKind::LeafProxy,
            report,
            |inner, report| {
                match inner.name() {
                    "url" => inner.text()?.clone_into(&mut url),
                    "username" => proxy.username = inner.optional_text()?,
                    "password" => proxy.password = inner.optional_text()?.map(Secret::new),
                    "timeout" => timeout = inner.lenient_duration("proxy timeout", report)?,
                    "tls" => proxy.tls = Some(TlsOptions::read(inner, TlsUse::LeafProxy, report)?),
                    _ => return Ok(false),
                }
                Ok(true)
            },
        );
        if report.errors.len() > errors {
            return Ok(proxy);
        }
        proxy.url = proxy.check(&url, timeout).map_err(|error| field.diagnostic(error))?;
        proxy.timeout = u64::try_from(timeout).ok().filter(|&nanos| nanos > 0).map(Duration::from_nanos);
        Ok(proxy)
    }

    /// The URL, if the options make sense together.
    fn check(&self, url: &str, timeout: i64) -> Result<Option<Url>, String> {
        if url.is_empty() {
            let is_empty =
                self.username.is_none() && self.password.is_none() && self.tls.is_none() && timeout == 0;
            let message = "proxy URL must be specified when other proxy options are set";
            return if is_empty { Ok(None) } else { Err(message.to_owned()) };
        }
        let parsed = Url::parse(url).filter(|_| url.trim() == url);
        let parsed = parsed.ok_or_else(|| format!("invalid proxy URL: parse {url:?}"))?;
        let scheme = &parsed.scheme;
        if scheme != "http" && scheme != "https" {
            return Err(format!("proxy URL scheme must be http or https, got: {scheme}"));
        }
        if parsed.authority.is_empty() {
            return Err("proxy URL must specify a host".to_owned());
        }
        if self.tls.is_some() && scheme != "https" {
            return Err(format!("proxy TLS configuration requires an https proxy URL, got: {scheme}"));
        }
        if timeout < 0 {
            return Err("proxy timeout must be >= 0".to_owned());
        }
        if self.username.is_some() != self.password.is_some() {
            return Err("proxy username and password must both be specified or both be empty".to_owned());
        }
        Ok(Some(parsed))
    }

    /// A URL that needs TLS has to say with which.
    pub(super) fn check_urls(&self, urls: &[Url], has_tls: bool) -> Result<(), String> {
        let bare = urls.iter().find(|url| url.scheme == "wss" && !has_tls && self.url.is_some());
        bare.map_or(Ok(()), |url| {
            Err(format!(
                "proxy is configured but remote URL {} requires TLS and no TLS configuration is provided. When \
                 using proxy with TLS endpoints, ensure TLS is properly configured for the leafnode remote",
                url.reveal()
            ))
        })
    }
}
