//! Options that forbid each other: the file is valid, and the server does not start.

use crate::{ConfigFile, load, reference, run};

const CONFLICTS: &[(&str, &str)] = &[
    (
        "lame_duck_duration: \"30s\", lame_duck_grace_period: \"30s\"",
        "lame duck grace period (30s) should be strictly lower than lame duck duration (30s)",
    ),
    (
        "lame_duck_grace_period: \"2m0.5s\"",
        "lame duck grace period (2m0.5s) should be strictly lower than lame duck duration (2m0s)",
    ),
    (
        "max_payload: 2MB, max_pending: 1MB",
        "max_payload (2097152) cannot be higher than max_pending (1048576)",
    ),
    ("max_pending: 1000", "max_payload (1048576) cannot be higher than max_pending (1000)"),
    ("no_auth_user: a", "no_auth_user: \"a\" present, but users/nkeys are not defined"),
    (
        "no_auth_user: a, authorization { users: [{user: b, password: c}] }",
        "no_auth_user: \"a\" not present as user or nkey in authorization block or account configuration",
    ),
    ("system_account: A", "error resolving system account: account missing"),
    ("system_account: \"$SYS\"", "error resolving system account: account missing"),
    ("system_account: B, accounts { A {} }", "error resolving system account: account missing"),
];

/// Conflicts between the blocks of links and services, with the error for each.
const LINKS: &[(&str, &str)] = &[
    ("gateway { port: 7222 }", "gateway has no name"),
    ("gateway { name: a }", "gateway \"a\" has no port specified (select -1 for random port)"),
    ("gateway { name: a, port: -1, gateways: [{url: \"nats://a:1\"}] }", "gateway in the list 0 has no name"),
    (
        "gateway { name: a, port: -1, gateways: [{name: b, url: \"nats://a:1\"}, {name: c}] }",
        "gateway \"c\" has no URL",
    ),
    (
        "cluster { name: a, port: -1 }\ngateway { name: b, port: -1 }",
        "cluster name conflicts between cluster and gateway definitions",
    ),
    ("server_name: _, leafnodes { remotes: [{url: \"nats://a\"}] }", "cluster name is reserved"),
    ("cluster { port: -1, compression: nonsense }", "unsupported compression mode \"nonsense\""),
    (
        "cluster { compression: {mode: s2_auto, rtt: [\"20ms\", \"10ms\"]} }",
        "RTT threshold values [20ms 10ms] should be in ascending order",
    ),
    (
        "cluster { compression: {mode: auto, rtt: [\"0s\", \"-1s\"]} }",
        "compression mode \"auto\" requires at least one RTT threshold",
    ),
    (
        "cluster { compression: {mode: auto, rtt: [\"1ms\", \"2ms\", \"3ms\", \"4ms\", \"1m5s\"]} }",
        "compression mode \"auto\" should have no more than 4 RTT thresholds: [1ms 2ms 3ms 4ms 1m5s]",
    ),
    (
        "cluster { port: -1, pool_size: -1, accounts: [A] }",
        "pool_size cannot be negative if pinned accounts are specified",
    ),
    (
        "cluster { port: -1, accounts: [A, A] }",
        "found duplicate account name \"A\" in pinned accounts list [\"A\" \"A\" \"$SYS\"]",
    ),
    (
        "leafnodes { port: -1 }\ngateway { name: a, port: -1 }",
        "leaf nodes and gateways (both being defined) require a system account to also be configured",
    ),
    (
        "leafnodes { authorization { account: NONE } }",
        "cannot find local account \"NONE\" specified in leafnode authorization",
    ),
    (
        "leafnodes { authorization { users: [{user: a, account: NONE}] } }",
        "cannot find local account \"NONE\" specified in leafnode authorization",
    ),
    (
        "leafnodes { remotes: [{url: \"nats://a\", account: NONE}] }",
        "cannot find local account \"NONE\" specified in leafnode remote",
    ),
    (
        "no_system_account: true, leafnodes { remotes: [{url: \"nats://a\", account: \"$SYS\"}] }",
        "cannot find local account \"$SYS\" specified in leafnode remote",
    ),
    (
        "leafnodes { remotes: [{urls: [\"nats://u:p@a\", \"ws://b\"]}] }",
        "remote leaf node configuration cannot have a mix of websocket and non-websocket urls: [\"nats://u:xxxxx@a:7422\" \"ws://b:7422\"]",
    ),
    (
        "leafnodes { remotes: [{url: \"nats://a\", compression: gzip}] }",
        "unsupported compression mode \"gzip\"",
    ),
    ("leafnodes { compression: gzip }", "unsupported compression mode \"gzip\""),
    (
        "leafnodes { remotes: [{url: \"nats://a\"}, {url: \"nats://a:7422\"}] }",
        "duplicate remote urls=[\"nats://a:7422\"], account=\"$G\"",
    ),
    ("websocket { port: -1 }", "websocket requires TLS configuration"),
    (
        "websocket { port: -1, no_tls: true, origins: [\"ftp://a\"] }",
        "unable to parse allowed origin \"ftp://a\": allowed origins must be absolute URLs with http or https scheme",
    ),
    (
        "websocket { port: -1, no_tls: true, origins: [\"http:///a\"] }",
        "unable to parse allowed origin \"http:///a\": host is required",
    ),
    (
        "websocket { port: -1, no_tls: true, origins: [\"a\"] }",
        "unable to parse allowed origin: parse \"a\": invalid URI for request",
    ),
    (
        "websocket { port: -1, no_tls: true, origins: [\"\"] }",
        "unable to parse allowed origin: parse \"\": empty url",
    ),
    (
        "websocket { port: -1, no_tls: true, no_auth_user: a }",
        "no_auth_user: \"a\" present, but users/nkeys are not defined",
    ),
    (
        "websocket { port: -1, no_tls: true, authorization { user: a } }\nauthorization { users: [{user: b, password: c}] }",
        "websocket authentication username not compatible with presence of users/nkeys",
    ),
    (
        "websocket { port: -1, no_tls: true, authorization { token: a } }\nauthorization { users: [{user: b, password: c}] }",
        "websocket authentication token not compatible with presence of users/nkeys",
    ),
    (
        "websocket { port: -1, no_tls: true, jwt_cookie: a }",
        "trusted operators or trusted keys configuration is required for JWT authentication via cookie \"a\"",
    ),
    (
        "websocket { port: -1, no_tls: true, headers { Upgrade: a } }",
        "websocket: invalid header \"Upgrade\" not allowed",
    ),
    (
        "websocket { port: -1, no_tls: true, headers { \"Sec-WebSocket-X\": a } }",
        "websocket: invalid header \"Sec-WebSocket-X\", \"Sec-WebSocket-\" prefix not allowed",
    ),
    ("mqtt { port: -1 }", "mqtt requires JetStream to be enabled if running in standalone mode"),
    ("mqtt { port: -1 }\ncluster { port: -1 }", "mqtt requires server name to be explicitly set"),
    ("mqtt { port: -1, no_auth_user: a }", "no_auth_user: \"a\" present, but users/nkeys are not defined"),
    (
        "mqtt { port: -1, authorization { user: a } }\nauthorization { users: [{user: b, password: c}] }",
        "mqtt authentication username not compatible with presence of users/nkeys",
    ),
    (
        "mqtt { port: -1, authorization { token: a } }\nauthorization { users: [{user: b, password: c}] }",
        "mqtt authentication token not compatible with presence of users/nkeys",
    ),
    (
        "jetstream { domain: \"a..b\" }",
        "invalid domain name: derived \"$JS.a..b.API.>\" is not a valid subject",
    ),
    ("jetstream { domain: \"a.b\" }", "invalid domain name: may not contain ., * or >"),
    ("jetstream: true, cluster { port: -1 }", "jetstream cluster requires `server_name` to be set"),
    (
        "jetstream: true, server_name: a, cluster { port: -1 }",
        "jetstream cluster requires `cluster.name` to be set",
    ),
    (
        "jetstream { extension_hint: Perhaps }\nserver_name: a, cluster { port: -1, name: c }",
        "expected 'no_extend' for string value, got 'perhaps'",
    ),
    (
        "default_js_domain { NONE: x }",
        "in non operator mode, `default_js_domain` references non existing account \"NONE\"",
    ),
    (
        "default_js_domain { A: x }\njetstream: true, accounts { A { jetstream: enabled } }",
        "default_js_domain contains account name \"A\" with enabled JetStream",
    ),
    (
        "default_js_domain { S: x }\naccounts: [S], system_account: S",
        "system account \"S\" can not be in default_js_domain",
    ),
    (
        "default_js_domain { A: \"x..y\" }\naccounts: [A]",
        "default_js_domain contains account \"A\" with invalid domain name \"x..y\"",
    ),
];

