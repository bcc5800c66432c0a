//! `/healthz`: whether clients can use the server.

use serde::Serialize;

use crate::answer::Answer;
use crate::query::{BadQuery, Query};
use crate::snapshot::{Health, Source};

/// Without JetStream its options change nothing, but their values are still checked.
const SWITCHES: [&str; 4] = ["js-enabled", "js-enabled-only", "js-server-only", "js-meta-only"];

pub(crate) fn answer(query: &Query, source: &dyn Source) -> Result<Answer, BadQuery> {
    source.count_request("/healthz");
    for name in SWITCHES {
        if query.flag(name)? && name == "js-enabled" {
            source.warn("Healthcheck: js-enabled deprecated, use js-enabled-only instead".to_owned());
        }
    }
    let details = query.flag("details")?;
    Ok(match check(query, source) {
        Ok(()) => Answer::line(200, &Report { status: "ok", error: None, errors: None }),
        Err(failure) => failure.answer(details, source),
    })
}

fn check(query: &Query, source: &dyn Source) -> Result<(), Failure> {
    let given = |name| !query.text(name).is_empty();
    if given("stream") && !given("account") {
        return Err(Failure::missing("account", "stream"));
    }
    if given("consumer") && !given("stream") {
        return Err(Failure::missing("stream", "consumer"));
    }
    match source.health() {
        Health::Ready => Ok(()),
        Health::NotReady(text) => Err(Failure { status: 500, kind: "CONNECTION", text }),
    }
}

struct Failure {
    status: u16,
    kind: &'static str,
    text: String,
}

impl Failure {
    fn missing(option: &str, what: &str) -> Self {
        let text = format!("\"{option}\" must not be empty when checking {what} health");
        Self { status: 400, kind: "BAD_REQUEST", text }
    }

    fn answer(self, details: bool, source: &dyn Source) -> Answer {
        let mut report = Report { status: "error", error: None, errors: None };
        if details {
            source.warn("Healthcheck failed: 1 errors".to_owned());
            report.errors = Some([Detail { kind: self.kind, error: self.text }]);
        } else {
            source.warn(format!("Healthcheck failed: {:?}", self.text));
            report.error = Some(self.text);
        }
        Answer::line(self.status, &report)
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
