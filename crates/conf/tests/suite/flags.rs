//! The command line: what each flag sets, what is refused and how, and what wins.

use myelin_conf::options::Port;
use myelin_conf::{Invocation, LoadError};

use crate::{ConfigFile, load, reference, run};

/// Command lines that start nothing: the first line of standard error, and the exit code.
const REFUSED: &[(&[&str], &str, i32)] = &[
    (&["-x"], "flag provided but not defined: -x", 0),
    (&["--no-such-flag=1"], "flag provided but not defined: -no-such-flag", 0),
    (&["-p"], "flag needs an argument: -p", 0),
    (&["--signal"], "flag needs an argument: -signal", 0),
    (&["-p", "abc"], "invalid value \"abc\" for flag -p: parse error", 0),
    (&["-p="], "invalid value \"\" for flag -p: parse error", 0),
    (
        &["-p=99999999999999999999"],
        "invalid value \"99999999999999999999\" for flag -p: value out of range",
        0,
    ),
    (&["-m", "1.5"], "invalid value \"1.5\" for flag -m: parse error", 0),
    (&["-p", "0x"], "invalid value \"0x\" for flag -p: parse error", 0),
    (&["-p", "+-1"], "invalid value \"+-1\" for flag -p: parse error", 0),
    (&["-p", "09"], "invalid value \"09\" for flag -p: parse error", 0),
    (&["-D=maybe"], "invalid boolean value \"maybe\" for -D: parse error", 0),
    (&["-=x"], "bad flag syntax: -=x", 0),
    (&["--=x"], "bad flag syntax: --=x", 0),
    (&["---p"], "bad flag syntax: ---p", 0),
    (&["foo"], "nats-server: unrecognized command: \"foo\"", 1),
    (&["-D", "true"], "nats-server: unrecognized command: \"true\"", 1),
    (&["--", "-p"], "nats-server: unrecognized command: \"-p\"", 1),
    (&["-"], "nats-server: unrecognized command: \"-\"", 1),
    (&["-p", "4222", "", "x"], "nats-server: unrecognized command: \"\"", 1),
    (&["-t"], "nats-server: must specify [-c, --config] option to check configuration file syntax", 1),
    (&["-c", "/no/such/file"], "nats-server: open /no/such/file: no such file or directory", 1),
    (&["-t", "-c", "/no/such/file"], "nats-server: open /no/such/file: no such file or directory", 1),
];

#[test]
fn refusals_read_like_the_reference() {
    for (args, line, code) in REFUSED {
        let error = load(args).expect_err(line);
        assert_eq!(error.to_string(), line.replace("nats-server: ", "myelin-server: "), "{args:?}");
        assert_eq!(error.exit_code(), *code, "{args:?}");
        assert_eq!(matches!(error, LoadError::Flags(_)), *code == 0, "{args:?}");
    }
}

#[test]
fn the_reference_refuses_the_same() {
    let Some(program) = reference::find() else { return };
    for (args, line, code) in REFUSED {
        let output = reference::run(&program, args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.lines().next(), Some(*line), "{args:?}");
        assert_eq!(output.status.code(), Some(*code), "{args:?}");
    }
}

#[test]
fn questions_are_answered_before_anything_else() {
    for args in [
        &["-v"][..],
        &["--version"],
        &["version"],
        &["VERSION"],
        &["-p", "1", "version", "x"],
        &["-tls", "-v"],
    ] {
        assert_eq!(load(args), Ok(Invocation::Version), "{args:?}");
    }
    for args in
        [&["-h"][..], &["--help"], &["help"], &["-c", "/no/such/file", "-help"], &["-v=false", "help"]]
    {
        assert_eq!(load(args), Ok(Invocation::Help), "{args:?}");
    }
}

#[test]
fn a_cluster_listens_where_a_flag_says() {
    let cluster = run(&["--cluster=nats://a:6222", "--routes", "nats://b:1"]).options.cluster;
    assert_eq!((cluster.listener.host.as_str(), cluster.listener.port), ("a", Some(Port::Fixed(6222))));
    assert_eq!(cluster.routes.len(), 1);
}

#[test]
fn flags_about_a_cluster_that_does_not_listen_only_name_it() {
    let args = ["-cluster_name", "c", "-cluster_advertise", "h:1", "-no_advertise", "-connect_retries", "3"];
    let cluster = run(&args).options.cluster;
    assert_eq!((cluster.name.as_deref(), cluster.listener.port), (Some("c"), None));
    assert_eq!((cluster.no_advertise, cluster.connect_retries), (true, 3));
}

#[test]
fn flags_of_links_say_what_a_block_says() {
    let options = run(&["-ms", "8443", "-s", "-r", "udp://localhost:514"]).options;
    assert_eq!(options.monitoring.https_port, Some(Port::Fixed(8443)));
    assert!(options.logging.syslog);
    assert_eq!(options.logging.remote_syslog.as_deref(), Some("udp://localhost:514"));
}

#[test]
fn flags_that_ask_for_nothing_need_no_feature() {
    for args in [
        &["-no_advertise=false"][..],
        &["-s=0", "-r", "", "-ms", "0"],
        &["-cluster=", "-routes=", "-connect_retries", "0"],
        &["-tls=false", "-tlscert", "a", "-tlsverify"],
    ] {
        assert!(run(args).warnings.is_empty(), "{args:?}");
    }
}

#[test]
fn a_go_profile_is_nothing_to_ask_for() {
    let warnings = run(&["-profile", "65432"]).warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].to_string().starts_with("\"-profile\" has no effect in Myelin"), "{warnings:?}");
    assert!(run(&["-profile", "0"]).warnings.is_empty());
}

