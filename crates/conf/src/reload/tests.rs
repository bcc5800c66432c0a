//! Changes of options, and what a reload says of them.

use super::*;
use crate::load_text;

fn options(text: &str) -> Options {
    load_text(text.as_bytes(), &|_| None).unwrap_or_else(|error| panic!("{text}: {error}")).options
}

const BOUND: BoundPorts =
    BoundPorts { client: 7777, websocket: Some(8888), mqtt: None, cluster: None, leaf: None };

fn compare(old: &str, new: &str) -> Result<String, String> {
    let lines = changes(&options(old), &options(new), BOUND).map_err(|error| error.to_string())?;
    let always = ["Reloaded: authorization users", "Reloaded: accounts"];
    let lines: Vec<_> = lines.iter().filter(|line| !always.contains(&line.as_str())).cloned().collect();
    Ok(lines.join("; "))
}

#[test]
fn a_check_tells_of_all_changes_what_becomes_of_them() {
    let checked = |old: &str, new: &str| {
        let log_line = check_reload(&options(old), &options(new), BOUND);
        log_line.iter().map(|change| format!("{:<9} {}", change.effect, change.text)).collect::<Vec<_>>()
    };
    assert_eq!(checked("max_payload: 5", "max_payload: 5"), [""; 0]);
    assert_eq!(
        checked(
            "max_connections: 9, authorization { users: [{user: a, password: b}] }",
            "port: 5, max_payload: 5, max_connections: 8, max_pending: 2048, server_name: x, \
             authorization { users: [{user: a, password: c}] }",
        ),
        [
            "restart   config reload not supported for ServerName: old=, new=x",
            "restart   config reload not supported for Port: old=4222, new=5",
            "reconnect max_connections = 8",
            "reconnect authorization users",
            "live      max_payload = 5",
            "restart   config reload not supported for MaxPending: old=67108864, new=2048",
        ]
    );
    assert_eq!(checked("max_connections: 8", "max_connections: 9"), ["live      max_connections = 9"]);
    assert_eq!(checked("", "accounts { A {} }"), ["reconnect accounts"]);
    let tls = "tls { cert_file: a, key_file: b }";
    assert_eq!(checked(tls, tls), [""; 0]);
}

/// As nats-server 2.15.2 wrote them.
#[test]
fn live_changes_are_named_in_the_reference_order() {
    let new = r#"
        server_tags: [a, b]
        server_metadata { a: b }
        ocsp: true
        ocsp_cache: true
        reconnect_error_reports: 6
        connect_error_reports: 5
        max_traced_msg_len: 7
        write_deadline: "3s"
        pid_file: "/p"
        no_fast_producer_stall: true
        max_payload: 100
        max_control_line: 500
        ping_max: 5
        ping_interval: "90s"
        max_connections: 0
        debug: true
        client_advertise: "1.2.3.4:55"
        authorization { user: a, password: p, timeout: 2.5 }
    "#;
    let lines = changes(&options(""), &options(new), BOUND).unwrap();
    assert_eq!(
        lines,
        [
            "Reload: client_advertise = 1.2.3.4:55",
            "Reloaded: debug = true",
            "Reloaded: max_connections = -1",
            "Reloaded: authorization users",
            "Reloaded: accounts",
            "Reloaded: authorization username",
            "Reloaded: authorization password",
            "Reloaded: ping_interval = 1m30s",
            "Reloaded: ping_max = 5",
            "Reloaded: authorization timeout = 2.5",
            "Reloaded: max_control_line = 500",
            "Reloaded: max_payload = 100",
            "Reloaded: fast producers will not be stalled",
            "Reloaded: pid_file = /p",
            "Reloaded: write_deadline = 3s",
            "Reloaded: max_traced_msg_len = 7",
            "Reloaded: connect_error_reports = 5",
            "Reloaded: reconnect_error_reports = 6",
            "Reloaded: tags",
            "Reloaded: metadata",
            "Reloaded: OCSP",
            "Reloaded OCSP peer cache",
        ]
    );
}

