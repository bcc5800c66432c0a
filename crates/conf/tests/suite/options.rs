//! Options that come out of a file.

use std::num::NonZeroU8;
use std::time::Duration;

use myelin_conf::options::{
    AccountLimitOptions, MetricsOptions, Port, QueueSubject, ResponsePermission, UNLIMITED_PAYLOAD,
    WriteTimeout,
};
use myelin_conf::{Invocation, Options};

use crate::{ConfigFile, load, load_with, run};

fn options(text: &str) -> Options {
    run(&["-c", &ConfigFile::new(text).path()]).options
}

/// The complaints about a file, without its path.
fn complaints(text: &str) -> String {
    let file = ConfigFile::new(text);
    let error = load(&["-c", &file.path()]).expect_err(text);
    error.to_string().replace(&format!("{}:", file.path()), "").replace("myelin-server: ", "")
}

#[test]
fn defaults_are_those_of_the_reference() {
    let options = run(&[]).options;
    assert_eq!(options, Options::default());
    assert_eq!((options.server.host.as_str(), options.server.port), ("0.0.0.0", Port::Fixed(4222)));
    assert_eq!(options.server.lame_duck_duration, Duration::from_secs(120));
    assert_eq!(options.server.lame_duck_grace_period, Duration::from_secs(10));
    let limits = &options.limits;
    assert_eq!((limits.max_control_line, limits.max_payload, limits.max_pending), (4096, 1 << 20, 64 << 20));
    assert_eq!(
        (limits.max_connections, limits.max_subscriptions, limits.max_sub_tokens),
        (65536, None, None)
    );
    assert_eq!((limits.ping_interval, limits.ping_max), (Duration::from_secs(120), 2));
    assert_eq!(limits.write_deadline, Duration::from_secs(10));
    assert_eq!(limits.max_closed_clients, 10_000);
    assert!(options.logging.logtime);
    assert_eq!(options.authorization.timeout, Duration::from_secs(2));
    assert_eq!(options.accounts.system_account(), Some("$SYS"));
    assert_eq!(options.monitoring.base_path, "/");
}

#[test]
fn a_full_file_is_read_in_full() {
    let loaded = run(&["-c", "tests/corpus/files/server.conf"]);
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.config_file.as_deref(), Some("tests/corpus/files/server.conf".as_ref()));
    let options = loaded.options;
    assert_eq!(options.server.name.as_deref(), Some("myelin-1"));
    assert_eq!(options.server.lame_duck_grace_period, Duration::from_secs(5));
    assert_eq!(options.monitoring_host(), "127.0.0.1");
    assert_eq!(options.monitoring.base_path, "/nats");
    assert_eq!(options.limits.max_control_line, 8192);
    assert_eq!(options.limits.max_connections, 1000);
    assert_eq!(options.limits.max_sub_tokens, NonZeroU8::new(16));
    assert_eq!(options.limits.write_timeout, WriteTimeout::Close);
    assert_eq!(options.logging.log_size_limit, Some(1 << 30));
    assert_eq!(options.logging.log_max_num, Some(5));
    assert!(options.jetstream.enabled);

    let names: Vec<_> = options.accounts.list.iter().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["A", "SYS"], "a variable among the accounts is no account");
    assert_eq!(
        options.accounts.list[0].limits,
        AccountLimitOptions {
            max_connections: Some(10),
            max_payload: Some(64_000),
            ..AccountLimitOptions::default()
        }
    );
    assert_eq!(options.accounts.system_account(), Some("SYS"));

    let [alice, bob, admin] = &options.authorization.users[..] else { panic!("three users") };
    assert_eq!((alice.name.as_str(), alice.account.as_deref()), ("alice", Some("A")));
    assert!(alice.password.reveal().starts_with("$2a$11$W2zko751"));
    assert_eq!(bob.password.reveal(), "bob");
    assert_eq!((admin.account.as_deref(), &admin.permissions), (Some("SYS"), &None));
    let defaults = alice.permissions.as_ref().expect("the account's defaults");
    let subscribe = defaults.subscribe.as_ref().expect("a subscribe rule");
    let entry = |subject: &str, queue: Option<&str>| QueueSubject {
        subject: subject.to_owned(),
        queue: queue.map(str::to_owned),
    };
    assert_eq!(subscribe.allow, Some(vec![entry("a.>", None), entry("work", Some("workers.*"))]));
    assert_eq!(subscribe.deny, [entry("a.secret", None)]);
    let responses = ResponsePermission { max_messages: Some(5), expires: Some(Duration::from_secs(60)) };
    assert_eq!(defaults.responses, Some(responses));
    let own = bob.permissions.as_ref().expect("his own");
    let publish = own.publish.as_ref().expect("a publish rule");
    assert_eq!((&publish.allow, &publish.deny[..]), (&None, &[">".to_owned()][..]));
}