#[test]
fn every_flag_sets_its_option() {
    let options = run(&[
        "-a",
        "127.0.0.1",
        "--port=4333",
        "-name",
        "n1",
        "-P",
        "/tmp/pid",
        "-m",
        "-1",
        "--log=/tmp/log",
        "-D",
        "-V",
        "-T=false",
        "-logtime_utc",
        "-log_size_limit",
        "0x100",
        "-max_traced_msg_len",
        "64",
        "-js",
        "-sd",
        "/tmp/js",
        "-user",
        "u",
        "--pass",
        "p",
        "-auth=t",
        "-client_advertise",
        "a:1",
        "-ports_file_dir",
        "/tmp",
    ])
    .options;
    assert_eq!(options.server.host, "127.0.0.1");
    assert_eq!(options.server.port, Port::Fixed(4333));
    assert_eq!(options.server.name.as_deref(), Some("n1"));
    assert_eq!(options.server.pid_file.as_deref(), Some("/tmp/pid".as_ref()));
    assert_eq!(options.server.client_advertise.as_deref(), Some("a:1"));
    assert_eq!(options.server.ports_file_dir.as_deref(), Some("/tmp".as_ref()));
    assert_eq!(options.monitoring.port, Some(Port::Random));
    assert_eq!(options.monitoring_host(), "127.0.0.1");
    assert_eq!(options.logging.log_file.as_deref(), Some("/tmp/log".as_ref()));
    assert_eq!((options.logging.debug, options.logging.trace), (true, true));
    assert_eq!((options.logging.logtime, options.logging.logtime_utc), (false, true));
    assert_eq!(options.logging.log_size_limit, Some(256));
    assert_eq!(options.logging.max_traced_msg_len, Some(64));
    assert!(options.jetstream.enabled);
    assert_eq!(options.jetstream.store_dir.as_deref(), Some("/tmp/js".as_ref()));
    assert_eq!(options.authorization.user.as_deref(), Some("u"));
    assert_eq!(options.authorization.password.as_ref().map(|p| p.reveal()), Some("p"));
    assert_eq!(options.authorization.token.as_ref().map(|t| t.reveal()), Some("t"));
}

#[test]
fn flags_that_stand_for_several_come_last() {
    let traces = |args: &[&str]| {
        let logging = run(args).options.logging;
        (logging.debug, logging.trace, logging.trace_verbose)
    };
    assert_eq!(traces(&["-DV"]), (true, true, false));
    assert_eq!(traces(&["-DVV"]), (true, true, true));
    assert_eq!(traces(&["-VV"]), (false, true, true));
    assert_eq!(traces(&["-DV=false", "-D", "-V"]), (false, false, false));
    assert_eq!(traces(&["-D", "-VV=0"]), (true, false, false));
}

#[test]
fn ports_may_be_random_or_default_but_not_impossible() {
    assert_eq!(run(&["-p", "-1"]).options.server.port, Port::Random);
    assert_eq!(run(&["-p", "0"]).options.server.port, Port::Fixed(4222));
    assert_eq!(run(&["-m", "0"]).options.monitoring.port, None);
    let error = load(&["-p", "70000"]).expect_err("no such port");
    let said = r#"Error listening on port: 0.0.0.0:70000, "listen tcp: address 70000: invalid port""#;
    assert_eq!(error.to_string(), format!("myelin-server: {said}"));
}

#[test]
fn flags_win_over_the_file() {
    let file =
        ConfigFile::new("port: 4001, debug: true, logtime: false, jetstream: true, http: \"1.2.3.4:8001\"");
    let path = file.path();
    let options = run(&["-p", "4002", "-c", &path, "-D=false", "-js=false", "-m", "8002"]).options;
    assert_eq!(options.server.port, Port::Fixed(4002));
    assert!(!options.logging.debug);
    assert!(!options.logging.logtime, "a switch that is not given leaves the file alone");
    assert!(!options.jetstream.enabled);
    assert_eq!(options.monitoring_host(), "1.2.3.4");
    assert_eq!(options.monitoring.port, Some(Port::Fixed(8002)));
}

#[test]
fn the_file_can_contradict_the_flags() {
    let file = ConfigFile::new("jetstream { store_dir: \"/tmp/a\" }");
    let error = load(&["-sd", "/tmp/b", "-c", &file.path()]).expect_err("two directories");
    assert_eq!(
        error.to_string(),
        format!("myelin-server: {}:1:12: Duplicate 'store_dir' configuration", file.path())
    );
}

#[test]
fn a_signal_is_sent_before_a_configuration_is_read() {
    for args in [&["-sl", "stop"][..], &["--signal=stop", "-c", "/no/such/file"], &["-t", "-sl=stop"]] {
        assert_eq!(load(args), Ok(Invocation::Signal("stop".to_owned())), "{args:?}");
    }
    assert_eq!(load(&["-sl", "quit=12*"]), Ok(Invocation::Signal("quit=12*".to_owned())));
    assert!(matches!(load(&["-sl="]), Ok(Invocation::Run(_))), "an empty signal is none");
}

#[test]
fn the_usage_has_the_groups_of_the_reference_and_one_flag_of_ours() {
    let Some(program) = reference::find() else { return };
    let theirs = reference::run(&program, &["-h"]);
    let theirs = String::from_utf8(theirs.stdout).expect("text");
    let ours: String = myelin_conf::usage()
        .lines()
        .filter(|line| !line.contains("--check-reload"))
        .map(|line| format!("{line}\n"))
        .collect();
    let left = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| {
            line.ends_with("Options:") || line.starts_with("    -") || line.starts_with("        --")
        });
        lines.map(|line| line.chars().take(32).collect::<String>().trim_end().to_owned()).collect()
    };
    assert_eq!(left(&ours), left(&theirs));
}
