//! The configurations of NATS's documentation on leaf nodes, and on JetStream with them
//! (docs.nats.io: configuration/leafnodes, nats_admin/jwt), as they stand there but for ports, host
//! names, paths and what the pages leave to the reader. Messages pass both ways, in all mixes with
//! nats-server.

use super::Site;
use super::operators::{identities, operated, write_credentials};
use crate::eventually;
use crate::process::Setup;
use crate::raw::Raw;
use crate::resolving::{login, text};
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port, wait_for_interest};
use crate::tls::Lab;
use std::process::Command;

/// A hub and its leaf nodes, by their configurations; `PORT` is that for leaf nodes, `WEB` that for
/// WebSocket, `{tls}` what belongs into a `tls{}`.
struct Page<'p> {
    hub: &'p str,
    leaf: &'p str,
    /// Users that log in at the hub, and at the leaf node.
    users: [&'p str; 2],
    links: usize,
}

fn client(site: &Site, user: &str) -> Raw {
    let mut raw = Raw::open(site.server.address());
    let login = match user.split_once(':') {
        Some((user, password)) => format!("\"user\":\"{user}\",\"pass\":\"{password}\","),
        None => String::new(),
    };
    raw.send(&format!("CONNECT {{{login}\"verbose\":false,\"headers\":true,\"no_responders\":true}}\r\n"));
    raw.barrier();
    raw
}

/// Messages, and a request with its answer, each way.
fn talk(a: &mut Raw, b: &mut Raw) {
    for turn in 0..2 {
        let (from, to) = if turn == 0 { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
        to.send("SUB q 1\r\n");
        from.send("SUB answers 2\r\n");
        wait_for_interest(from, to);
        wait_for_interest(to, from);
        from.send("PUB q answers 3\r\nask\r\n");
        let asked = to.message();
        assert_eq!(asked.text(), "ask");
        to.publish("answers", "42");
        assert_eq!(from.message().text(), "42");
        to.send("UNSUB 1\r\n");
        from.send("UNSUB 2\r\n");
        to.barrier();
        from.barrier();
    }
}

/// Servers of these kinds, as a page has them.
fn start(page: &Page<'_>, kinds: [ServerKind; 2], lab: &Lab) -> Option<[Site; 2]> {
    let (port, web) = (free_port(), free_port());
    let fill = |text: &str, name: &str| {
        let folder = lab.dir.path().display();
        let tls = format!(
            "cert_file: \"{folder}/server.pem\", key_file: \"{folder}/server.key\", ca_file: \"{folder}/ca.pem\""
        );
        let text = text.replace("PORT", &port.to_string()).replace("WEB", &web.to_string());
        let text = text.replace("{tls}", &tls).replace("/path/to", &folder.to_string());
        format!(
            "{text}\n{}",
            if text.contains("server_name") { String::new() } else { format!("server_name: {name}\n") }
        )
    };
    let setup = || Setup::default().authorities(&lab.file("ca.pem"));
    let hub = Site::configured(setup(), kinds[0], &fill(page.hub, "HUB"), port)?;
    let leaf = Site::configured(setup(), kinds[1], &fill(page.leaf, "EDGE"), 0)?;
    hub.linked(page.links);
    leaf.linked(page.links);
    Some([hub, leaf])
}

const TUTORIAL: &str = "leafnodes {
    port: PORT
}
accounts: {
    app: { 
        users: [
            {user: appuser, password: s3cr3t},
            {user: leafuser, password: s3cr3t}
           ]
    }  
}";

const TUTORIAL_WITH_TLS: &str = "leafnodes {
    port: PORT
    tls { {tls} }
}
accounts: {
    app: { 
        users: [
            {user: appuser, password: s3cr3t},
            {user: leafuser, password: s3cr3t}
           ]
    }  
}";

