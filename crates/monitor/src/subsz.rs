//! `/subsz`, also known as `/subscriptionsz`: the interest index and the subscriptions in it.

use serde::Serialize;

use crate::query::{BadQuery, Query};
use crate::response::PageResponse;
use crate::snapshot::{InterestSnapshot, SnapshotSource, SubSnapshot};
use crate::text::utc;
use crate::window::PageWindow;
use myelin_wire::json::is_zero;

pub(crate) fn answer(query: &Query, source: &dyn SnapshotSource) -> Result<PageResponse, BadQuery> {
    source.count_request("/subsz");
    let options = SubszOptions::read(query)?;
    let (total, subscriptions_list) = if options.subs { options.collect(source) } else { (0, Vec::new()) };
    let page_header = source.page_header();
    Ok(PageResponse::page(&Subsz {
        server_id: &page_header.server_id,
        now: utc(page_header.now),
        interest: source.interest(options.account),
        total,
        offset: options.window.offset,
        limit: options.window.limit,
        subscriptions_list,
    }))
}

struct SubszOptions<'a> {
    subs: bool,
    window: PageWindow,
    /// A subject that a shown subscription must match.
    test: Option<&'a str>,
    account: Option<&'a str>,
}

impl<'a> SubszOptions<'a> {
    fn read(query: &'a Query) -> Result<Self, BadQuery> {
        let subs = query.flag("subs")?;
        let window = PageWindow::read(query)?;
        let given = |name| Some(query.text(name)).filter(|text| !text.is_empty());
        let test = given("test");
        match test {
            Some(subject) if !is_literal(subject) => Err(BadQuery::TestSubject(subject.to_owned())),
            _ => Ok(Self { subs, window, test, account: given("acc") }),
        }
    }

    /// How many subscriptions there are to show, and those inside the window. Only the latter are
    /// kept, so that a page of a million subscriptions costs a page.
    fn collect(&self, source: &dyn SnapshotSource) -> (u64, Vec<SubDetail>) {
        let mut total = 0;
        let mut list = Vec::new();
        source.visit_subscriptions(self.account, &mut |sub| {
            let pattern = sub.subject.as_bytes();
            if self.test.is_some_and(|subject| !myelin_subject::matches(pattern, subject.as_bytes())) {
                return;
            }
            if self.window.contains(total) {
                list.push(SubDetail::with_account(sub));
            }
            total += 1;
        });
        (total, list)
    }
}

#[derive(Serialize)]
struct Subsz<'a> {
    server_id: &'a str,
    now: String,
    #[serde(flatten)]
    interest: InterestSnapshot,
    total: u64,
    offset: u64,
    limit: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscriptions_list: Vec<SubDetail>,
}

/// One subscription as `/subsz` and `/connz` show it.
#[derive(Serialize)]
pub(crate) struct SubDetail {
    #[serde(skip_serializing_if = "String::is_empty")]
    account: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    account_tag: String,
    subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    qgroup: String,
    sid: String,
    msgs: u64,
    #[serde(skip_serializing_if = "is_zero")]
    max: u64,
    cid: u64,
}

impl SubDetail {
    pub(crate) fn with_account(sub: SubSnapshot) -> Self {
        let SubSnapshot { account, account_tag, subject, queue, sid, msgs, max, cid } = sub;
        Self { account, account_tag, subject, qgroup: queue, sid, msgs, max, cid }
    }

    pub(crate) fn without_account(sub: SubSnapshot) -> Self {
        Self { account: String::new(), account_tag: String::new(), ..Self::with_account(sub) }
    }
}

/// Whether a message can be published to `subject`: no empty token, no wildcard.
///
/// Compat: laxer than [`myelin_subject::is_literal`], which refuses blanks.
fn is_literal(subject: &str) -> bool {
    subject.split('.').all(|token| !matches!(token, "" | "*" | ">"))
}
