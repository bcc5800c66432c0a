//! The pages as answers to messages: what the system account is asked (`$SYS.REQ.…`).
//!
//! A [`PageRequest`] is read from a message's body; its answer is the page's JSON on one line,
//! without the envelope. What is shown is decided by the pages themselves; here stands only what
//! differs: options come as JSON, nothing is counted in `http_req_stats`, and a few answers have
//! another form.

mod options;
mod statsz;
mod uncounted;

pub use options::Filter;
pub use statsz::statsz;

use crate::query::{BadQuery, Query, quoted};
use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;
use crate::text::round_trip;
use crate::{
    accountz, accstatz, connz, expvar, gatewayz, healthz, ipqueuesz, jsz, leafz, raftz, routez, subsz, varz,
};
use myelin_wire::json;
use options::RequestOptions;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::time::Duration;
pub(crate) use uncounted::Uncounted;

/// Topic of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Topic {
    Statsz,
    Varz,
    Subsz,
    Connz,
    Routez,
    Gatewayz,
    Leafz,
    Accountz,
    Accstatz,
    /// One account in detail.
    AccountInfo,
    Jsz,
    Healthz,
    Profilez,
    Expvarz,
    Ipqueuesz,
    Raftz,
    /// Not to be told something but to have something done.
    Control,
}

/// Topics by the last token of their subjects.
const TOPICS: [(&str, Topic); 14] = [
    ("VARZ", Topic::Varz),
    ("SUBSZ", Topic::Subsz),
    ("CONNZ", Topic::Connz),
    ("ROUTEZ", Topic::Routez),
    ("GATEWAYZ", Topic::Gatewayz),
    ("LEAFZ", Topic::Leafz),
    ("ACCOUNTZ", Topic::Accountz),
    ("JSZ", Topic::Jsz),
    ("HEALTHZ", Topic::Healthz),
    ("PROFILEZ", Topic::Profilez),
    ("EXPVARZ", Topic::Expvarz),
    ("IPQUEUESZ", Topic::Ipqueuesz),
    ("RAFTZ", Topic::Raftz),
    ("STATSZ", Topic::Statsz),
];

impl Topic {
    /// Topics that a server is asked for, with the last token of their subjects.
    pub fn of_server() -> impl Iterator<Item = (&'static str, Self)> {
        TOPICS.into_iter()
    }
}

/// JSON on one line.
pub type Page = Box<RawValue>;

/// A request that could be read.
#[derive(Debug)]
pub struct PageRequest {
    topic: Topic,
    options: RequestOptions,
}

impl PageRequest {
    /// Reads the body of a message.
    ///
    /// # Errors
    /// Why it is none, in Go's words.
    pub fn read(topic: Topic, body: &[u8]) -> Result<Self, String> {
        Ok(Self { topic, options: RequestOptions::read(topic, body)? })
    }