const PAGES: [Page<'static>; 7] = [
    Page {
        hub: TUTORIAL,
        leaf: "listen: \"127.0.0.1:4111\"
leafnodes {
    remotes = [
        {
          url: \"nats://leafuser:s3cr3t@localhost:PORT\"
        },
    ]
}",
        users: ["appuser:s3cr3t", ""],
        links: 1,
    },
    Page {
        hub: TUTORIAL_WITH_TLS,
        leaf: "listen: \"127.0.0.1:4111\"
leafnodes {
    remotes = [
        {
          url: \"tls://leafuser:s3cr3t@localhost:PORT\"
        },
    ]
}",
        users: ["appuser:s3cr3t", ""],
        links: 1,
    },
    Page {
        hub: "leafnodes {
  port: PORT
  tls {
    handshake_first: true
    {tls}
  }
}",
        leaf: "leafnodes {
  remotes [
    {
      urls: [\"tls://localhost:PORT\"]
      tls: {
         handshake_first: true
         {tls}
      }
    }
  ]
}",
        users: ["", ""],
        links: 1,
    },
    Page {
        hub: "leafnodes {
  port: PORT
  authorization {
    user: leaf
    password: secret
    account: TheAccount
  }
}
accounts { TheAccount { users: [{user: u, password: p}] } }",
        leaf: "leafnodes { remotes: [{ url: \"nats://leaf:secret@localhost:PORT\" }] }",
        users: ["u:p", ""],
        links: 1,
    },
    Page {
        hub: "leafnodes {
  port: PORT
  authorization {
    users = [
      {user: leaf1, password: secret, account: account1}
      {user: leaf2, password: secret, account: account2}
    ]
  }
}
accounts { account1 { users: [{user: u, password: p}] }, account2 { users: [{user: v, password: p}] } }",
        leaf: "leafnodes { remotes: [
            { url: \"nats://leaf1:secret@localhost:PORT\", account: A }
            { url: \"nats://leaf2:secret@localhost:PORT\", account: B }
        ] }
        accounts { A { users: [{user: a, password: p}] }, B { users: [{user: b, password: p}] } }",
        users: ["v:p", "b:p"],
        links: 2,
    },
    Page {
        hub: "leafnodes { port: PORT }
websocket { port: WEB, no_tls: true }",
        leaf: "leafnodes {
  remotes [
    {urls: [\"ws://localhost:WEB\", \"ws://localhost:WEB\"]}
  ]
}",
        users: ["", ""],
        links: 1,
    },
    Page {
        hub: "leafnodes { port: PORT }
websocket { port: WEB, tls { {tls} } }",
        leaf: "leafnodes {
  remotes [
    {urls: [\"wss://localhost:WEB\"], tls { {tls} }, ws_compression: true, ws_no_masking: true}
  ]
}",
        users: ["", ""],
        links: 1,
    },
];

#[test]
fn leaf_nodes() {
    let lab = Lab::new();
    for kinds in MIXES {
        for page in &PAGES {
            let Some([hub, leaf]) = start(page, kinds, &lab) else { continue };
            talk(&mut client(&hub, page.users[0]), &mut client(&leaf, page.users[1]));
        }
    }
}

/// Without credentials, at a hub that has no users at all.
#[test]
fn leaf_nodes_of_one_account() {
    let page = Page {
        hub: "leafnodes {
  port: PORT
  authorization {
    account: TheAccount
  }
}
accounts { TheAccount {} }",
        leaf: "leafnodes { remotes: [{ url: \"nats://localhost:PORT\" }] }",
        users: ["", ""],
        links: 1,
    };
    let lab = Lab::new();
    for kinds in MIXES {
        let Some([hub, leaf]) = start(&page, kinds, &lab) else { continue };
        let remote = page.leaf.replace("PORT", &hub.port.to_string());
        let text = format!("server_name: OTHER\n{remote}");
        let Some(other) = Site::configured(Setup::default(), kinds[1], &text, 0) else { continue };
        hub.linked(2);
        other.linked(1);
        assert!(hub.links().iter().all(|link| link["account"] == "TheAccount"), "{kinds:?}");
        talk(&mut client(&leaf, ""), &mut client(&other, ""));
    }
}

#[test]
fn a_mix_of_urls_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("leaf.conf");
    let text = "leafnodes {
  remotes [
    # Invalid configuration that will prevent the server from starting
    {urls: [\"ws://hostname1:443\", \"nats://hostname2:7422\"]}
  ]
}";
    std::fs::write(&file, text).expect("the folder takes files");
    for kind in [Ours, Reference] {
        let Some(program) = kind.program() else { continue };
        let ended = Command::new(program).args(["-p", "-1", "-c"]).arg(&file).output().expect("it starts");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success(), "{kind:?}: {said}");
        let expected = "remote leaf node configuration cannot have a mix of websocket and non-websocket urls";
        assert!(said.contains(expected), "{kind:?}: {said}");
    }
}

const ACCOUNTS: &str = "accounts {
    SYS: {
        users: [{user: admin, password: admin}]
    },
    ACC: {
        users: [{user: acc, password: acc}],
        jetstream: enabled
    }
}
system_account: SYS";

