//! `otlp`: the collector that metrics are pushed to, and spans of messages.

use std::collections::BTreeMap;
use std::time::Duration;

use super::field::{Diagnostics, Field, Read, read_block};
use super::table::BlockKind;
use super::tls::{TlsOptions, TlsUse};
use crate::duration;
use crate::secret::Secret;
use crate::url::Url;

/// Headers that belong to the request itself.
const OWN_HEADERS: &[&str] =
    &["connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"];

/// Push of metrics, and of spans of messages, by OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpOptions {
    /// `http` or `https`, a host, perhaps a port and a path; no login, no query.
    pub endpoint: Url,
    /// Whether spans of messages that others trace are pushed, too.
    pub traces: bool,
    /// Time between two pushes.
    pub interval: Duration,
    /// Time for one request, from its connection to its answer.
    pub timeout: Duration,
    /// Headers of every request, in lower case.
    pub headers: BTreeMap<String, Secret>,
    /// Attributes of the resource.
    pub resource: BTreeMap<String, String>,
    /// TLS for `https`; `None` trusts the system's authorities.
    pub tls: Option<TlsOptions>,
}

impl Default for OtlpOptions {
    fn default() -> Self {
        Self {
            endpoint: Url::default(),
            traces: false,
            interval: Duration::from_secs(60),
            timeout: Duration::from_secs(10),
            headers: BTreeMap::new(),
            resource: BTreeMap::new(),
            tls: None,
        }
    }
}

impl OtlpOptions {
    /// Shortest time between two pushes.
    pub const MIN_INTERVAL: Duration = Duration::from_millis(100);

    /// A block; one without an endpoint pushes nothing.
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Self>> {
        let (mut options, mut has_endpoint) = (Self::default(), false);
        read_block(field.map()?, BlockKind::Otlp, report, |field, report| {
            match field.name() {
                "endpoint" => {
                    has_endpoint = !field.text()?.is_empty();
                    if has_endpoint {
                        options.endpoint = endpoint(field)?;
                    }
                }
                "traces" => options.traces = field.boolean()?,
                "interval" => options.interval = positive(field, Self::MIN_INTERVAL)?,
                "timeout" => options.timeout = positive(field, Duration::from_nanos(1))?,
                "headers" => options.headers = headers(field, report)?,
                "resource" => options.resource = texts(field, report)?,
                "tls" => options.tls = Some(TlsOptions::read(field, TlsUse::Otlp, report)?),
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(has_endpoint.then_some(options))
    }
}

fn endpoint(field: &Field<'_>) -> Read<Url> {
    let text = field.text()?;
    let refuse = |reason: &str| Err(field.diagnostic(format!("invalid otlp endpoint: {reason}")));
    let url = match Url::read(text) {
        Ok(url) => url,
        Err(reason) => return refuse(&reason),
    };
    if url.scheme != "http" && url.scheme != "https" {
        return refuse("it must begin with http:// or https://");
    }
    if url.user.is_some() {
        return refuse("a login belongs into a header");
    }
    if url.host().is_empty() {
        return refuse("it has no host");
    }
    if url.port().is_some_and(|port| port.parse::<u16>().is_err()) {
        return refuse("the port is too large");
    }
    // What a request line cannot hold.
    if !url.rest.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#') {
        return refuse("its path must be plain and without a query");
    }
    Ok(url)
}

fn positive(field: &Field<'_>, min: Duration) -> Read<Duration> {
    let duration = field.duration()?;
    if duration < min {
        let (name, min) = (field.name(), duration::format(min));
        return Err(field.diagnostic(format!("otlp {name} must be at least {min}")));
    }
    Ok(duration)
}

fn texts(field: &Field<'_>, report: &mut Diagnostics) -> Read<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for (name, node) in field.map()?.iter() {
        let text = Field::new(name, node).text().map(str::to_owned);
        texts.extend(report.keep(text).map(|text| (name.to_owned(), text)));
    }
    Ok(texts)
}

fn headers(field: &Field<'_>, report: &mut Diagnostics) -> Read<BTreeMap<String, Secret>> {
    let mut headers = BTreeMap::new();
    for (name, node) in field.map()?.iter() {
        let header = header(&Field::new(name, node), name);
        headers.extend(report.keep(header));
    }
    Ok(headers)
}

/// A header that a request can have. Its value is not shown: it may be a token.
fn header(field: &Field<'_>, name: &str) -> Read<(String, Secret)> {
    let value = field.text()?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(field.diagnostic(format!("{name:?} cannot be the name of a header")));
    }
    let lower = name.to_ascii_lowercase();
    if OWN_HEADERS.contains(&lower.as_str()) {
        return Err(field.diagnostic(format!("header {name:?} is the request's own")));
    }
    if !value.bytes().all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte)) {
        return Err(field.diagnostic(format!("the value of header {name:?} is not plain text")));
    }
    Ok((lower, Secret::new(value)))
}
