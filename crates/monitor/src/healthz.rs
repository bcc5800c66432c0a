//! `/healthz`: whether clients can use the server, and whether the streams in its store work.

mod assets;
mod failure;
mod lost;

use serde::Serialize;

use crate::query::{BadQuery, Query, quoted};
use crate::response::PageResponse;
use crate::snapshot::{Health, SnapshotSource};
use assets::Assets;
pub(crate) use failure::Failure;
use failure::FailureKind;
pub(crate) use lost::LostMessages;
use myelin_wire::json::is_zero;

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    source.count_request("/healthz");
    let options = HealthzOptions::read(query, source)?;
    let Checked { failures, lost } = options.check(source);
    let lost = &lost[..];
    let Some(first) = failures.first() else {
        return Ok(HealthReport { status: "ok", code: 200, error: None, errors: &[], lost }.answer(query));
    };
    let (code, word) = first.status();
    // Compat: with details the status is `error` whatever is wrong.
    let report = if options.details {
        source.warn(format!("Healthcheck failed: {} errors", failures.len()));
        HealthReport { status: "error", code, error: None, errors: &failures, lost }
    } else {
        source.warn(format!("Healthcheck failed: {}", quoted(&first.error)));
        HealthReport { status: word, code, error: Some(&first.error), errors: &[], lost }
    };
    Ok(report.answer(query))
}

/// How much a check looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Everything.
    Whole,
    /// Whether JetStream runs, and not its streams.
    JetStream,
    /// The server without JetStream.
    Server,
}

/// The word that the page would say, without asking for it.
pub(crate) fn status(depth: Depth, source: &dyn SnapshotSource) -> &'static str {
    look(depth, source).failures.first().map_or("ok", |first| first.status().1)
}

/// Everything that is wrong, without asking for the page.
pub(crate) fn look(depth: Depth, source: &dyn SnapshotSource) -> Checked {
    let options = HealthzOptions {
        server_only: depth == Depth::Server,
        enabled_only: depth == Depth::JetStream,
        meta_only: false,
        details: true,
        assets: Assets { account: "", stream: "", consumer: "" },
    };
    options.check(source)
}

/// Outcome of a check.
#[derive(Default)]
pub(crate) struct Checked {
    /// Failures in the order in which they were found; only the first counts without details.
    pub(crate) failures: Vec<Failure>,
    /// Losses of streams that serve what is left: no failures, for only a backup brings them back.
    pub(crate) lost: Vec<LostMessages>,
}

impl From<Vec<Failure>> for Checked {
    fn from(failures: Vec<Failure>) -> Self {
        Self { failures, ..Self::default() }
    }
}

/// Options of the page.
struct HealthzOptions<'a> {
    /// Leave JetStream out of it.
    server_only: bool,
    /// Look at whether JetStream runs and not at its streams.
    enabled_only: bool,
    /// Of a cluster look at its meta group only.
    meta_only: bool,
    /// Report everything that is wrong, not only the first.
    details: bool,
    assets: Assets<'a>,
}

impl<'a> HealthzOptions<'a> {
    /// The options are looked at in the reference's order, so that of two bad ones the same is
    /// reported.
    fn read(query: &'a Query, source: &dyn SnapshotSource) -> Result<Self, BadQuery> {
        let enabled = query.flag("js-enabled")?;
        if enabled {
            source.warn("Healthcheck: js-enabled deprecated, use js-enabled-only instead".to_owned());
        }
        let enabled_only = query.flag("js-enabled-only")? || enabled;
        let server_only = query.flag("js-server-only")?;
        let meta_only = query.flag("js-meta-only")?;
        let details = query.flag("details")?;
        let [account, stream, consumer] = ["account", "stream", "consumer"].map(|name| query.text(name));
        Ok(Self {
            server_only,
            enabled_only,
            meta_only,
            details,
            assets: Assets { account, stream, consumer },
        })
    }

    fn check(&self, source: &dyn SnapshotSource) -> Checked {
        if let Some(missing) = self.assets.unnamed() {
            return vec![missing].into();
        }
        match source.health() {
            Health::NotReady(text) => vec![Failure::new(FailureKind::Connection, text)].into(),
            Health::Ready => Checked::default(),
            _ if self.server_only => Checked::default(),
            Health::WithoutJetStream => {
                vec![Failure::new(FailureKind::JetStream, "JetStream not enabled (10076)".to_owned())].into()
            }
            Health::WithJetStream if self.enabled_only => Checked::default(),
            Health::WithJetStream => {
                let cluster = source.cluster_health();
                if let Some(why) = cluster.as_ref().and_then(|cluster| cluster.meta.clone()) {
                    return vec![Failure::new(FailureKind::JetStream, why)].into();
                }
                if self.meta_only && cluster.is_some() {
                    return Checked::default();
                }
                let stored = self.assets.stored(source);
                let mut failures = self.assets.check(&stored, self.details, source);
                let waits = source.waits_for_room();
                let ailing = cluster.into_iter().flat_map(|cluster| cluster.streams);
                failures.extend(ailing.filter_map(|ailment| self.assets.ailing(ailment)));
                failures.extend(waits.map(|text| Failure::new(FailureKind::JetStream, text)));
                Checked { failures, lost: self.assets.lost(&stored) }
            }
        }
    }
}

#[derive(Serialize)]
struct HealthReport<'a> {
    status: &'static str,
    /// Left out where it is the answer's own.
    #[serde(rename = "status_code", skip_serializing_if = "is_zero")]
    code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Failure]>::is_empty")]
    errors: &'a [Failure],
    /// Losses, which are ours beside theirs.
    #[serde(skip_serializing_if = "<[LostMessages]>::is_empty")]
    lost: &'a [LostMessages],
}

impl HealthReport<'_> {
    fn answer(self, query: &Query) -> PageResponse {
        let status = self.code;
        let code = if query.is_message { status } else { 0 };
        PageResponse::line(status, &Self { code, ..self })
    }
}
