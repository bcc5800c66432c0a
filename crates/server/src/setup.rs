//! From parsed options to the small configurations of the rooms below. `Options` ends here.

mod accounts;

pub(crate) use accounts::{accounts, default_domains};

use myelin_auth::callout::Callout;
use myelin_auth::operator::Trust;
use myelin_auth::{
    AccountName, AuthConfig, ConnectionType, ConnectionTypes, InvalidRule, Method, NkeyUser, Permissions,
    ResponseRule, Secret, StoredSecret, SubjectRules, User, Users,
};
use myelin_broker::{
    Labels, LinkWrites, MqttStorage, MqttTerms, ProtocolLogSettings, Settings, WritesByKind,
};
use myelin_conf::options::{
    self, Options, QueueSubject, SimpleAuthorization, SubjectPermission, WriteTimeout,
};
use myelin_stdx::entropy::OsEntropy;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// The broker's limits and timings.
pub(crate) fn settings(options: &Options) -> Settings {
    let limits = &options.limits;
    Settings {
        max_control_line: limits.max_control_line as usize,
        max_payload: limits.max_payload,
        max_pending: limits.max_pending as usize,
        max_connections: Some(limits.max_connections as usize),
        max_subscriptions: limits.max_subscriptions.map(|n| n as usize),
        max_sub_tokens: limits.max_sub_tokens.map(|n| n.get() as usize),
        ping_interval: limits.ping_interval,
        ping_max: limits.ping_max,
        auth_timeout: options.auth_timeout(),
        write_deadline: limits.write_deadline,
        headers: !limits.no_header_support,
        no_fast_producer_stall: limits.no_fast_producer_stall,
        retry_writes: limits.write_timeout == WriteTimeout::Retry,
        link_writes: WritesByKind {
            gateways: link_writes(options.gateway.write_deadline, options.gateway.write_timeout),
            routes: link_writes(options.cluster.write_deadline, options.cluster.write_timeout),
            leaf_nodes: LinkWrites {
                max_pending: Some((limits.max_pending as usize).saturating_mul(8).max(LEAST_FOR_LEAF_NODE)),
                ..link_writes(options.leaf_nodes.write_deadline, options.leaf_nodes.write_timeout)
            },
        },
        max_closed_clients: limits.max_closed_clients as usize,
        protocol_log: ProtocolLogSettings {
            max_payload: options.logging.max_traced_msg_len.map(|n| n as usize),
            headers_only: options.logging.trace_headers,
        },
    }
}

/// Least bytes that may wait for a leaf node that has dialled: eight times what a client may have
/// waiting by default.
///
/// A link of 10 MB/s takes most of a minute for as much. A leaf node that is alive is hardly
/// further behind, and one that is not costs no more memory than that. It holds also where clients
/// may have little waiting: the interest of a large account has to have room.
const LEAST_FOR_LEAF_NODE: usize = 512 * 1024 * 1024;

/// How long other servers may take nothing.
fn link_writes(deadline: Option<Duration>, timeout: WriteTimeout) -> LinkWrites {
    let deadline = deadline.filter(|deadline| !deadline.is_zero());
    LinkWrites { deadline, closes: timeout == WriteTimeout::Close, max_pending: None }
}

/// Labels of the server that events show beside its name.
pub(crate) fn labels(options: &Options) -> Labels {
    let identity = &options.identity;
    let flags = identity.feature_flags.merged().into_iter();
    Labels {
        tags: identity.tags.clone(),
        metadata: identity.metadata.clone(),
        feature_flags: flags.map(|(name, on)| (name.to_owned(), on)).collect(),
    }
}

/// The rules of authentication.
///
/// # Errors
/// When a permission is no valid pattern; the configuration has checked that already.
pub(crate) fn auth(options: &Options) -> Result<AuthConfig, InvalidRule> {
    let config = AuthConfig {
        callout: options.authorization.callout.as_ref().map(|from| Arc::new(callout(from))),
        proxies: options.proxies.trusted.clone().into(),
        proxy_required: options.authorization.proxy_required,
        ..client_auth(options)?
    };
    let (websocket, mqtt) = (&options.websocket, &options.mqtt);
    Ok(AuthConfig {
        websocket: auth_of_block(&websocket.authorization, &websocket.no_auth_user, &config).map(Box::new),
        mqtt: auth_of_block(&mqtt.authorization, &mqtt.no_auth_user, &config).map(Box::new),
        ..config
    })
}

fn callout(from: &options::AuthCalloutOptions) -> Callout {
    Callout {
        issuer: from.issuer.clone(),
        account: AccountName::new(&from.account),
        auth_users: from.auth_users.clone(),
        xkey: from.xkey.clone(),
        allowed_accounts: from.allowed_accounts.clone(),
    }
}