#[test]
fn nothing_of_websocket_may_change() {
    let block = |port: &str, more: &str| format!("websocket {{ port: {port}, no_tls: true, {more} }}");
    let same = [("-1", ""), ("8888", ""), ("-1", "compression: false")];
    for (port, more) in same {
        assert_eq!(compare(&block("-1", ""), &block(port, more)), Ok(String::new()), "{port} {more}");
    }
    let lists = ["origins: [\"http://a\", \"http://b\"]", "origins: [\"http://b\", \"http://a\"]"];
    assert_eq!(compare(&block("-1", lists[0]), &block("-1", lists[1])), Ok(String::new()));
    for (port, more) in [("80", ""), ("-1", "compression: true"), ("-1", "headers { a: b }")] {
        let error = compare(&block("-1", ""), &block(port, more)).unwrap_err();
        assert!(error.starts_with("config reload not supported for Websocket: old={0.0.0.0 -1}"), "{error}");
    }
    assert!(compare(&block("-1", ""), "").is_err() && compare("", &block("-1", "")).is_err());
    let tls = |more: &str| format!("websocket {{ port: -1, tls {{ cert_file: a, key_file: b, {more} }} }}");
    assert_eq!(compare(&tls("verify: true"), &tls("verify: false")), Ok(String::new()));
    for [old, new] in [["verify: true", "verify_and_map: true"], ["verify_and_map: true", "verify: true"]] {
        let error = compare(&tls(old), &tls(new)).unwrap_err();
        assert!(error.starts_with("config reload not supported for Websocket: "), "{old} {new}: {error}");
    }
}

#[test]
fn of_mqtt_only_what_is_about_sessions_may_change() {
    let block = |more: &str| format!("jetstream: true, mqtt {{ port: -1, {more} }}");
    let said = compare(&block(""), &block("ack_wait: 5s, max_ack_pending: 7")).unwrap();
    assert!(said.contains("MQTT ack_wait = 5s") && said.contains("max_ack_pending = 7"), "{said}");
    for more in ["host: '127.0.0.1'", "no_auth_user: a", "reject_qos2_publish: true", "js_domain: d"] {
        let users = "authorization { users: [{user: a, password: a}] }\n";
        let (old, new) = (format!("{users}{}", block("")), format!("{users}{}", block(more)));
        let refused = compare(&old, &new).unwrap_err();
        assert!(refused.starts_with("config reload not supported for MQTT: "), "{more}: {refused}");
    }
}

#[test]
fn what_needs_a_restart_refuses_the_reload() {
    for (old, new, text) in [
        ("", "port: 4999", "Port: old=4222, new=4999"),
        ("port: -1", "port: 4999", "Port: old=7777, new=4999"),
        ("", "server_name: x", "ServerName: old=, new=x"),
        ("", "max_pending: 20000000", "MaxPending: old=67108864, new=20000000"),
        ("", "max_subscriptions: 10", "MaxSubs: old=0, new=10"),
        ("", "max_sub_tokens: 10", "MaxSubTokens: old=0, new=10"),
        ("", "lame_duck_duration: '60s'", "LameDuckDuration: old=2m0s, new=1m0s"),
        ("", "lame_duck_grace_period: '5s'", "LameDuckGracePeriod: old=10s, new=5s"),
        ("", "http_base_path: '/x'", "HTTPBasePath: old=, new=/x"),
        ("http_port: 1", "", "HTTPPort: old=1, new=0"),
        ("", "max_closed_clients: 5", "MaxClosedClients: old=10000, new=5"),
        ("", "no_header_support: true", "NoHeaderSupport: old=false, new=true"),
        ("", "feature_flags { js_ack_fc_v2: true }", "FeatureFlags: old=map[], new=map[js_ack_fc_v2:true]"),
        ("", "https_port: -1", "HTTPSPort: old=0, new=-1"),
        ("", "write_timeout: retry", "WriteTimeout: old=, new=retry"),
        ("", "log_size_limit: 1000", "LogSizeLimit: old=0, new=1000"),
        ("", "logfile_max_num: 10", "LogMaxFiles: old=0, new=10"),
        ("", "accounts { S {} }\nsystem_account: S", "SystemAccount: old=, new=S"),
        ("", "no_system_account: true", "NoSystemAccount: old=false, new=true"),
        ("", "proxy_protocol: true", "ProxyProtocol: old=false, new=true"),
        (
            "",
            "authorization { users: [ {user: a, password: p} ] }\nno_auth_user: a",
            "NoAuthUser: old=, new=a",
        ),
    ] {
        let expected = Err(format!("config reload not supported for {text}"));
        assert_eq!(compare(old, new), expected, "{old} -> {new}");
    }
    let moved = Err("config reload does not support moving to or from an account resolver".to_owned());
    assert_eq!(compare("", "resolver: MEMORY"), moved);
    assert_eq!(compare("resolver: MEMORY", ""), moved);
}

