//! A callout service that decides about leaf nodes, with nats-server on either side.

use super::{Site, dialling};
use crate::callout::{AUTH, configured, hear, key, publish, service};
use crate::routes::MIXES;
use crate::tls::Lab;
use myelin_stdx::nkey::Role;
use serde_json::json;

/// The account and the permissions of a leaf node are those of the answer.
#[test]
fn a_service_decides_about_leaf_nodes() {
    let issuer = key(Role::Account, 1);
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", &configured("", 5)) else { continue };
        let mut asked = service(&hub.server, AUTH);
        let port = hub.port;
        let remotes = format!(
            "reconnect: \"300ms\"\nremotes: [{{ url: \"nats://leaf:secret@127.0.0.1:{port}\", account: L }}]"
        );
        let accounts = "accounts { L { users: [{user: l, password: l}] } }\nno_auth_user: l";
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, accounts) else { continue };
        let question = hear(&mut asked, None);
        let (client, connect) = (question.claim("client_info"), question.claim("connect_opts"));
        assert_eq!(client["kind"], "Leafnode", "{client}");
        assert_eq!((&client["user"], &client["name"]), (&json!("leaf"), &json!("EDGE")), "{client}");
        assert!(client.get("type").is_none(), "{client}");
        assert_eq!((&connect["user"], &connect["pass"]), (&json!("leaf"), &json!("secret")), "{connect}");
        let rules = json!({"pub": {"allow": ["up.>"]}, "subs": -1, "data": -1, "payload": -1});
        let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "name": "x", "nats": rules}));
        publish(&mut asked, &question.reply, answer.as_bytes());
        hub.linked(1);
        leaf.linked(1);
        assert_eq!(hub.links()[0]["account"], "APP", "{kinds:?}");
        let mut there = crate::raw::Raw::open(hub.server.address());
        there.send("CONNECT {\"user\":\"app\",\"pass\":\"pwd\",\"verbose\":false}\r\nSUB > 1\r\n");
        there.barrier();
        let mut here = leaf.client();
        crate::eventually("a message may go up", || {
            here.send("PUB other 1\r\nx\r\nPUB up.a 1\r\nx\r\n");
            here.barrier();
            let got = there.barrier();
            assert!(got.iter().all(|message| message.subject != "other"), "{got:?}");
            got.iter().any(|message| message.subject == "up.a")
        });
    }
}

/// A leaf node that the service does not let in, or about which it says nothing, is not linked.
#[test]
fn a_service_refuses_leaf_nodes() {
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", "", &configured("", 1)) else { continue };
        let mut asked = service(&hub.server, AUTH);
        let port = hub.port;
        let remotes =
            format!("reconnect: \"300ms\"\nremotes: [{{ url: \"nats://leaf:secret@127.0.0.1:{port}\" }}]");
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remotes, "") else { continue };
        let question = hear(&mut asked, None);
        publish(&mut asked, &question.reply, b"no token");
        hub.server.wait_for_log("authentication error - User \"leaf\"");
        leaf.server.wait_for_log("Leafnode Error 'Authorization Violation'");
        // Silence is a refusal, too: it asks again.
        let _ = hear(&mut asked, None);
        let _ = hear(&mut asked, None);
        assert!(hub.links().is_empty() && leaf.links().is_empty(), "{kinds:?}");
    }
}

/// A service sees the certificate that TLS has verified.
#[test]
fn a_question_about_a_leaf_node_has_its_certificate() {
    let lab = Lab::new();
    let (wanting, showing) =
        (lab.block("ca_file: \"@ca.pem\", verify: true"), lab.block("ca_file: \"@ca.pem\""));
    let squeezed = |pem: &str| pem.replace(char::is_whitespace, "");
    let files = ["server.pem", "ca.pem"];
    let expected = files.map(|file| squeezed(&std::fs::read_to_string(lab.file(file)).expect("it is there")));
    for kinds in MIXES {
        let Some(hub) = Site::hub(kinds[0], "HUB", &wanting, &configured("", 5)) else { continue };
        let mut asked = service(&hub.server, AUTH);
        let url = format!("nats://leaf:secret@127.0.0.1:{}", hub.port);
        let Some(_leaf) = dialling(kinds[1], &url, &showing) else { continue };
        let question = hear(&mut asked, None);
        let tls = question.claim("client_tls");
        assert_eq!(tls["version"], "1.3", "{kinds:?}: {tls}");
        assert!(tls["cipher"].as_str().is_some_and(|name| name.starts_with("TLS_")), "{kinds:?}: {tls}");
        let chains = tls["verified_chains"].as_array().expect("chains");
        let shown = chains[0].as_array().expect("a chain").iter().flat_map(|cert| cert.as_str());
        assert_eq!(shown.map(squeezed).collect::<Vec<_>>(), expected, "{kinds:?}");
    }
}
