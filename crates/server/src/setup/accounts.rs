//! Accounts: limits, exports, imports and mappings.

use myelin_broker::{
    Access, AccountConfig, AccountLimits, DEFAULT_RESPONSE_THRESHOLD, Export, Import, LatencyConfig,
    ResponseType, ServiceExport, ServiceImport, StreamExport, StreamImport, TraceDestination,
};
use myelin_conf::options::{self, GLOBAL_ACCOUNT, MappingOptions, Options};
use myelin_subject::{MappingError, Mappings, WeightedDestination, prefixed};
use std::collections::HashMap;
use std::sync::Arc;

/// The configured accounts.
///
/// # Errors
/// When a mapping is wrong; the configuration has checked that already.
pub(crate) fn accounts(options: &Options) -> Result<Vec<AccountConfig>, MappingError> {
    let global = options.accounts.global_mappings.as_ref().map(|mappings| {
        Ok(AccountConfig { mappings: self::mappings(mappings)?, ..AccountConfig::named(GLOBAL_ACCOUNT) })
    });
    let mut accounts: Vec<_> =
        options.accounts.list.iter().map(account).chain(global).collect::<Result<_, _>>()?;
    use_default_domains(options, &mut accounts)?;
    let has_others = options.cluster.listener.port.is_some() || crate::gateway::name(options).is_some();
    if has_others && !options.jetstream.enabled {
        offer_jetstream_of_others(options, &mut accounts);
    }
    Ok(accounts)
}

/// Requests to JetStream, which go to another domain where one is the default.
const OF_DOMAINS: [&str; 9] = [
    "$JS.API.INFO",
    "$JS.API.STREAM.>",
    "$JS.API.CONSUMER.>",
    "$JS.API.DIRECT.>",
    "$JS.API.META.>",
    "$JS.API.SERVER.>",
    "$JS.API.ACCOUNT.>",
    "$KV.>",
    "$OBJ.>",
];

/// Mappings by which accounts use the JetStream of a domain, by account: sources and where their
/// messages go.
pub(crate) fn default_domains(options: &Options) -> HashMap<String, Vec<(String, String)>> {
    let named = options.jetstream.default_domains.iter().filter(|(_, domain)| !domain.is_empty());
    let mappings = named.map(|(name, domain)| {
        let to_domain = |subject: &str| {
            let asked = subject.strip_prefix("$JS.API.").unwrap_or(subject);
            (subject.to_owned(), format!("$JS.{domain}.API.{asked}"))
        };
        (name.clone(), OF_DOMAINS.into_iter().map(to_domain).collect())
    });
    mappings.collect()
}

/// Has accounts without JetStream here use that of a domain. Those of tokens get their mappings
/// with these.
fn use_default_domains(options: &Options, accounts: &mut Vec<AccountConfig>) -> Result<(), MappingError> {
    if !options.operators.list.is_empty() || !options.operators.trusted_keys.is_empty() {
        return Ok(());
    }
    for (name, mappings) in &default_domains(options) {
        if !accounts.iter().any(|account| account.name == *name) {
            accounts.push(AccountConfig::named(name));
        }
        for account in accounts.iter_mut().filter(|account| account.name == *name) {
            for (source, destination) in mappings {
                let (subject, cluster) = (destination.clone(), String::new());
                account.mappings.insert(source, &[WeightedDestination { subject, weight: 100, cluster }])?;
            }
        }
    }
    Ok(())
}

/// All requests to JetStream.
const JETSTREAM_API: &str = "$JS.API.>";