#[test]
fn streams_may_get_more_room_and_other_limits() {
    let js = |inner: &str| format!("jetstream {{ {inner} }}");
    let less = js("max_mem: 1MB, max_file: 1GB");
    let more = js("max_mem: 2MB, max_file: 3GB, limits { max_ack_pending: 10 }");
    assert_eq!(
        compare(&less, &more).unwrap(),
        "Reloaded: JetStream max_mem_store = 2.00 MB; Reloaded: JetStream max_file_store = 3.00 GB; \
         Reloaded: JetStream limits"
    );
    for (old, new, text) in [
        ("max_mem: 2MB", "max_mem: 1MB", "decreasing jetstream max memory and store"),
        ("max_file: 2GB", "", "jetstream max memory and max store"),
        ("", "max_file: 2GB", "jetstream dynamic max memory and store"),
        ("store_dir: a", "store_dir: b", "jetstream storage directory"),
        ("store_dir: a", "", "jetstream storage dir"),
        ("", "domain: x", "JetStreamDomain: old=, new=x"),
        ("", "strict: false", "NoJetStreamStrict: old=false, new=true"),
        ("", "sync_interval: '5s'", "SyncInterval: old=2m0s, new=5s"),
        ("", "sync_interval: always", "SyncAlways: old=false, new=true"),
        ("key: a", "key: b", "JetStreamKey: old=[REDACTED], new=[REDACTED]"),
        ("", "max_buffered_msgs: 5", "StreamMaxBufferedMsgs: old=100000, new=5"),
        ("", "max_outstanding_catchup: 10MB", "JetStreamMaxCatchup: old=0, new=10485760"),
    ] {
        let refused = format!("config reload not supported for {text}");
        assert_eq!(compare(&js(old), &js(new)), Err(refused), "{old} -> {new}");
    }
}

#[test]
fn jetstream_comes_and_goes() {
    let off = "max_payload: 5";
    for on in ["max_payload: 5, jetstream: true", "max_payload: 5, jetstream { store_dir: a, max_mem: 1MB }"]
    {
        assert_eq!(compare(off, on).unwrap(), "Reloaded: JetStream", "{on}");
        assert_eq!(compare(on, off).unwrap(), "Reloaded: JetStream", "{on}");
    }
    let elsewhere = compare("jetstream { store_dir: a }", "jetstream { enabled: false, store_dir: b }");
    assert_eq!(elsewhere.unwrap_err(), "config reload not supported for jetstream storage directory");
    let domain = compare("jetstream { domain: x }", off);
    assert_eq!(domain.unwrap_err(), "config reload not supported for JetStreamDomain: old=x, new=");
}

#[test]
fn tls_comes_late_and_brings_its_timeouts() {
    let tls = "tls { cert_file: a, key_file: b, timeout: 3 }";
    assert_eq!(
        compare("", &format!("max_payload: 5\nwrite_deadline: '3s'\n{tls}")).unwrap(),
        "Reloaded: authorization timeout = 4; Reloaded: max_payload = 5; Reloaded: tls timeout = 3; \
         Reloaded: tls = enabled; Reloaded: write_deadline = 3s"
    );
}

/// Monitoring without a host of its own has the clients' host, so naming that one changes
/// nothing.
#[test]
fn the_host_of_monitoring_is_the_one_in_use() {
    let (port, both) = ("host: '127.0.0.1'\nhttp_port: 5", "host: '127.0.0.1'\nhttp: '127.0.0.1:5'");
    assert_eq!(compare(port, both), Ok(String::new()));
    let refused = compare(port, "host: '127.0.0.1'\nhttp: '127.0.0.2:5'").unwrap_err();
    assert!(refused.ends_with("HTTPHost: old=127.0.0.1, new=127.0.0.2"), "{refused}");
}

#[test]
fn a_random_port_stays() {
    assert_eq!(compare("port: -1", "port: -1"), Ok(String::new()));
    assert_eq!(compare("port: -1", "port: 7777"), Ok(String::new()));
    assert_eq!(compare("port: 5", "port: -1"), Ok(String::new()));
}

#[test]
fn a_user_without_credentials_may_go_with_its_name() {
    let with = "authorization { users: [ {user: a, password: p}, {user: b, password: p} ] }\nno_auth_user: a";
    let gone = "authorization { users: [ {user: b, password: p} ] }";
    let stays = "authorization { users: [ {user: a, password: p}, {user: b, password: p} ] }";
    assert_eq!(compare(with, gone), Ok(String::new()));
    let refused = Err("config reload not supported for NoAuthUser: old=a, new=".to_owned());
    assert_eq!(compare(with, stays), refused);
}
