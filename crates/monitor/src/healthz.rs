//! `/healthz`: whether clients can use the server.

use serde::Serialize;

use crate::answer::Answer;
use crate::query::{BadQuery, Query};
use crate::snapshot::{Health, Source};

pub(crate) fn answer(query: &Query, source: &dyn Source) -> Result<Answer, BadQuery> {
    source.count_request("/healthz");
    let options = Options::read(query, source)?;
    let details = query.flag("details")?;
    Ok(match options.check(source) {
        Ok(()) => Answer::line(200, &Report { status: "ok", error: None, errors: None }),
        Err(failure) => failure.answer(details, source),
    })
}

/// What to look at.
struct Options<'a> {
    /// Leave JetStream out of it.
    server_only: bool,
    account: &'a str,
    stream: &'a str,
    consumer: &'a str,
}

impl<'a> Options<'a> {
    /// The options are looked at in the reference's order, so that of two bad ones the same is reported.
    ///
    /// `js-enabled-only` and `js-meta-only` restrict what of a running JetStream is checked: they are read only.
    fn read(query: &'a Query, source: &dyn Source) -> Result<Self, BadQuery> {
        if query.flag("js-enabled")? {
            source.warn("Healthcheck: js-enabled deprecated, use js-enabled-only instead".to_owned());
        }
        query.flag("js-enabled-only")?;
        let server_only = query.flag("js-server-only")?;
        query.flag("js-meta-only")?;
        let [account, stream, consumer] = ["account", "stream", "consumer"].map(|name| query.text(name));
        Ok(Self { server_only, account, stream, consumer })
    }

    fn check(&self, source: &dyn Source) -> Result<(), Failure> {
        if self.account.is_empty() && !self.stream.is_empty() {
            return Err(Failure::missing("account", "stream"));
        }
        if self.stream.is_empty() && !self.consumer.is_empty() {
            return Err(Failure::missing("stream", "consumer"));
        }
        match source.health() {
            Health::Ready => Ok(()),
            Health::NotReady(text) => Err(Failure { what: What::Connection, text }),
            Health::WithoutJetStream if self.server_only => Ok(()),
            Health::WithoutJetStream => {
                Err(Failure { what: What::JetStream, text: "JetStream not enabled (10076)".to_owned() })
            }
        }
    }
}

/// What is not well.
#[derive(Clone, Copy)]
enum What {
    /// The request itself.
    Request,
    Connection,
    JetStream,
}

impl What {
    /// The HTTP status, the word for it, and the kind of error that details name.
    fn answered_with(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::Request => (400, "error", "BAD_REQUEST"),
            Self::Connection => (500, "error", "CONNECTION"),
            Self::JetStream => (503, "unavailable", "JETSTREAM"),
        }
    }
}

struct Failure {
    what: What,
    text: String,
}

impl Failure {
    fn missing(option: &str, what: &str) -> Self {
        let text = format!("\"{option}\" must not be empty when checking {what} health");
        Self { what: What::Request, text }
    }

    /// Compat: with details the status is `error` whatever is wrong.
    fn answer(self, details: bool, source: &dyn Source) -> Answer {
        let (code, status, kind) = self.what.answered_with();
        let report = if details {
            source.warn("Healthcheck failed: 1 errors".to_owned());
            Report { status: "error", error: None, errors: Some([Detail { kind, error: self.text }]) }
        } else {
            source.warn(format!("Healthcheck failed: {:?}", self.text));
            Report { status, error: Some(self.text), errors: None }
        };
        Answer::line(code, &report)
    }
}

#[derive(Serialize)]
struct Report {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<[Detail; 1]>,
}

#[derive(Serialize)]
struct Detail {
    #[serde(rename = "type")]
    kind: &'static str,
    error: String,
}
