//! Requests to a collector: a POST of JSON each, on a connection of its own, and in time.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{HeaderMap, Request};
use myelin_conf::options::OtlpOptions;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http_client::{self, HttpAnswer};

/// The longest answer that is read.
const LONGEST: usize = 64 * 1024;

/// Most characters of a collector's own words in a line of the log.
const MOST_WORDS: usize = 200;

/// A collector, ready to be sent requests.
pub(super) struct Target {
    host: String,
    port: u16,
    /// Path without a slash at its end; empty for none.
    base: String,
    headers: HeaderMap,
    patience: Duration,
    /// `None` sends in the clear.
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Target {
    /// Reads the files of `tls`, or the system's authorities.
    ///
    /// # Errors
    /// When those files are no good.
    pub(super) fn new(options: &OtlpOptions) -> Result<Self, String> {
        let url = &options.endpoint;
        let is_secure = url.scheme == "https";
        let tls =
            if is_secure { Some(Arc::new(crate::tls::outbound_config(options.tls.as_ref())?)) } else { None };
        let port = url.port().and_then(|port| port.parse().ok());
        let mut target = Self {
            host: url.host().to_owned(),
            port: port.unwrap_or(if is_secure { 443 } else { 80 }),
            base: url.rest.trim_end_matches('/').to_owned(),
            headers: HeaderMap::new(),
            patience: options.timeout,
            tls,
        };
        for (name, value) in &options.headers {
            let unfit = || format!("header {name} cannot be sent");
            let header = hyper::header::HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?;
            let mut value = hyper::header::HeaderValue::from_str(value.reveal()).map_err(|_| unfit())?;
            value.set_sensitive(true);
            target.headers.insert(header, value);
        }
        Ok(target)
    }

    /// Sends a body, and waits until the collector has taken all of it.
    ///
    /// # Errors
    /// Why it has not, in words that are the same as long as the reason is.
    pub(super) async fn post(&self, path: &str, body: Vec<u8>) -> Result<(), String> {
        let late = || Err("no answer within the timeout".to_owned());
        timeout(self.patience, self.send(path, body)).await.unwrap_or_else(|_| late())
    }

    async fn send(&self, path: &str, body: Vec<u8>) -> Result<(), String> {
        let mut request = Request::post(format!("{}{path}", self.base))
            .header(HOST, crate::os_error::with_port(&self.host, self.port))
            .header(USER_AGENT, concat!("myelin-server/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header(CONNECTION, "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        request.headers_mut().extend(self.headers.clone());
        let connecting = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = connecting.map_err(|error| crate::os_error::words(&error))?;
        let answer = match &self.tls {
            Some(tls) => {
                let stream = crate::tls::secure(stream, &self.host, tls).await?;
                http_client::exchange(stream, request, LONGEST).await?
            }
            None => http_client::exchange(stream, request, LONGEST).await?,
        };
        verdict(&answer)
    }
}

/// Whether the collector has taken everything.
fn verdict(answer: &HttpAnswer) -> Result<(), String> {
    if !answer.status.is_success() {
        return Err(format!("the collector answered {}", answer.status));
    }
    // An answer that is no JSON rejects nothing.
    let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    rejection(&answer).map_or(Ok(()), Err)
}

/// Reason why a part was not taken, if so.
fn rejection(answer: &Value) -> Option<String> {
    let partial = answer.get("partialSuccess")?;
    let number = |name: &str| {
        let rejected = &partial[name];
        // Whole numbers of 64 bits are texts.
        let number = rejected.as_str().and_then(|text| text.parse().ok()).or_else(|| rejected.as_u64());
        number.filter(|number| *number > 0)
    };
    let samples = number("rejectedDataPoints").map(|count| (count, "samples"));
    let (rejected, what) = samples.or_else(|| Some((number("rejectedSpans")?, "spans")))?;
    let words = partial["errorMessage"].as_str().unwrap_or_default();
    let words: String = words.chars().filter(|char| !char.is_control()).take(MOST_WORDS).collect();
    Some(format!("the collector rejected {rejected} {what}: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_that_was_rejected_is_a_failure() {
        for (answer, expected) in [
            (json!({}), None),
            (json!(null), None),
            (json!({"partialSuccess": {}}), None),
            (json!({"partialSuccess": {"rejectedDataPoints": "0", "errorMessage": "a hint"}}), None),
            (
                json!({"partialSuccess": {"rejectedDataPoints": "12", "errorMessage": "too\n old"}}),
                Some("the collector rejected 12 samples: too old"),
            ),
            (
                json!({"partialSuccess": {"rejectedDataPoints": 3}}),
                Some("the collector rejected 3 samples: "),
            ),
            (
                json!({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "why"}}),
                Some("the collector rejected 2 spans: why"),
            ),
        ] {
            assert_eq!(rejection(&answer).as_deref(), expected, "{answer}");
        }
    }
}