const ACCOUNTS_WITH_IMPORTS: &str = "accounts {
    SYS: {
        users: [{user: admin, password: admin}]
    },
    ACC: {
        users: [{user: acc, password: acc}],
        jetstream: enabled
        exports: [
            # minimum export needed to allow source/mirror to create a consumer on the fly
            {service: \"$JS.hub.API.CONSUMER.CREATE.*\", response_type: \"stream\"}
            # minimum export needed for push consumer. This includes source and mirror!
            {stream: \"deliver.acc.hub.>\"}
            # minimum export needed for durable pull consumer `dur` in stream `aggregate-test-leaf`. (clients only - source and mirror do not use this)
            {service: \"$JS.hub.API.CONSUMER.MSG.NEXT.aggregate-test-leaf.dur\", response_type: \"stream\"}
            # minimum export needed to ack messages for durable consumer `dur` in stream `aggregate-test-leaf`. (clients only - source and mirror do not use this)
            {service: \"$JS.ACK.aggregate-test-leaf.dur.>\"}
            # minimum export needed for flow control of source/mirror
            {service: \"$JS.FC.aggregate-test-leaf.dur.>\"}
        ]
    }
    IMPORT_MIRROR: {
        users: [{user: import_mirror, password: import_mirror}],
        jetstream: enabled
        imports: [
            {service: {account: ACC, subject: \"$JS.hub.API.CONSUMER.CREATE.*\"}, to: \"JS.acc@hub.API.CONSUMER.CREATE.*\" }
            {service: {account: ACC, subject: \"$JS.FC.aggregate-test-leaf.dur.>\"}}
            {stream: {account: ACC, subject: deliver.acc.hub.import_mirror.>}}
        ]
    }
    # As of now, cross account, only pull consumer are supported.
    IMPORT_CLIENT: {
        users: [{user: import_client, password: import_client}],
        jetstream: enabled
        imports: [
            {service: {account: ACC, subject: \"$JS.hub.API.CONSUMER.MSG.NEXT.aggregate-test-leaf.dur\"}, to: \"JS.acc@hub.API.CONSUMER.MSG.NEXT.aggregate-test-leaf.dur\" }
            {service: {account: ACC, subject: \"$JS.ACK.aggregate-test-leaf.dur.>\"}}
        ]
    }
}
system_account: SYS";

const JETSTREAM_HUB: &str = "port: 4222
server_name: hub-server
jetstream {
    store_dir=\"./store_server\"
    domain=hub
}
leafnodes {
    port: PORT
}
";

const JETSTREAM_LEAF: &str = "port: 4111
server_name: leaf-server
jetstream {
    store_dir=\"./store_leaf\"
    domain=leaf
}
leafnodes {
    remotes = [
        {
            urls: [\"nats://admin:admin@0.0.0.0:PORT\"]
            account: \"SYS\"
        },
        {
            urls: [\"nats://acc:acc@0.0.0.0:PORT\"]
            account: \"ACC\"
        }
    ]
}
";

/// Asks JetStream until the answer has this text, and none that it cannot do that.
fn ask(raw: &mut Raw, subject: &str, body: &str, expected: &str) {
    eventually(&format!("{expected} of {subject}"), || {
        raw.send(&format!("PUB {subject} inbox {}\r\n{body}\r\n", body.len()));
        let got = raw.message();
        assert!(!got.text().contains("\"error\""), "{subject}: {}", got.text());
        got.text().contains(expected)
    });
}

/// The page makes a stream of the same name in both domains, a mirror and an aggregate of the leaf
/// node's at the hub, all as a client of the hub, and then has another account read there.
#[test]
fn jetstream_on_leaf_nodes() {
    let lab = Lab::new();
    for kinds in MIXES {
        for accounts in [ACCOUNTS, ACCOUNTS_WITH_IMPORTS] {
            let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
            let [hub, leaf] = [JETSTREAM_HUB, JETSTREAM_LEAF].map(|text| format!("{text}{accounts}"));
            let hub = hub.replace("./store_server", &folders[0].path().display().to_string());
            let leaf = leaf.replace("./store_leaf", &folders[1].path().display().to_string());
            let page = Page { hub: &hub, leaf: &leaf, users: ["acc:acc", "acc:acc"], links: 2 };
            let Some([hub, leaf]) = start(&page, kinds, &lab) else { continue };
            let (mut at_hub, mut at_leaf) = (client(&hub, "acc:acc"), client(&leaf, "acc:acc"));
            talk(&mut at_hub, &mut at_leaf);
            at_hub.subscribe("inbox", 7);
            at_hub.barrier();
            for domain in ["hub", "leaf"] {
                // Interest in the API of the other side may still be on its way.
                eventually("the domain answers", || {
                    at_hub.send(&format!("PUB $JS.{domain}.API.INFO inbox 0\r\n\r\n"));
                    at_hub.message().text().contains("account_info_response")
                });
                let test = r#"{"name":"test","subjects":["test"],"storage":"file","num_replicas":1}"#;
                ask(&mut at_hub, &format!("$JS.{domain}.API.STREAM.CREATE.test"), test, "\"name\":\"test\"");
            }
            wait_for_interest(&mut at_leaf, &mut at_hub);
            eventually("both have stored a message", || {
                at_hub.publish("test", "hello world");
                at_hub.barrier();
                ["hub", "leaf"].iter().all(|domain| {
                    at_hub.send(&format!("PUB $JS.{domain}.API.STREAM.INFO.test inbox 0\r\n\r\n"));
                    !at_hub.message().text().contains("\"messages\":0,")
                })
            });
            let external = r#"{"name":"test","external":{"api":"$JS.leaf.API","deliver":""}}"#;
            for (name, field) in [
                ("backup-test-leaf", format!("\"mirror\":{external}")),
                ("aggregate-test-leaf", format!("\"sources\":[{external}]")),
            ] {
                let config =
                    format!("{{\"name\":\"{name}\",\"storage\":\"file\",\"num_replicas\":1,{field}}}");
                let made = format!("\"name\":\"{name}\"");
                ask(&mut at_hub, &format!("$JS.hub.API.STREAM.CREATE.{name}"), &config, &made);
                eventually("what the leaf node has stored", || {
                    at_hub.send(&format!("PUB $JS.hub.API.STREAM.INFO.{name} inbox 0\r\n\r\n"));
                    !at_hub.message().text().contains("\"messages\":0,")
                });
            }
            if accounts == ACCOUNTS {
                continue;
            }
            let durable = r#"{"stream_name":"aggregate-test-leaf","config":{"durable_name":"dur","ack_policy":"explicit"}}"#;
            let create = "$JS.hub.API.CONSUMER.DURABLE.CREATE.aggregate-test-leaf.dur";
            ask(&mut at_hub, create, durable, "\"name\":\"dur\"");
            // nats consumer next aggregate-test-leaf dur --js-api-prefix JS.acc@hub.API
            let mut reader = client(&hub, "import_client:import_client");
            reader.subscribe("next", 1);
            reader.barrier();
            reader.send("PUB JS.acc@hub.API.CONSUMER.MSG.NEXT.aggregate-test-leaf.dur next 1\r\n1\r\n");
            assert!(reader.message().text().ends_with("hello world"), "{kinds:?}");
        }
    }
}

/// The pages on NGS, and on operators: a leaf node with credentials, without operators and with
/// them, whose system account is linked, too.
#[test]
fn leaf_nodes_with_credentials() {
    let (ids, lab) = (identities(), Lab::new());
    write_credentials(&ids, "edge", &lab.file("your-account.creds"));
    write_credentials(&ids, "root", &lab.file("system-account.creds"));
    let operated = operated(&ids);
    let hub = format!("leafnodes {{ port: PORT }}\n{operated}");
    let secure = format!("leafnodes {{ port: PORT, tls {{ {{tls}} }} }}\n{operated}");
    let ngs = "leafnodes {
    remotes = [
        {
          url: \"tls://localhost:PORT\"
          credentials: \"/path/to/your-account.creds\"
        },
    ]
}";
    let plain = "leafnodes {
    remotes = [
        {
          url: \"nats://localhost:PORT\"
          credentials: \"/path/to/your-account.creds\"
        },
        {
          url: \"nats://localhost:PORT\"
          account: \"$SYS\"
          credentials: \"/path/to/system-account.creds\"
        },
    ]
}";
    let with_operator = format!(
        "{operated}leafnodes {{
    remotes = [
        {{
          url: \"nats://localhost:PORT\"
          account: \"@key:A:app@\"
          credentials: \"/path/to/your-account.creds\"
        }},
        {{
          url: \"nats://localhost:PORT\"
          account: \"@key:A:sys@\"
          credentials: \"/path/to/system-account.creds\"
        }},
    ]
}}"
    );
    let with_operator = text(&ids, &with_operator);
    for kinds in MIXES {
        for (hub, leaf, links) in [(&secure, ngs, 1), (&hub, plain, 2), (&hub, &with_operator[..], 2)] {
            let page = Page { hub, leaf, users: ["", ""], links };
            let Some([hub, leaf]) = start(&page, kinds, &lab) else { continue };
            let (mut far, answer) = login(&hub.server, &ids, "bob");
            assert_eq!(answer, "PONG");
            let mut near = if page.leaf == with_operator {
                login(&leaf.server, &ids, "bob").0
            } else {
                client(&leaf, "")
            };
            talk(&mut far, &mut near);
        }
    }
}
