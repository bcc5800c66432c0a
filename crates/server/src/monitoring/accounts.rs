//! Accounts of the broker as snapshots for the pages: who is in them, what was moved, how their
//! index does.

use jiff::Timestamp;
use myelin_auth::jwt::Issue;
use myelin_broker::{
    Account, AwaitedAnswer, Broker, Export, Import, LatencyConfig, PastTraffic, ResponseType, ServiceImport,
};
use myelin_monitor::{
    AccountClaims, AccountSnapshot, ClaimsIssue, ExchangeSnapshot, ExportSnapshot, ExportType,
    ImportSnapshot, InterestSnapshot, LatencySnapshot, MappingSnapshot, Volume,
};
use myelin_subject::{is_subset, numbered, starred};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

/// Accounts by name, of those that are wanted. The reference lists them in the order of a hash
/// table.
pub(super) fn ordered(broker: &Broker, is_wanted: impl Fn(&Account) -> bool) -> Vec<Arc<Account>> {
    let mut accounts = broker.accounts();
    accounts.retain(|account| is_wanted(account));
    accounts.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    accounts
}

/// One account by name, or all of them.
pub(super) fn selected(broker: &Broker, name: Option<&str>) -> Vec<Arc<Account>> {
    match name {
        Some(name) => broker.account(name).into_iter().collect(),
        None => broker.accounts(),
    }
}

/// Traffic of the connections of each account, those that have ended included. Nothing on the data
/// path counts by account: the broker sums it up.
pub(super) struct Moved(HashMap<String, PastTraffic>);

impl Moved {
    pub(super) fn of(broker: &Broker) -> Self {
        Self(broker.traffic_by_account().into_iter().collect())
    }

    fn by(&self, account: &Account) -> PastTraffic {
        self.0.get(account.name()).copied().unwrap_or_default()
    }
}

pub(super) fn snapshot(account: &Account, moved: &Moved, updated: Timestamp) -> AccountSnapshot {
    let traffic = moved.by(account);
    let leafs = account.leaf_traffic();
    let volume = |(msgs, bytes)| Volume { msgs, bytes };
    AccountSnapshot {
        name: account.name().to_owned(),
        tag: account.name().to_owned(),
        is_system: account.is_system(),
        updated,
        clients: account.connections(),
        leafnodes: account.leaf_nodes(),
        received: volume(traffic.received),
        sent: volume(traffic.sent),
        received_from_leafs: volume(leafs.received),
        sent_to_leafs: volume(leafs.sent),
        slow_consumers: traffic.slow_consumers,
        interest: interest(account, moved),
        jetstream: false,
        exchange: ExchangeSnapshot::default(),
        claims: None,
    }
}

/// Exports and imports of an account.
pub(super) fn exchange(account: &Account, broker: &Broker) -> ExchangeSnapshot {
    let config = account.config();
    let mappings = config.mappings.destinations().map(|(source, destinations)| {
        let destinations = destinations.into_iter().map(|(cluster, weight, subject)| MappingSnapshot {
            subject: subject.to_owned(),
            weight,
            cluster: cluster.to_owned(),
        });
        (source.to_owned(), destinations.collect())
    });
    ExchangeSnapshot {
        mappings: mappings.collect(),
        exports: config.exports.iter().map(export).collect(),
        imports: config.imports.iter().map(|import| self::import(account, import, broker)).collect(),
        responses: account.awaiting().into_iter().map(|a| (a.subject.clone(), response(a))).collect(),
    }
}

fn export(export: &Export) -> ExportSnapshot {
    let (kind, subject, access, response, latency) = match export {
        Export::Stream(stream) => (ExportType::Stream, &stream.subject, &stream.access, "", None),
        Export::Service(service) => {
            let response = match service.response {
                ResponseType::Singleton => "Singleton",
                ResponseType::Streamed => "Streamed",
                ResponseType::Chunked => "Chunked",
            };
            (ExportType::Service, &service.subject, &service.access, response, service.latency.as_ref())
        }
    };
    ExportSnapshot {
        subject: subject.clone(),
        kind,
        token_req: access.token_required,
        response_type: response,
        service_latency: latency.map(measured),
        approved_accounts: access.accounts.clone(),
    }
}

fn measured(latency: &LatencyConfig) -> LatencySnapshot {
    LatencySnapshot { sampling: latency.sampling, results: latency.subject.clone() }
}

