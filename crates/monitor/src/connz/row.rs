//! One connection as `/connz` shows it.

use std::collections::HashMap;

use serde::Serialize;

use crate::connz::options::ConnzOptions;
use crate::query::Subs;
use crate::snapshot::{
    ConnSnapshot, PageHeader, PeerCert, RefusalSnapshot, RefusedSnapshot, SnapshotSource, SubSnapshot, Tls,
};
use crate::subsz::SubDetail;
use crate::text::{age, moment_in, round_trip, utc};
use myelin_wire::json::{is_false, is_zero};

/// The account of clients without one; its name is not shown.
pub(super) const DEFAULT_ACCOUNT: &str = "$G";

/// The rows of one page, with the subscriptions that the options ask for.
pub(super) fn rows<'a>(
    page: &[&'a ConnSnapshot],
    options: &ConnzOptions,
    page_header: &PageHeader,
    source: &dyn SnapshotSource,
) -> Vec<ConnRow<'a>> {
    let mut subscriptions = match options.subs {
        Subs::None => HashMap::new(),
        Subs::Subjects | Subs::Detail => {
            let cids: Vec<u64> = page.iter().map(|conn| conn.cid).collect();
            source.subscriptions_of(&cids)
        }
    };
    page.iter()
        .map(|&conn| {
            let mut row = ConnRow::of(conn, page_header);
            row.show_subscriptions(options.subs, subscriptions.remove(&conn.cid).unwrap_or_default());
            if options.auth {
                row.show_identity(conn);
            }
            if options.refused {
                row.refused = conn.refused.as_deref().map(RefusedRow::of);
            }
            row
        })
        .collect()
}

#[derive(Serialize)]
struct RefusedRow<'a> {
    count: u64,
    last: Vec<RefusalRow<'a>>,
}

#[derive(Serialize)]
struct RefusalRow<'a> {
    at: String,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    denied_by: Option<&'a str>,
}

impl<'a> RefusedRow<'a> {
    fn of(refused: &'a RefusedSnapshot) -> Self {
        let row = |refusal: &'a RefusalSnapshot| RefusalRow {
            at: utc(refusal.at),
            error: &refusal.error,
            denied_by: refusal.denied_by.as_deref(),
        };
        Self { count: refused.count, last: refused.last.iter().map(row).collect() }
    }
}

/// The row of a link with another server, which pages about links show.
pub(crate) fn link_row<'a>(conn: &'a ConnSnapshot, page_header: &PageHeader) -> ConnRow<'a> {
    ConnRow::of(conn, page_header)
}

#[derive(Serialize)]
pub(crate) struct ConnRow<'a> {
    cid: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    transport: &'a str,
    ip: &'a str,
    port: u16,
    start: String,
    last_activity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    rtt: String,
    uptime: String,
    idle: String,
    pending_bytes: u64,
    in_msgs: u64,
    out_msgs: u64,
    in_bytes: u64,
    out_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    stalls: u64,
    subscriptions: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    lang: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(flatten)]
    tls: TlsRow<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    authorized_user: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    account: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscriptions_list: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscriptions_list_detail: Vec<SubDetail>,
    #[serde(skip_serializing_if = "str::is_empty")]
    jwt: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    issuer_key: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name_tag: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    mqtt_client: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<ConnProxy<'a>>,
    /// Ours alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<RefusedRow<'a>>,
}

/// How a connection is encrypted; nothing of a plain one.
#[derive(Default, Serialize)]
struct TlsRow<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    tls_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tls_cipher_suite: &'a str,
    #[serde(skip_serializing_if = "<[PeerCert]>::is_empty")]
    tls_peer_certs: &'a [PeerCert],
    #[serde(skip_serializing_if = "is_false")]
    tls_first: bool,
}

#[derive(Serialize)]
struct ConnProxy<'a> {
    key: &'a str,
}

