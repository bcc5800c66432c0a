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

#[test]
fn conflicts_are_named_when_the_server_starts() {
    for (text, message) in CONFLICTS {
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
    for (text, message) in CONFLICTS {
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