/// How an imported service is measured by the account that exports it.
fn latency_of(import: &ServiceImport, broker: &Broker) -> Option<LatencySnapshot> {
    let (exporter, subject) = (broker.account(&import.account)?, starred(&import.subject).0);
    let config = exporter.config();
    config.exports.iter().find_map(|export| match export {
        Export::Service(service) if is_subset(subject.as_bytes(), service.subject.as_bytes()) => {
            service.latency.as_ref().map(measured)
        }
        _ => None,
    })
}

fn import(account: &Account, import: &Import, broker: &Broker) -> ImportSnapshot {
    let latency = match import {
        Import::Service(service) => latency_of(service, broker),
        Import::Stream(_) => None,
    };
    let (kind, exporter, subject, to, share) = match import {
        Import::Stream(stream) => (ExportType::Stream, &stream.account, &stream.subject, &stream.to, false),
        Import::Service(service) => {
            (ExportType::Service, &service.account, &service.subject, &service.to, service.share)
        }
    };
    // Compat: what is called here is shown as a pattern.
    let local_subject = starred(&numbered(to)).0;
    ImportSnapshot {
        subject: starred(subject).0,
        account: exporter.clone(),
        to: if kind == ExportType::Service { local_subject.clone() } else { String::new() },
        local_subject,
        kind,
        invalid: !account.holds(import),
        share,
        tracking: false,
        latency,
    }
}

fn response(awaited: AwaitedAnswer) -> ImportSnapshot {
    ImportSnapshot {
        subject: awaited.reply,
        account: awaited.account,
        to: awaited.subject.clone(),
        local_subject: awaited.subject,
        kind: ExportType::Response,
        invalid: false,
        share: awaited.share,
        tracking: false,
        latency: None,
    }
}

/// Adds what the account's token says.
pub(super) fn with_claims(snapshot: AccountSnapshot, broker: &Broker) -> AccountSnapshot {
    let Some(trusted) = broker.trusted() else { return snapshot };
    let Some(account) = trusted.get(&snapshot.name) else { return snapshot };
    let now = SystemTime::now();
    let said = account.claims();
    let issue = |issue: &Issue| ClaimsIssue {
        description: issue.description.clone(),
        is_blocking: issue.blocking,
        is_about_time: issue.time_check,
    };
    let moment = |second: &i64| Timestamp::from_second(*second).unwrap_or_default();
    let claims = AccountClaims {
        jwt: account.token().to_owned(),
        issuer_key: account.issuer().to_owned(),
        tags: said.account_tags().to_vec(),
        decoded: said.raw.clone(),
        issues: account.issues(now).iter().map(issue).collect(),
        revoked: said.nats.revocations.iter().map(|(key, at)| (key.clone(), moment(at))).collect(),
        is_expired: account.is_expired(now),
        is_complete: true,
    };
    AccountSnapshot {
        tag: account.name_tag().to_owned(),
        updated: trusted
            .updated(&snapshot.name)
            .and_then(|at| at.try_into().ok())
            .unwrap_or(snapshot.updated),
        claims: Some(claims),
        ..snapshot
    }
}

/// The index of one account.
///
/// Compat: results are cached by shard and not by account, so what is said of a cache is zero here.
pub(super) fn interest(account: &Account, moved: &Moved) -> InterestSnapshot {
    InterestSnapshot { num_matches: moved.by(account).received.0, ..subscribed([account]) }
}

/// The indexes of all accounts, and the shards' caches of what was found in them.
pub(super) fn whole_interest(broker: &Broker) -> InterestSnapshot {
    let routes = broker.route_counts();
    let [matches, ..] = broker.traffic();
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    InterestSnapshot {
        num_cache: routes.cached as u32,
        num_matches: matches,
        cache_hit_rate: share(matches.saturating_sub(routes.misses), matches),
        max_fanout: routes.widest as u32,
        avg_fanout: share(routes.fanout, routes.cached),
        ..subscribed(broker.accounts().iter().map(|account| &**account))
    }
}

fn subscribed<'a>(accounts: impl IntoIterator<Item = &'a Account>) -> InterestSnapshot {
    let mut sum = InterestSnapshot::default();
    for account in accounts {
        let (now, ever) = subscriptions(account);
        sum.num_subscriptions += now as u32;
        sum.num_inserts += ever;
        sum.num_removes += ever.saturating_sub(now as u64);
    }
    sum
}

/// Subscriptions in an account, of clients, of the server itself and of other servers: now, and
/// ever.
pub(super) fn subscriptions(account: &Account) -> (usize, u64) {
    let (own_now, own_ever) = account.own_subscriptions();
    let (remote_now, remote_ever) = account.remote_subscriptions();
    (account.subscriptions() + own_now + remote_now, account.subscribed() + own_ever + remote_ever)
}