#[test]
fn conflicts_are_named_when_the_server_starts() {
    for (text, message) in CONFLICTS.iter().chain(LINKS) {
        let file = ConfigFile::new(text);
        let error = load(&["-c", &file.path()]).expect_err(text);
        assert_eq!(error.to_string(), format!("myelin-server: {message}"), "{text}");
        assert_eq!(error.exit_code(), 1);
        assert!(load(&["-t", "-c", &file.path()]).is_ok(), "-t looks at the file alone: {text}");
    }
}

#[test]
fn the_reference_names_the_same_conflicts() {
    let Some(program) = reference::find() else { return };
    for (text, message) in CONFLICTS.iter().chain(LINKS) {
        let file = ConfigFile::new(text);
        let output = reference::run(&program, &["-a", "127.0.0.1", "-p", "-1", "-c", &file.path()]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("nats-server: {message}\n"), "{text}");
        assert_eq!(output.status.code(), Some(1), "{text}");
    }
}

#[test]
fn a_server_name_with_spaces_cannot_come_from_a_flag_either() {
    let error = load(&["-n", "a b"]).expect_err("a name with a space");
    assert_eq!(error.to_string(), "myelin-server: server name cannot contain spaces");
}

#[test]
fn flags_can_complete_a_file() {
    let file = ConfigFile::new("server_name: a");
    let loaded = run(&["-c", &file.path(), "-n", "b"]);
    assert_eq!(loaded.options.server.name.as_deref(), Some("b"));
}