/// Terms of MQTT, where it is spoken.
pub(crate) fn mqtt_terms(options: &Options) -> Option<MqttTerms> {
    let mqtt = &options.mqtt;
    mqtt.listener.port.map(|_| MqttTerms {
        auth_timeout: mqtt.authorization.timeout,
        refuses_qos_2: mqtt.reject_qos2_publish,
        accepts_5: mqtt.speaks_5,
        elsewhere: mqtt.server_reference.as_deref().map(Arc::from),
    })
}

/// How sessions and messages of MQTT are stored.
pub(crate) fn mqtt_storage(options: &Options) -> MqttStorage {
    let mqtt = &options.mqtt;
    MqttStorage {
        domain: mqtt.js_domain.clone(),
        api_timeout: mqtt.js_api_timeout,
        ack_wait: mqtt.ack_wait,
        max_ack_pending: mqtt.max_ack_pending,
        replicas: mqtt.stream_replicas,
        consumers_in_memory: mqtt.consumer_memory_storage,
        consumer_inactive_threshold: mqtt.consumer_inactive_threshold,
        downgrades_qos_2: mqtt.downgrade_qos2_subscribe,
    }
}

/// Warnings about a callout that nobody can answer.
pub(crate) fn check_callout(options: &Options) -> Vec<String> {
    let Some(callout) = &options.authorization.callout else { return Vec::new() };
    let from = &options.authorization;
    let is_account = callout.account == options::GLOBAL_ACCOUNT
        || options.accounts.system_account() == Some(callout.account.as_str())
        || options.accounts.list.iter().any(|account| account.name == callout.account);
    let is_user = |name: &String| {
        let single = [&from.user, &options.websocket.authorization.user, &options.mqtt.authorization.user];
        single.contains(&&Some(name.clone()))
            || from.users.iter().any(|user| user.name == *name)
            || from.nkeys.iter().any(|user| user.nkey == *name)
    };
    let account = format!("Authorization callout account {:?} not valid", callout.account);
    let users = callout.auth_users.iter().filter(|name| !is_user(name));
    let users = users.map(|name| format!("Authorization callout user {name:?} not valid: user not found"));
    (!is_account).then_some(account).into_iter().chain(users).collect()
}

/// The rules for WebSocket or MQTT, if its block has any of its own. Compat: then none of the
/// clients' count, but for the users.
fn auth_of_block(
    from: &SimpleAuthorization,
    no_auth_user: &Option<String>,
    clients: &AuthConfig,
) -> Option<AuthConfig> {
    let no_auth_user = no_auth_user.clone();
    let secret = |s: &myelin_conf::Secret| StoredSecret::parse(s.reveal());
    let method = match (&from.token, &from.user) {
        (Some(token), _) => Method::Token(secret(token)),
        (None, Some(name)) => {
            let password =
                from.password.as_ref().map_or_else(|| StoredSecret::Plain(Secret::new("")), secret);
            Method::SingleUser { name: name.clone(), password }
        }
        (None, None) if no_auth_user.is_some() => clients.method.clone(),
        (None, None) => return None,
    };
    Some(AuthConfig { method, no_auth_user, no_auth_user_implied: false, ..clients.clone() })
}

fn client_auth(options: &Options) -> Result<AuthConfig, InvalidRule> {
    let from = &options.authorization;
    if let Some(trust) = trust(options) {
        return Ok(AuthConfig::new(Method::Operator(Arc::new(trust))));
    }
    let secret = |s: &myelin_conf::Secret| StoredSecret::parse(s.reveal());
    if let Some(token) = &from.token {
        return Ok(AuthConfig::new(Method::Token(secret(token))));
    }
    if let Some(name) = &from.user {
        let password = from.password.as_ref().map_or_else(|| StoredSecret::Plain(Secret::new("")), secret);
        return Ok(AuthConfig::new(Method::SingleUser { name: name.clone(), password }));
    }
    if from.users.is_empty() && from.nkeys.is_empty() {
        return Ok(AuthConfig::open());
    }
    let nkeys = from.nkeys.iter().map(nkey_user).collect::<Result<Vec<_>, _>>()?;
    let mut users = from.users.iter().map(user).collect::<Result<Vec<_>, _>>()?;
    let mut config = AuthConfig::new(Method::Open);
    config.no_auth_user = from.no_auth_user.clone();
    if options.anonymous_joins_global() {
        let name = unused_name(&users);
        config.no_auth_user = Some(name.clone());
        config.no_auth_user_implied = true;
        users.push(User {
            name,
            password: StoredSecret::Plain(Secret::new("")),
            account: AccountName::global(),
            permissions: None,
            connection_types: ConnectionTypes::default(),
            proxy_required: false,
        });
    }
    config.method = Method::Users(Users::new(users).with_nkeys(nkeys));
    let listeners = [
        (ConnectionType::Standard, options.tls.as_ref()),
        (ConnectionType::Websocket, options.websocket.tls.as_ref()),
        (ConnectionType::Leafnode, options.leaf_nodes.tls.as_ref()),
        (ConnectionType::LeafnodeWs, options.leaf_nodes.tls.as_ref()),
        (ConnectionType::Mqtt, options.mqtt.tls.as_ref()),
        (ConnectionType::MqttWs, options.mqtt.tls.as_ref()),
    ];
    let maps = |tls: Option<&options::TlsOptions>| tls.is_some_and(|tls| tls.verify_and_map);
    config.maps_certificates = listeners.iter().filter(|(_, tls)| maps(*tls)).map(|(via, _)| *via).collect();
    Ok(config)
}