/// Has accounts reach the JetStream of other servers, of this cluster or another, which hear of
/// requests in the system account. Compat: those that are said to have JetStream, or the global one
/// where nobody is configured.
fn offer_jetstream_of_others(options: &Options, accounts: &mut Vec<AccountConfig>) {
    let Some(system) = options.accounts.system_account() else { return };
    let is_simple = options.accounts.list.iter().all(|account| account.name == system);
    let wants = |name: &str| {
        let mut list = options.accounts.list.iter();
        let has = list.any(|account| account.name == name && account.jetstream.is_some());
        name != system && (has || (is_simple && name == GLOBAL_ACCOUNT))
    };
    for name in [system, GLOBAL_ACCOUNT] {
        if !accounts.iter().any(|account| account.name == name) {
            accounts.push(AccountConfig::named(name));
        }
    }
    for account in accounts {
        if account.name == system {
            let export = ServiceExport::public(JETSTREAM_API);
            account.exports.push(Export::Service(Arc::new(export)));
        } else if wants(&account.name) {
            account.imports.push(Import::Service(Arc::new(ServiceImport {
                account: system.to_owned(),
                subject: JETSTREAM_API.to_owned(),
                to: JETSTREAM_API.to_owned(),
                share: true,
                is_activated: false,
            })));
        }
    }
}

fn account(from: &options::AccountOptions) -> Result<AccountConfig, MappingError> {
    let limit = |n: Option<u32>| n.map(|n| n as usize);
    Ok(AccountConfig {
        name: from.name.clone(),
        limits: AccountLimits {
            max_connections: limit(from.limits.max_connections),
            max_subscriptions: limit(from.limits.max_subscriptions),
            max_leaf_nodes: limit(from.limits.max_leafnodes),
            max_payload: from.limits.max_payload,
        },
        exports: from.exports.iter().map(export).collect(),
        imports: from.imports.iter().map(import).collect(),
        mappings: mappings(&from.mappings)?,
        trace: from
            .message_trace
            .as_ref()
            .map(|trace| TraceDestination { subject: trace.destination.clone(), sampling: trace.sampling }),
        // That is said elsewhere.
        is_asked: false,
    })
}

fn mappings(from: &[MappingOptions]) -> Result<Mappings, MappingError> {
    let mut mappings = Mappings::default();
    for MappingOptions { subject, destinations } in from {
        let destinations: Vec<_> = destinations
            .iter()
            .map(|destination| WeightedDestination {
                subject: destination.subject.clone(),
                weight: destination.weight,
                cluster: destination.cluster.clone(),
            })
            .collect();
        mappings.insert(subject, &destinations)?;
    }
    Ok(mappings)
}

fn access(from: &options::ExportAccess) -> Access {
    Access {
        accounts: from.accounts.clone(),
        account_token_position: from.account_token_position,
        ..Access::default()
    }
}

fn export(from: &options::ExportOptions) -> Export {
    match from {
        options::ExportOptions::Stream(stream) => {
            Export::Stream(StreamExport { subject: stream.subject.clone(), access: access(&stream.access) })
        }
        options::ExportOptions::Service(service) => Export::Service(Arc::new(ServiceExport {
            subject: service.subject.clone(),
            access: access(&service.access),
            response: match service.response {
                options::ResponseType::Single => ResponseType::Singleton,
                options::ResponseType::Stream => ResponseType::Streamed,
                options::ResponseType::Chunked => ResponseType::Chunked,
            },
            threshold: service.threshold.unwrap_or(DEFAULT_RESPONSE_THRESHOLD),
            latency: service.latency.as_ref().map(|latency| LatencyConfig {
                subject: latency.subject.clone(),
                sampling: match latency.sampling {
                    options::LatencySampling::Headers => 0,
                    options::LatencySampling::Percent(percent) => percent,
                },
            }),
            allow_trace: service.allow_trace,
        })),
    }
}

fn import(from: &options::ImportOptions) -> Import {
    match from {
        options::ImportOptions::Stream(stream) => Import::Stream(StreamImport {
            account: stream.account.clone(),
            subject: stream.subject.clone(),
            to: stream_name(stream),
            is_activated: false,
            allow_trace: stream.allow_trace,
        }),
        options::ImportOptions::Service(service) => Import::Service(Arc::new(ServiceImport {
            account: service.account.clone(),
            subject: service.subject.clone(),
            to: service.to.clone(),
            share: service.share,
            is_activated: false,
        })),
    }
}

/// Name of an imported stream in the importing account.
fn stream_name(from: &options::StreamImport) -> String {
    match &from.name {
        options::StreamName::Same => from.subject.clone(),
        options::StreamName::Mapped(to) => to.clone(),
        options::StreamName::Prefixed(prefix) => prefixed(prefix, &from.subject),
    }
}