    /// Which servers are asked.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        &self.options.filter
    }

    /// Asks about one account only, whatever the body says.
    #[must_use]
    pub fn of_account(mut self, account: &str) -> Self {
        match self.topic {
            Topic::Accstatz => self.options.query.accounts = vec![account.to_owned()],
            Topic::Subsz => {
                self.options.query.set("subs", "1".to_owned());
                self.options.query.set("acc", account.to_owned());
            }
            _ => self.options.query.set("acc", account.to_owned()),
        }
        self
    }

    /// The answer; nothing where silence is one.
    ///
    /// # Errors
    /// What the reference says for status 500.
    pub fn answer(&self, source: &dyn SnapshotSource) -> Result<Option<Page>, String> {
        let (query, source) = (&self.options.query, &Uncounted(source));
        if let Topic::Accstatz = self.topic {
            let (page, is_empty) = accstatz::page(query, source).map_err(|bad| bad.to_string())?;
            let is_unused_wanted = query.flag("unused").unwrap_or(false);
            return if is_empty && !is_unused_wanted { Ok(None) } else { self::page(page).map(Some) };
        }
        match self.render(query, source) {
            // Compat: only the leader of the meta group answers whoever asks for it.
            Err(BadQuery::NotLeader) => Ok(None),
            Err(bad) => Err(bad.to_string()),
            Ok(response) => self::page(response).map(Some),
        }
    }

    fn render(&self, query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
        match self.topic {
            Topic::Varz => Ok(varz::answer(source)),
            Topic::Subsz => subsz::answer(query, source),
            Topic::Connz => connz::answer(query, source),
            Topic::Routez => routez::answer(query, source),
            Topic::Gatewayz => gatewayz::answer(query, source),
            Topic::Leafz => leafz::answer(query, source),
            Topic::Accountz => accountz::answer(query, source),
            Topic::Accstatz => accstatz::answer(query, source),
            Topic::AccountInfo => accountz::detail(query.text("acc"), source),
            Topic::Jsz => jsz::answer(query, source),
            Topic::Healthz => healthz::answer(query, source),
            Topic::Profilez => Ok(profile(query)),
            Topic::Expvarz => Ok(expvar::message(source)),
            Topic::Ipqueuesz => ipqueuesz::answer(query, source),
            Topic::Raftz => Ok(match raftz::shown(query, source) {
                Some(shown) => PageResponse::line(200, &shown),
                None => PageResponse::line(200, &Nothing {}),
            }),
            Topic::Statsz | Topic::Control => Ok(PageResponse::line(200, &Nothing {})),
        }
    }

    /// JetStream of one account: what `$SYS.REQ.ACCOUNT.<account>.JSZ` asks.
    ///
    /// # Errors
    /// When there is no such account, or it has no JetStream.
    pub fn answer_for_jetstream(&self, source: &dyn SnapshotSource) -> Result<Page, String> {
        self::page(jsz::of_account(&self.options.query, &Uncounted(source))?)
    }
}

/// Traffic of these accounts, one JSON object each; without those that are gone.
pub fn account_stats(names: &[String], source: &dyn SnapshotSource) -> Vec<(String, Vec<u8>)> {
    // Perf: what an account has moved is summed up over all connections: once for many accounts.
    let accounts = match names {
        [name] => source.account(name).into_iter().collect(),
        _ => source.accounts(),
    };
    let names: HashSet<&String> = names.iter().collect();
    let asked = accounts.iter().filter(|account| names.contains(&account.name));
    asked.map(|account| (account.name.clone(), accstatz::row(account))).collect()
}

#[derive(Serialize)]
struct Nothing {}

/// Lays a page out on one line.
fn page(answer: PageResponse) -> Result<Page, String> {
    let text = String::from_utf8(answer.body.into()).map_err(|error| error.to_string())?;
    let laid_out = RawValue::from_string(text).map_err(|error| error.to_string())?;
    let line = String::from_utf8(json::compact(&laid_out)).map_err(|error| error.to_string())?;
    RawValue::from_string(line).map_err(|error| error.to_string())
}

/// The longest profile of the processor that can be asked for.
const LONGEST_PROFILE: Duration = Duration::from_secs(15);

/// Profiles are those of Go programs, and this is none.
fn profile(query: &Query) -> PageResponse {
    #[derive(Serialize)]
    struct Profile {
        profile: Option<()>,
        error: String,
    }
    let error = match query.text("name") {
        "" => "Profile name not specified".to_owned(),
        "cpu" => {
            let nanoseconds = query.int("duration").unwrap_or_default();
            let duration = Duration::from_nanos(nanoseconds.unsigned_abs());
            if nanoseconds > 0 && duration <= LONGEST_PROFILE {
                "Failed to start CPU profile: this is no Go program".to_owned()
            } else {
                let sign = if nanoseconds < 0 { "-" } else { "" };
                format!("Duration {sign}{} should be between 0s and 15s", round_trip(duration))
            }
        }
        name => format!("Profile {} not found", quoted(name)),
    };
    PageResponse::line(200, &Profile { profile: None, error })
}
