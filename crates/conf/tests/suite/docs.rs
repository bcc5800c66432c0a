//! Whole configurations like those of NATS's documentation: all valid, with the reference's digest,
//! and read into the options that they mean.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use myelin_conf::Invocation;
use myelin_conf::options::{
    ClusterMigrate, LeafCredentials, LinkCompression, Options, Port, RttThresholds, StoreCipher, SyncInterval,
};

use crate::verdict::Verdict;
use crate::{load, reference, run};

const DIRECTORY: &str = "tests/corpus/files/docs";

/// The paths of the files, in the order of their names.
fn files() -> Vec<String> {
    let entries = fs::read_dir(DIRECTORY).expect("the corpus is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "conf")).collect();
    paths.sort();
    paths.into_iter().map(|path| path.to_str().expect("plain letters").to_owned()).collect()
}

/// Names and digests as the reference gave them.
fn recorded() -> Vec<(String, String)> {
    let text = fs::read_to_string(format!("{DIRECTORY}/expected")).unwrap_or_default();
    let lines = text.lines().map(|line| line.split_once(' ').expect("a path and a verdict"));
    lines.map(|(path, verdict)| (path.to_owned(), verdict.to_owned())).collect()
}

#[test]
fn all_are_valid_with_the_same_digest() {
    let recorded = recorded();
    assert_eq!(recorded.iter().map(|(path, _)| path).collect::<Vec<_>>(), files().iter().collect::<Vec<_>>());
    for (path, verdict) in recorded {
        let Ok(Invocation::TestConfig { digest, .. }) = load(&["-t", "-c", &path]) else {
            panic!("{path}: {:?}", load(&["-t", "-c", &path]))
        };
        assert_eq!(Verdict::Valid(digest), Verdict::parse(&verdict), "{path}");
    }
}

#[test]
fn the_reference_says_the_same() {
    let Some(program) = reference::find() else { return };
    let ask =
        |path: &str| Verdict::of_reference(&reference::run(&program, &["-t", "-c", path]), path).to_string();
    let asked: Vec<_> = files().into_iter().map(|path| (path.clone(), ask(&path))).collect();
    if std::env::var_os("MYELIN_RECORD").is_some() {
        let lines: String = asked.iter().map(|(path, verdict)| format!("{path} {verdict}\n")).collect();
        fs::write(format!("{DIRECTORY}/expected"), lines).expect("the corpus is writable");
        return;
    }
    assert_eq!(asked, recorded());
}

/// Options that a file sets, whether their features exist or not.
fn options(name: &str) -> Options {
    let path = format!("{DIRECTORY}/{name}.conf");
    let text = fs::read(&path).expect("the file is there");
    myelin_conf::load_text(&text, &|_| None).unwrap_or_else(|error| panic!("{path}: {error}")).options
}

#[test]
fn a_cluster_is_read() {
    let cluster = options("cluster_tuned").cluster;
    assert_eq!((cluster.name.as_deref(), cluster.listener.port), (Some("C1"), Some(Port::Fixed(6333))));
    assert!(cluster.no_advertise && cluster.connect_backoff);
    assert_eq!(cluster.pinned(Some("$SYS")), ["ORDERS", "BILLING", "$SYS"]);
    assert_eq!(cluster.compression(), Ok(LinkCompression::S2Auto(RttThresholds::default())));
    assert_eq!((cluster.ping_interval, cluster.ping_max), (Some(Duration::from_secs(20)), Some(3)));
    let permissions = cluster.permissions.expect("permissions");
    let import = permissions.import.expect("an import rule");
    assert_eq!((import.allow.map(|list| list.len()), import.deny.len()), (Some(2), 1));
    let hosts: Vec<_> = cluster.routes.iter().map(|url| (url.host(), url.port())).collect();
    assert_eq!(hosts, [("n1.example.com", Some("6222")), ("n3.example.com", Some("6222"))]);

    let seed = options("cluster_seed").cluster;
    assert_eq!(seed.authorization.user.as_deref(), Some("ruser"));
    assert_eq!(seed.authorization.timeout, Some(Duration::from_millis(750)));
    assert_eq!(seed.routes[0].to_string(), "nats-route://ruser:xxxxx@127.0.0.1:6222");
    assert_eq!(seed.compression(), Ok(LinkCompression::Accept));
}

#[test]
fn a_gateway_is_read() {
    let gateway = options("gateway").gateway;
    assert_eq!((gateway.name.as_deref(), gateway.listener.host.as_str()), (Some("A"), "localhost"));
    assert!(gateway.reject_unknown_cluster);
    let remotes: Vec<_> =
        gateway.gateways.iter().map(|remote| (remote.name.as_str(), remote.urls.len())).collect();
    assert_eq!(remotes, [("A", 1), ("B", 1), ("C", 2)]);
}

#[test]
fn leaf_nodes_are_read() {
    let hub = options("leaf_hub").leaf_nodes;
    assert_eq!((hub.min_version, hub.compression()), (Some([2, 8, 0]), Ok(LinkCompression::S2Better)));
    let users: Vec<_> =
        hub.authorization.users.iter().map(|user| (user.name.as_str(), user.account.as_deref())).collect();
    assert_eq!(users, [("leaf", Some("EDGE")), ("admin", Some("SYS"))]);

    let edge = options("leaf_remote").leaf_nodes;
    assert_eq!(edge.reconnect, Duration::from_secs(5));
    let [plain, web] = &edge.remotes[..] else { panic!("two remotes") };
    assert_eq!(plain.targets()[0].to_string(), "tls://connect.example.com:7422");
    assert_eq!(plain.credentials, LeafCredentials::File("/etc/nats/edge.creds".into()));
    assert_eq!((plain.deny_imports.len(), plain.deny_exports.len()), (2, 1));
    assert!(web.ws_compression && web.no_randomize && web.tls.is_some());
    assert_eq!(web.jetstream_cluster_migrate, ClusterMigrate::After(Duration::from_secs(10)));
    let proxy = web.proxy.as_ref().expect("a proxy");
    assert_eq!(proxy.url.as_ref().map(|url| url.host()), Some("proxy.example.com"));
    assert_eq!(proxy.timeout, Some(Duration::from_secs(20)));
}

#[test]
fn jetstream_is_read() {
    let options = options("jetstream");
    let jetstream = options.jetstream;
    assert!(jetstream.enabled && jetstream.strict);
    assert_eq!((jetstream.max_memory_store, jetstream.max_file_store), (Some(1 << 30), Some(10 << 30)));
    assert_eq!((jetstream.sync_interval, jetstream.cipher), (SyncInterval::Always, StoreCipher::Aes));
    assert_eq!((jetstream.domain.as_deref(), jetstream.unique_tag.as_deref()), (Some("hub"), Some("az:")));
    assert_eq!(jetstream.max_outstanding_catchup, 32_000_000);
    assert_eq!(jetstream.limits.default_max_consumers, Some(1_000));
    assert_eq!(jetstream.limits.batch.max_msgs, Some(500));
    assert_eq!(jetstream.limits.batch.timeout, Some(Duration::from_secs(5)));
    assert_eq!(options.identity.tags, ["az:us-east-1a", "tier:gold"]);
    assert_eq!(options.identity.metadata["rack"], "r12");
    let (configured, unsupported) = options.identity.feature_flags.announced().expect("flags");
    assert_eq!((configured, unsupported), (vec!["js_ack_fc_v2 (opt-in)".to_owned()], vec![]));
    assert!(options.identity.feature_flags.merged()["js_raft_delete_range"]);
}

#[test]
fn websocket_and_mqtt_are_read() {
    let plain = options("websocket_plain").websocket;
    assert_eq!((plain.listener.host.as_str(), plain.listener.port), ("127.0.0.1", Some(Port::Fixed(8080))));
    assert!(plain.no_tls && plain.handshake_timeout.is_none());

    let mqtt = options("mqtt").mqtt;
    assert_eq!(mqtt.listener.port, Some(Port::Fixed(1883)));
    assert_eq!((mqtt.ack_wait, mqtt.max_ack_pending), (Duration::from_secs(60), 100));
    assert_eq!((mqtt.js_api_timeout, mqtt.stream_replicas), (Duration::from_secs(5), Some(3)));
    assert!(mqtt.consumer_memory_storage && mqtt.downgrade_qos2_subscribe && !mqtt.reject_qos2_publish);
    assert_eq!(mqtt.js_domain, None);
}

#[test]
fn a_start_with_mqtt_names_no_option_as_one_without_effect() {
    let path = format!("{DIRECTORY}/mqtt.conf");
    let warnings = run(&["-c", &path]).warnings;
    assert!(!warnings.iter().any(|warning| warning.to_string().contains("has no effect")), "{warnings:?}");
}