#[test]
fn allowing_responses_closes_publishing() {
    let publish = |permissions: &str| {
        let text = format!("authorization {{ users: [{{user: a, permissions: {{{permissions}}} }}] }}");
        options(&text).authorization.users[0].permissions.clone().expect("permissions").publish
    };
    let allow = |permissions: &str| publish(permissions).and_then(|rule| rule.allow);
    assert_eq!(allow("allow_responses: true"), Some(vec![]));
    assert_eq!(allow("allow_responses: true, publish: {deny: x}"), Some(vec![]));
    assert_eq!(allow("allow_responses: true, publish: x"), Some(vec!["x".to_owned()]));
    assert_eq!(publish("allow_responses: false"), None);
    assert_eq!(allow("publish: {allow: []}"), None, "an empty list restricts nothing");
    assert_eq!(publish("publish: {}"), None);
}

#[test]
fn responses_can_be_unlimited() {
    let text =
        "authorization { users: [{user: a, permissions: {allow_responses: {max: -1, ttl: \"-1s\"}}}] }";
    let users = options(text).authorization.users;
    let responses = users[0].permissions.as_ref().and_then(|permissions| permissions.responses);
    assert_eq!(responses, Some(ResponsePermission { max_messages: None, expires: None }));
}

#[test]
fn zero_is_the_default_of_most_limits() {
    let limits = options(
        "max_payload: 0, max_pending: 0, max_control_line: 0, ping_max: 0, ping_interval: \"0s\", \
         write_deadline: \"0s\", max_closed_clients: 0, max_subs: 0, port: 0",
    );
    assert_eq!(limits, Options::default());
    assert_eq!(options("max_connections: 0").limits.max_connections, 0);
    assert_eq!(options("max_connections: -1").limits.max_connections, 0);
}

#[test]
fn the_last_trace_option_decides() {
    let trace = |text: &str| options(text).logging.trace;
    assert!(trace("trace: false, trace_verbose: true"));
    assert!(!trace("trace_verbose: true, trace: false"));
    assert!(!trace("trace: true, trace_headers: false"));
}

#[test]
fn an_authorization_block_replaces_the_user_of_a_flag() {
    let file = ConfigFile::new("authorization { token: t }");
    let error = load(&["-t", "-user", "u", "-c", &file.path()]);
    assert!(matches!(error, Ok(Invocation::TestConfig { .. })), "{error:?}");
}

#[test]
fn the_system_account_alone_leaves_the_door_open() {
    let open = |text: &str| options(text).anonymous_joins_global();
    let system = "accounts { SYS { users: [{user: a, password: b}] } }, system_account: SYS";
    assert!(open(system));
    assert!(open("accounts { \"$SYS\" { users: [{user: a, password: b}] } }"));
    assert!(!open("accounts { A { users: [{user: a, password: b}] } }"));
    assert!(!open("accounts { SYS { users: [{user: a, password: b}] }, A {} }, system_account: SYS"));
    assert!(!open(&format!("{system}, authorization {{}}")));
    assert!(!open(&format!("{system}, no_auth_user: a")));
    assert!(!Options::default().anonymous_joins_global());
}

#[test]
fn no_system_account_yields_to_a_configured_one() {
    assert_eq!(options("no_system_account: true").accounts.system_account(), None);
    let both = options("no_system_account: true, accounts: [S], system_account: S");
    assert_eq!(both.accounts.system_account(), Some("S"));
}

