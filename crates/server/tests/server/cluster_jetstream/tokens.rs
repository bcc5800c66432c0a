//! Accounts that come from tokens, which a server has when somebody needs them: also servers that
//! no client of an account has met take part in what it has.

use super::{Trio, api, create, settled, store_all, stream};
use crate::client::connect;
use crate::identity::Issued;
use crate::process::Setup;
use async_nats::{Client, ConnectOptions};
use rustix::process::Signal;
use serde_json::{Value, json};

const ACCOUNT: &str = r#"js account by O:op for A:js {"nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1,"mem_storage":-1,"disk_storage":-1,"streams":-1,"consumer":-1}}}"#;

/// Three servers that trust an operator, and keys of an account with JetStream.
fn start() -> (Trio, Issued) {
    let ids = Issued::with(&[ACCOUNT, "jim user by A:js for U:jim {\"nats\":{FREE}}"]);
    let mut trio = Trio::prepare("");
    for node in &mut trio.nodes {
        let configured = "accounts { $SYS { users: [{user: admin, password: admin}] } }\n";
        node.config = node.config.replace(configured, &ids.memory(&["js"]));
        node.setup = Setup::default().config(&node.config);
    }
    (0..3).for_each(|at| trio.start_node(at));
    (trio, ids)
}

async fn client(trio: &Trio, at: usize, ids: &Issued) -> Client {
    let options =
        ConnectOptions::with_credentials(&ids.credentials("jim", "U:jim")).expect("a test is well made");
    connect(trio.nodes[at].server.as_ref().expect("it runs"), options).await.0
}

#[tokio::test]
async fn servers_that_an_account_has_not_met_have_its_streams() {
    let (mut trio, ids) = start();
    let jim = client(&trio, 0, &ids).await;
    create(&jim, &stream("S", 3)).await;
    store_all(&jim, "S", 0..5).await;
    settled(&jim, "S").await;
    for at in 0..3 {
        let name = format!("ONE{at}");
        let mut config = stream(&name, 1);
        config["placement"] = json!({ "tags": [format!("az:{at}")] });
        create(&jim, &config).await;
        store_all(&jim, &name, 0..2).await;
    }
    // Nor does one know it that has lost its disk.
    trio.end(2, Signal::KILL);
    trio.lose_disk(2);
    trio.start_node(2);
    let info = settled(&jim, "S").await;
    assert_eq!(info["state"]["messages"], 5, "{info}");
    let names = api(&jim, "STREAM.NAMES", &Value::Null).await;
    assert_eq!(names["total"], 4, "{names}");
}
