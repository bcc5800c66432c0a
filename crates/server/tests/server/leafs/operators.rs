//! Leaf nodes of operators: accounts that come with tokens, and hubs that they log in at by a file
//! of credentials.

use super::Site;
use crate::eventually;
use crate::process::Setup;
use crate::resolving::{BEARER, OPEN, issued, login, text};
use crate::routes::{MIXES, free_port, wait_for_interest};
use myelin_compat::identity::Identities;
use std::path::Path;

/// An operator with an account for applications.
pub(super) fn identities() -> Identities {
    let user = r#"{"nats":{"subs":-1,"data":-1,"payload":-1}}"#;
    issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{OPEN}}}}}"#),
        format!(r#"app account by O:op for A:app {{"nats":{{{OPEN}}}}}"#),
        format!("bob user by A:app for U:bob {BEARER}"),
        format!("edge user by A:app for U:edge {user}"),
        format!("root user by A:sys for U:root {user}"),
    ])
}

/// Options of a server that believes the operator and has all its accounts.
pub(super) fn operated(ids: &Identities) -> String {
    let options = "operator: \"@op@\"\nsystem_account: @key:A:sys@\nresolver: MEMORY\n\
        resolver_preload {\n@key:A:sys@: \"@sys@\"\n@key:A:app@: \"@app@\"\n}\n";
    text(ids, options)
}

/// Writes a file of credentials.
pub(super) fn write_credentials(ids: &Identities, user: &str, file: &Path) {
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n@{user}@\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n@seed:U:{user}@\n------END USER NKEY SEED------\n"
    );
    std::fs::write(file, text(ids, &credentials)).expect("the folder takes files");
}

/// An account of a token that has no JetStream here uses that of its default domain; with an empty
/// one its requests cross the link, if the hub lets them, too.
#[test]
fn an_account_of_a_token_may_have_a_default_domain() {
    let ids = identities();
    for kinds in MIXES {
        for (default, domain, at_hub) in
            [("D", ", domain: D", ""), ("\"\"", "", "default_js_domain { A: \"\" }")]
        {
            let store = tempfile::tempdir().expect("a folder");
            let jetstream = format!(
                "jetstream {{ store_dir: {:?}{domain} }}\n\
                 accounts {{ A {{ jetstream: enabled, users: [{{user: a, password: a}}] }} }}\n{at_hub}",
                store.path()
            );
            let Some(hub) = Site::hub(kinds[0], "HUB", "", &jetstream) else { continue };
            let remote =
                format!("{{ url: \"nats://a:a@127.0.0.1:{}\", account: \"@key:A:app@\" }}", hub.port);
            let more = format!(
                "leafnodes {{ remotes: [{remote}] }}\ndefault_js_domain {{ @key:A:app@: {default} }}"
            );
            let more = format!("server_name: EDGE\n{}{}", operated(&ids), text(&ids, &more));
            let Some(leaf) = Site::configured(Setup::default(), kinds[1], &more, 0) else { continue };
            hub.linked(1);
            leaf.linked(1);
            let (mut raw, answer) = login(&leaf.server, &ids, "bob");
            assert_eq!(answer, "PONG");
            raw.subscribe("inbox", 1);
            eventually("an answer of the hub's JetStream", || {
                raw.send("PUB $JS.API.INFO inbox 0\r\n\r\n");
                let got = raw.barrier();
                got.iter().any(|one| one.text().contains("io.nats.jetstream.api.v1.account_info_response"))
            });
        }
    }
}

/// A user of a file of credentials, which is read anew for each attempt.
#[test]
fn a_leaf_node_logs_in_by_a_file_of_credentials() {
    let ids = identities();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("edge.creds");
    for kinds in MIXES {
        let port = free_port();
        let hub =
            format!("server_name: HUB\nleafnodes {{ listen: \"127.0.0.1:{port}\" }}\n{}", operated(&ids));
        let Some(hub) = Site::configured(Setup::default(), kinds[0], &hub, port) else { continue };
        std::fs::write(&file, "nothing of use").expect("the folder takes files");
        let remote = format!(
            "reconnect: \"100ms\"\nremotes: [{{ url: \"nats://127.0.0.1:{port}\", credentials: {file:?} }}]"
        );
        let Some(leaf) = Site::start(kinds[1], "EDGE", None, &remote, "") else { continue };
        leaf.server.wait_for_log("redentials file");
        write_credentials(&ids, "edge", &file);
        hub.linked(1);
        leaf.linked(1);
        let (mut far, _) = login(&hub.server, &ids, "bob");
        let mut near = leaf.client();
        wait_for_interest(&mut near, &mut far);
        wait_for_interest(&mut far, &mut near);
    }
}