#[test]
fn variables_come_from_the_environment_as_configuration() {
    let env = |name: &str| match name {
        "PORT" => Some("4333".to_owned()),
        "LIMIT" => Some("$KILO # a comment".to_owned()),
        "KILO" => Some("2KB".to_owned()),
        "USERS" => Some("[{user: a, password: b}]".to_owned()),
        "LOOP" => Some("$BACK".to_owned()),
        "BACK" => Some("$LOOP".to_owned()),
        "BROKEN" => Some("two words".to_owned()),
        _ => None,
    };
    let file = ConfigFile::new("port: $PORT, max_control_line: $LIMIT, authorization { users: $USERS }");
    let Ok(Invocation::Run(loaded)) = load_with(&["-c", &file.path()], &env) else { panic!("it runs") };
    assert_eq!(loaded.options.server.port, Port::Fixed(4333));
    assert_eq!(loaded.options.limits.max_control_line, 2048);
    assert_eq!(loaded.options.authorization.users[0].name, "a");

    let fail = |text: &str| {
        let file = ConfigFile::new(text);
        load_with(&["-c", &file.path()], &env).expect_err(text).to_string().replace(&file.path(), "F")
    };
    assert!(
        fail("port: $LOOP").contains("F:1:7: variable reference for 'LOOP' on line 1 could not be parsed: ")
    );
    assert!(fail("port: $LOOP").contains("variable reference cycle for 'LOOP'"));
    assert!(
        fail("\nport: $BROKEN")
            .starts_with("myelin-server: F:2:8: variable reference for 'BROKEN' on line 2")
    );
    let endless = |name: &str| Some(format!("$X{name}"));
    let file = ConfigFile::new("port: $X");
    let error = load_with(&["-c", &file.path()], &endless).expect_err("no end of variables");
    assert!(error.to_string().contains("variable reference cycle"), "{error}");
    assert!(fail("port: $NONE").ends_with("variable reference for 'NONE' on line 1 can not be found"));
}

#[test]
fn warnings_do_not_stop_a_server_but_fail_a_test() {
    for (text, warning) in [
        (
            "ping_interval: 5",
            "invalid use of field \"ping_interval\": ping_interval should be converted to a duration",
        ),
        (
            "write_deadline: 5",
            "invalid use of field \"write_deadline\": write_deadline should be converted to a duration",
        ),
        (
            "authorization { timeout: 2m }",
            "invalid use of field \"timeout\": timeout of 2000000 (2000000.000000 seconds) is high, consider \
             keeping it under 60 seconds. possibly caused by unquoted duration; use '1m' instead of 1m, for example",
        ),
    ] {
        let file = ConfigFile::new(text);
        let warnings = run(&["-c", &file.path()]).warnings;
        assert_eq!(warnings.len(), 1, "{text}");
        assert_eq!(warnings[0].message, warning);
        let error = load(&["-t", "-c", &file.path()]).expect_err(text);
        assert_eq!(error.to_string(), format!("myelin-server: {}", warnings[0]));
    }
    assert_eq!(options("ping_interval: 5").limits.ping_interval, Duration::from_secs(5));
}

#[test]
fn what_has_no_meaning_here_is_worth_a_warning_but_passes_a_test() {
    for (text, warning) in [
        (
            "prof_port: 65432",
            "\"prof_port\" has no effect in Myelin: there is no Go profile to serve; use `perf`",
        ),
        (
            "disable_sublist_cache: true",
            "\"disable_sublist_cache\" has no effect in Myelin: the cache costs no lock and has a fixed size",
        ),
    ] {
        let file = ConfigFile::new(text);
        let warnings = run(&["-c", &file.path()]).warnings;
        assert_eq!(warnings.iter().map(|warning| warning.message.as_str()).collect::<Vec<_>>(), [warning]);
        assert!(matches!(load(&["-t", "-c", &file.path()]), Ok(Invocation::TestConfig { .. })), "{text}");
    }
}

#[test]
fn an_empty_file_is_worth_a_warning() {
    let file = ConfigFile::new("# nothing\n");
    let loaded = run(&["-c", &file.path()]);
    assert_eq!(loaded.warnings[0].to_string(), format!("{}: config has no values or is empty", file.path()));
}

#[test]
fn what_is_missing_is_never_ignored() {
    let text = "gateway { name: x, port: 7222 }\njetstream { tpm { keys_file: a } }\nleaf {}";
    let needs = |feature: &str| format!("needs {feature}, which this version of Myelin does not have");
    let said = complaints(text);
    assert!(said.starts_with("2:") && said.ends_with(&format!("\"tpm\" {}", needs("a TPM"))), "{said}");
}