impl<'a> TlsRow<'a> {
    /// The row without the certificates, which have to be asked for.
    fn of(tls: &'a Tls) -> Self {
        Self {
            tls_version: &tls.version,
            tls_cipher_suite: &tls.cipher_suite,
            tls_peer_certs: &[],
            tls_first: tls.first,
        }
    }
}

impl<'a> ConnRow<'a> {
    /// The row without what has to be asked for. A closed connection's ages end when it ended.
    fn of(conn: &'a ConnSnapshot, page_header: &PageHeader) -> Self {
        let end = conn.closed.as_ref().map_or(page_header.now, |closed| closed.stop);
        let moment = |at| moment_in(at, &page_header.zone);
        Self {
            cid: conn.cid,
            kind: conn.kind,
            transport: conn.transport,
            ip: &conn.ip,
            port: conn.port,
            start: moment(conn.start),
            last_activity: moment(conn.last_activity),
            stop: conn.closed.as_ref().map(|closed| moment(closed.stop)),
            reason: conn.closed.as_ref().map_or("", |closed| &closed.reason),
            rtt: round_trip(conn.rtt),
            uptime: age(conn.start, end),
            idle: age(conn.last_activity, end),
            pending_bytes: conn.pending_bytes,
            in_msgs: conn.in_msgs,
            out_msgs: conn.out_msgs,
            in_bytes: conn.in_bytes,
            out_bytes: conn.out_bytes,
            stalls: conn.stalls,
            subscriptions: conn.subscriptions,
            name: &conn.name,
            lang: &conn.library.lang,
            version: &conn.library.version,
            tls: conn.tls.as_ref().map(TlsRow::of).unwrap_or_default(),
            authorized_user: "",
            account: "",
            subscriptions_list: Vec::new(),
            subscriptions_list_detail: Vec::new(),
            jwt: "",
            issuer_key: "",
            name_tag: "",
            tags: &[],
            mqtt_client: &conn.mqtt_client,
            proxy: Some(&*conn.proxy_key).filter(|key| !key.is_empty()).map(|key| ConnProxy { key }),
            refused: None,
        }
        .with_claims_of_closed(conn)
    }

    /// Compat: a closed connection shows its user's JWT whether it was asked for or not.
    fn with_claims_of_closed(mut self, conn: &'a ConnSnapshot) -> Self {
        if conn.closed.is_some() {
            self.show_claims(conn);
            self.name_tag = conn.claims.as_ref().map_or("", |claims| &claims.name);
        }
        self
    }

    fn show_claims(&mut self, conn: &'a ConnSnapshot) {
        if let Some(claims) = &conn.claims {
            self.jwt = &claims.jwt;
            self.issuer_key = &claims.issuer_key;
            self.tags = &claims.tags;
        }
    }

    /// Compat: the details of a closed connection name its account, those of an open one do not.
    fn show_subscriptions(&mut self, subs: Subs, list: Vec<SubSnapshot>) {
        match subs {
            Subs::None => {}
            Subs::Subjects => {
                self.subscriptions_list = list.into_iter().map(|sub| sub.subject).collect();
            }
            Subs::Detail if self.stop.is_some() => {
                self.subscriptions_list_detail = list.into_iter().map(SubDetail::with_account).collect();
            }
            Subs::Detail => {
                self.subscriptions_list_detail = list.into_iter().map(SubDetail::without_account).collect();
            }
        }
    }

    /// Compat: the default account's display name is shown for an open connection only.
    fn show_identity(&mut self, conn: &'a ConnSnapshot) {
        self.authorized_user = &conn.authorized_user;
        if let Some(tls) = &conn.tls
            && conn.closed.is_none()
        {
            self.tls.tls_peer_certs = &tls.peer_certs;
        }
        self.show_claims(conn);
        let is_default = conn.account == DEFAULT_ACCOUNT;
        if !is_default {
            self.account = &conn.account;
        }
        if !is_default || conn.closed.is_none() {
            self.name_tag = &conn.account_tag;
        }
    }
}