/// A name for the user that stands for everybody without credentials, of the reference's form:
/// nobody guesses it, and who did would be who comes without credentials.
fn unused_name(users: &[User]) -> String {
    loop {
        let name = format!("nats-{}", myelin_stdx::id::unique(&OsEntropy, 8));
        if !users.iter().any(|user| user.name == name) {
            return name;
        }
    }
}

fn user(user: &options::UserOptions) -> Result<User, InvalidRule> {
    Ok(User {
        name: user.name.clone(),
        password: StoredSecret::parse(user.password.reveal()),
        account: user.account.as_deref().map_or_else(AccountName::global, AccountName::new),
        permissions: user.permissions.as_ref().map(permissions).transpose()?.map(Arc::new),
        connection_types: user.connection_types.iter().copied().collect(),
        proxy_required: user.proxy_required,
    })
}

fn nkey_user(user: &options::NkeyUserOptions) -> Result<NkeyUser, InvalidRule> {
    Ok(NkeyUser {
        nkey: user.nkey.clone(),
        account: user.account.as_deref().map_or_else(AccountName::global, AccountName::new),
        permissions: user.permissions.as_ref().map(permissions).transpose()?.map(Arc::new),
        connection_types: user.connection_types.iter().copied().collect(),
        proxy_required: user.proxy_required,
    })
}

/// Whom the server believes, if it trusts any operator.
fn trust(options: &Options) -> Option<Trust> {
    let from = &options.operators;
    if from.list.is_empty() && from.trusted_keys.is_empty() {
        return None;
    }
    let of_operators = from.list.iter().flat_map(|operator| {
        let own = (!operator.strict_signing_keys).then_some(&operator.key);
        own.into_iter().chain(&operator.signing_keys)
    });
    let strict = from.list.iter().filter(|operator| operator.strict_signing_keys);
    let pinned = &options.resolver.pinned_accounts;
    // The system account can always be used.
    let system = options.accounts.configured_system_account.as_ref();
    let pinned = (!pinned.is_empty()).then(|| pinned.iter().chain(system).cloned().collect());
    let sentinel = from.default_sentinel.as_ref().map(|token| Secret::new(token.reveal()));
    let trust = Trust::new(of_operators.chain(&from.trusted_keys).cloned())
        .with_strict(strict.flat_map(|operator| operator.signing_keys.iter().cloned()))
        .with_sentinel(sentinel)
        .with_pinned(pinned);
    Some(trust)
}

fn permissions(from: &options::Permissions) -> Result<Permissions, InvalidRule> {
    let responses = from
        .responses
        .map(|rule| ResponseRule { max: rule.max_messages.and_then(NonZeroU32::new), ttl: rule.expires });
    let publish = from.publish.as_ref().map(|rules| subject_rules(rules, String::clone));
    let subscribe = from.subscribe.as_ref().map(|rules| subject_rules(rules, queue_rule));
    Permissions::new(publish, subscribe, responses)
}

/// Permissions of routes: imports as what may be published, exports as what may be subscribed to.
pub(crate) fn route_permissions(
    cluster: &options::ClusterOptions,
) -> Result<Option<Permissions>, InvalidRule> {
    let Some(from) = &cluster.permissions else { return Ok(None) };
    let import = from.import.as_ref().map(|rules| subject_rules(rules, String::clone));
    let export = from.export.as_ref().map(|rules| subject_rules(rules, String::clone));
    Permissions::new(import, export, None).map(Some)
}

fn subject_rules<T>(from: &SubjectPermission<T>, rule: impl Fn(&T) -> String) -> SubjectRules {
    SubjectRules {
        allow: from.allow.iter().flatten().map(&rule).collect(),
        deny: from.deny.iter().map(&rule).collect(),
    }
}

fn queue_rule(rule: &QueueSubject) -> String {
    match &rule.queue {
        Some(queue) => format!("{} {queue}", rule.subject),
        None => rule.subject.clone(),
    }
}