#[test]
fn values_that_nobody_can_run_with_end_a_start_and_not_a_test() {
    for (text, message) in [
        ("port: 70000", "1:0: invalid port 70000"),
        ("port: -2", "1:0: invalid port -2"),
        ("ping_max: -1", "1:0: ping_max value can not be negative"),
        ("ping_interval: \"-1s\"", "1:0: invalid ping_interval, needs to be positive"),
        ("max_control_line: -1", "1:0: max_control_line value can not be negative"),
        ("max_pending: -1", "1:0: max_payload cannot be higher than max_pending (-1)"),
    ] {
        assert_eq!(complaints(text), message);
        let file = ConfigFile::new(text);
        let Ok(Invocation::TestConfig { missing, .. }) = load(&["-t", "-c", &file.path()]) else {
            panic!("{text} is valid")
        };
        assert_eq!(missing.len(), 1, "{text}");
    }
    let limits = options("max_payload: -1, max_subs: -3, max_traced_msg_len: -1").limits;
    assert_eq!((limits.max_payload, limits.max_subscriptions), (UNLIMITED_PAYLOAD, None));
}

#[test]
fn all_errors_are_reported_in_the_order_of_the_file() {
    assert_eq!(
        complaints("port: x\nfoo: 1\nauthorization {\n users: [{pass: b}, {user: c, bar: 2}]\n}\nhost: 3"),
        "1:0: field \"port\" must be an integer, not a string\n\
         2:1: unknown field \"foo\"\n\
         4:11: User entry requires a user\n\
         4:31: unknown field \"bar\"\n\
         6:1: field \"host\" must be a string, not an integer"
    );
}

#[test]
fn users_are_unique_over_the_block_and_all_accounts() {
    let users = |name: &str| format!("users: [{{user: {name}, password: x}}]");
    let duplicate = |first: &str, second: &str| complaints(&format!("{first}\n{second}"));
    let block = format!("authorization {{ {} }}", users("a"));
    let accounts = format!("accounts {{ A {{ {} }} }}", users("a"));
    assert_eq!(duplicate(&block, &accounts), "2:16: Duplicate user \"a\" detected");
    assert_eq!(duplicate(&accounts, &block), "2:1: Duplicate user \"a\" detected");
    let single = "authorization { user: s, password: p }";
    assert_eq!(duplicate(single, &accounts), "2:16: Can not have a single user/pass and accounts");
    assert_eq!(duplicate(&accounts, single), "2:1: Can not have a single user/pass and a users array");
    let token = "authorization { token: t }";
    assert_eq!(duplicate(token, &accounts), "2:16: Can not have a token and accounts");
    assert_eq!(duplicate(&accounts, token), "2:1: Can not have a token and a users array");
}

#[test]
fn secrets_stay_out_of_debug_output() {
    let shown = format!("{:?}", options("authorization { users: [{user: a, password: hunter2}] }"));
    assert!(shown.contains("[REDACTED]") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_valid_file_is_confirmed_with_its_digest() {
    let file = ConfigFile::new("port: 4222\n");
    let command = load(&["-t", "-c", &file.path()]).expect("it is valid");
    let line = format!(
        "myelin-server: configuration file {} is valid \
         (sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e)",
        file.path()
    );
    assert_eq!(command.to_string(), line);
}

#[test]
fn files_that_include_themselves_are_refused() {
    let file = ConfigFile::new("port: 1\ninclude ./case.conf");
    let error = load(&["-c", &file.path()]).expect_err("an endless configuration");
    assert!(error.to_string().contains("includes itself"), "{error}");
}

#[test]
fn nesting_and_copies_are_bounded() {
    let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(complaints(&deep).contains("nested deeper than 256"));
    let mut text = "v0: [a, b, c, d]\n".to_owned();
    for n in 1..40 {
        text.push_str(&format!("v{n}: [$v{m}, $v{m}]\n", m = n - 1));
    }
    assert!(complaints(&text).contains("variables copy too much"));
    let long = format!("v: {}\nw: [{}]", "x".repeat(1 << 20), "$v, ".repeat(100));
    assert!(complaints(&long).contains("variables copy too much"));
    let mut text = "v0: [a]\n".to_owned();
    for n in 1..400 {
        text.push_str(&format!("v{n}: [$v{m}]\n", m = n - 1));
    }
    assert!(complaints(&text).contains("nested deeper than 256"));
}

#[test]
fn the_dashboard_is_a_switch() {
    assert!(!options("").monitoring.dashboard);
    assert!(!options("dashboard: false").monitoring.dashboard);
    assert!(options("dashboard: true").monitoring.dashboard);
    assert!(complaints("dashboard: 5").contains("1:0: "));
}

#[test]
fn metrics_are_a_switch_or_a_block() {
    let metrics = |text: &str| options(text).monitoring.metrics;
    assert_eq!(metrics(""), None);
    assert_eq!(metrics("metrics: false"), None);
    assert_eq!(metrics("metrics: true"), Some(MetricsOptions::default()));
    assert_eq!(metrics("metrics {}"), Some(MetricsOptions::default()));
    assert_eq!(metrics("metrics { enabled: false, max_streams: 7 }"), None);
    let all =
        "metrics { prefix: nats, max_connections: 1, max_accounts: 2, max_streams: 3, max_consumers: 0 }";
    let expected = MetricsOptions {
        prefix: "nats".to_owned(),
        max_connections: 1,
        max_accounts: 2,
        max_streams: 3,
        max_consumers: 0,
    };
    assert_eq!(metrics(all), Some(expected));
    assert_eq!(complaints("metrics: 5").trim(), "1:0: metrics must be a boolean or a map, not an integer");
    for name in ["a-b", "1a", "a b", "ä", "a\\nb"] {
        let complaint = complaints(&format!("metrics {{ prefix: \"{name}\" }}"));
        assert!(complaint.contains("cannot begin the name of a metric"), "{complaint}");
    }
    assert!(complaints("metrics { labels: 1 }").contains("unknown field \"labels\""));
    assert!(complaints("metrics { max_streams: -1 }").contains("can not be negative"));
}

#[test]
fn mqtt_speaks_both_versions_unless_it_is_told_not_to() {
    let read = |text: &str| myelin_conf::load_text(format!("mqtt {{ {text} }}").as_bytes(), &|_| None);
    for (text, speaks_5) in [("", true), ("protocols: [3, 5]", true), ("protocols: [3]", false)] {
        let loaded = read(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(loaded.options.mqtt.speaks_5, speaks_5, "{text}");
    }
    for text in ["protocols: [5]", "protocols: []", "protocols: [3, 4]", "protocols: 3", "protocols: [a]"] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn metrics_are_pushed_where_an_endpoint_is_named() {
    let otlp = |text: &str| options(text).monitoring.otlp;
    assert_eq!(otlp(""), None);
    assert_eq!(otlp("otlp {}"), None);
    assert_eq!(otlp("otlp { endpoint: \"\", interval: \"5s\" }"), None);
    let found = otlp("otlp { endpoint: \"http://[::1]:4318/a\" }").expect("an endpoint");
    assert_eq!(
        (found.endpoint.host(), found.endpoint.port(), &*found.endpoint.rest),
        ("::1", Some("4318"), "/a")
    );
    assert_eq!((found.interval.as_secs(), found.timeout.as_secs(), found.traces), (60, 10, false));
    assert!(otlp("otlp { endpoint: \"http://h\", traces: true }").expect("an endpoint").traces);
    assert_eq!(otlp("otlp { traces: true }"), None);
    let all = "otlp { endpoint: \"https://h\", interval: \"100ms\", timeout: \"2s\", \
               headers { Authorization: \"Bearer hidden\" }, resource { \"deployment.environment\": prod }, tls {} }";
    let found = otlp(all).expect("an endpoint");
    assert_eq!(found.headers["authorization"].reveal(), "Bearer hidden");
    assert_eq!(found.resource["deployment.environment"], "prod");
    assert_eq!((found.interval.as_millis(), found.timeout.as_secs()), (100, 2));
    assert!(found.tls.is_some() && !format!("{found:?}").contains("hidden"));
    for (wrong, complaint) in [
        ("endpoint: \"h:4318\"", "it must begin with http:// or https://"),
        ("endpoint: \"grpc://h:4317\"", "it must begin with http:// or https://"),
        ("endpoint: \"http://u:hidden@h\"", "a login belongs into a header"),
        ("endpoint: \"http:///v1\"", "it has no host"),
        ("endpoint: \"http://h:70000\"", "the port is too large"),
        ("endpoint: \"http://h/a?b\"", "its path must be plain and without a query"),
        ("interval: \"99ms\"", "otlp interval must be at least 100ms"),
        ("timeout: \"0s\"", "otlp timeout must be at least 1ns"),
        ("headers { \"a b\": x }", "\"a b\" cannot be the name of a header"),
        ("headers { Content-Length: \"1\" }", "header \"Content-Length\" is the request's own"),
        ("headers { a: \"hidden\\nb: c\" }", "the value of header \"a\" is not plain text"),
        ("traces: maybe", "\"traces\""),
        ("resource { a: 1 }", "field \"a\" must be a string"),
        ("endpoints: x", "unknown field \"endpoints\""),
    ] {
        let found = complaints(&format!("otlp {{ {wrong} }}"));
        assert!(found.contains(complaint) && !found.contains("hidden"), "{wrong}: {found}");
    }
}
