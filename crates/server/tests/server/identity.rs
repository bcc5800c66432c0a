//! Nkeys and operator mode, as the official client and operators see them: credentials, resolvers,
//! reloads, monitoring.

use crate::client::{connect, settle};
use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use async_nats::{ConnectErrorKind, ConnectOptions};
use futures_util::StreamExt as _;
use myelin_auth::KeyPair;
use myelin_compat::identity::{Identities, Order};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// No limits, as `nsc` writes them.
const OPEN: &str = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}"#;
const FREE: &str = r#""subs":-1,"data":-1,"payload":-1"#;

/// Keys and tokens of one test.
pub(crate) struct Issued(Identities);

impl Issued {
    /// An operator with a system account, and what else is ordered.
    pub(crate) fn with(orders: &[&str]) -> Self {
        let base = [
            r#"op operator by O:op for O:op {"name":"op","nats":{"system_account":"@key:A:sys@"}}"#
                .to_owned(),
            format!(r#"sys account by O:op for A:sys {{"name":"SYS","nats":{{{OPEN}}}}}"#),
            format!(r#"app account by O:op for A:app {{"name":"APP","nats":{{{OPEN}}}}}"#),
            format!(r#"bob user by A:app for U:bob {{"name":"Bob","nats":{{{FREE},"tags":["team:a"]}}}}"#),
        ];
        let open = |order: &&str| order.replace("OPEN", OPEN).replace("FREE", FREE);
        let all = base.into_iter().chain(orders.iter().map(open));
        let orders: Vec<_> = all.map(|order| Order::parse(&order).expect("a test is well made")).collect();
        Self(Identities::issue(&orders).expect("a test is well made"))
    }

    pub(crate) fn text(&self, text: &str) -> String {
        String::from_utf8(self.0.fill(text.as_bytes()).expect("a test is well made"))
            .expect("a test is well made")
    }

    /// A configuration with these accounts in memory.
    pub(crate) fn memory(&self, accounts: &[&str]) -> String {
        let line = |(key, token): &(&str, &str)| format!("@key:A:{key}@: \"@{token}@\"\n");
        let pairs = accounts.iter().map(|account| account.split_once('=').unwrap_or((account, account)));
        let lines: String = pairs.map(|pair| line(&pair)).collect();
        self.text(&format!(
            "operator: \"@op@\"\nresolver: MEM\nresolver_preload {{\n@key:A:sys@: \"@sys@\"\n{lines}}}\n"
        ))
    }

    /// A credentials file as `nsc` writes it.
    pub(crate) fn credentials(&self, token: &str, key: &str) -> String {
        self.text(&format!(
            "-----BEGIN NATS USER JWT-----\n@{token}@\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n@seed:{key}@\n------END USER NKEY SEED------\n"
        ))
    }

    /// Logs in over a raw socket and gives what the server answers to the first PING.
    pub(crate) fn login(&self, server: &Server, token: &str, key: &str) -> (Raw, String) {
        let mut raw = Raw::over(TcpStream::connect(server.address()).expect("a test is well made"));
        let info = raw.line();
        let info: Value = serde_json::from_str(info.strip_prefix("INFO ").expect("a test is well made"))
            .expect("a test is well made");
        let nonce = info["nonce"].as_str().expect("a test is well made");
        let connect =
            format!("CONNECT {{\"jwt\":\"@{token}@\",\"sig\":\"@sig@\",\"verbose\":false}}\r\nPING\r\n");
        let bytes = self.0.fill_signed(connect.as_bytes(), Some((key, nonce))).expect("a test is well made");
        raw.send_bytes(&bytes);
        let answer = raw.line();
        (raw, answer)
    }
}

async fn works(server: &Server, options: ConnectOptions) {
    let (client, _events) = connect(server, options).await;
    let mut sub = client.subscribe("a").await.expect("a test is well made");
    client.publish("a", "x".into()).await.expect("a test is well made");
    assert_eq!(&sub.next().await.expect("a test is well made").payload[..], b"x");
    settle(&client).await;
}

async fn is_refused(server: &Server, options: ConnectOptions) {
    let error = options.connect(server.url()).await.expect_err("not welcome");
    assert_eq!(error.kind(), ConnectErrorKind::AuthorizationViolation, "{error}");
}

#[tokio::test]
async fn the_official_client_logs_in_by_nkey() {
    let ids = Issued::with(&[]);
    let server = Server::with_config(&ids.text("authorization { users: [{nkey: @key:U:bob@}] }"));
    works(&server, ConnectOptions::with_nkey(ids.text("@seed:U:bob@"))).await;
    is_refused(&server, ConnectOptions::with_nkey(ids.text("@seed:U:eve@"))).await;
    is_refused(&server, ConnectOptions::new()).await;
}

#[tokio::test]
async fn the_official_client_logs_in_by_credentials_file_and_by_callback() {
    let ids = Issued::with(&["lost user by A:lost for U:lost {\"nats\":{FREE}}"]);
    let server = Server::with_config(&ids.memory(&["app"]));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), ids.credentials("bob", "U:bob")).unwrap();
    works(&server, ConnectOptions::with_credentials_file(file.path()).await.unwrap()).await;
    let key = Arc::new(KeyPair::from_seed(&ids.text("@seed:U:bob@")).unwrap());
    let sign = move |nonce: Vec<u8>| {
        let key = Arc::clone(&key);
        async move {
            let text = key.sign(&nonce);
            Ok(myelin_stdx::base_n::decode(&text, myelin_stdx::base_n::BASE64_URL).unwrap())
        }
    };
    works(&server, ConnectOptions::with_jwt(ids.text("@bob@"), sign)).await;
    let lost = ConnectOptions::with_credentials(&ids.credentials("lost", "U:lost")).unwrap();
    is_refused(&server, lost).await;
}

#[test]
fn connz_shows_who_came_with_what() {
    let ids = Issued::with(&["bearer user by A:app for U:bea {\"nats\":{FREE,\"bearer_token\":true}}"]);
    let server = Server::with_config(&ids.memory(&["app"]));
    let (raw, _) = ids.login(&server, "bob", "U:bob");
    let (bearer, _) = ids.login(&server, "bearer", "U:bea");
    let page = server.page("/connz?auth=1");
    let rows: Vec<&Value> = page["connections"].as_array().unwrap().iter().collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["authorized_user"], ids.text("@key:U:bob@"));
    assert_eq!(rows[0]["account"], ids.text("@key:A:app@"));
    assert_eq!(rows[0]["jwt"], ids.text("@bob@"));
    assert_eq!(rows[0]["issuer_key"], ids.text("@key:A:app@"));
    assert_eq!(rows[0]["name_tag"], "APP");
    assert_eq!(rows[0]["tags"][0], "team:a");
    assert_eq!(rows[1]["authorized_user"], ids.text("@key:U:bea@"));
    assert!(rows[1]["jwt"].is_null(), "a bearer's token is all that it takes to be it");
    let account = &server.page(&ids.text("/accountz?acc=@key:A:app@"))["account_detail"];
    assert_eq!(account["jwt"], ids.text("@app@"));
    assert_eq!(account["decoded_jwt"]["name"], "APP");
    assert_eq!(account["client_connections"], 2);
    let varz = server.page("/varz");
    assert_eq!(varz["trusted_operators_jwt"][0], ids.text("@op@"));
    assert_eq!(varz["system_account"], ids.text("@key:A:sys@"));
    drop((raw, bearer));
}

/// No secret stands in the log, whatever is traced.
#[test]
fn tokens_and_seeds_are_in_no_log() {
    let ids = Issued::with(&["bearer user by A:app for U:bea {\"nats\":{FREE,\"bearer_token\":true}}"]);
    let server = Setup::default().config(&ids.memory(&["app"])).flags(&["-D"]).start();
    for (token, key) in [("bob", "U:bob"), ("bearer", "U:bea"), ("bob", "U:eve")] {
        ids.login(&server, token, key);
    }
    server.wait_for_log("Signature not verified");
    let log = server.log();
    for secret in ["@bob@", "@bearer@", "@seed:U:bob@"] {
        assert!(!log.contains(&ids.text(secret)), "{secret}");
    }
    let label = ids.text("jwt:@key:U:bob@");
    assert!(log.contains(&label), "{log}");
}

fn reloaded(old: &Issued, server: &Server, accounts: &[&str]) {
    let lines = server.reload(&old.memory(accounts));
    assert!(lines.iter().any(|line| line.contains("Reloaded server configuration")), "{lines:#?}");
}

#[test]
fn a_reload_takes_tokens_back_and_accounts_away() {
    let ids = Issued::with(&[
        "carol user by A:app for U:carol {\"nats\":{FREE}}",
        "dave user by A:other for U:dave {\"nats\":{FREE}}",
        "other account by O:op for A:other {\"nats\":{OPEN}}",
        "app2 account by O:op for A:app {\"name\":\"APP\",\"nats\":{OPEN,\"revocations\":{\"@key:U:bob@\":99999999999}}}",
        "app3 account by O:op for A:app {\"name\":\"APP\",\"nats\":{OPEN,\"revocations\":{\"*\":99999999999}}}",
    ]);
    let server = Server::with_config(&ids.memory(&["app", "other"]));
    let (bob, _) = ids.login(&server, "bob", "U:bob");
    let (mut carol, _) = ids.login(&server, "carol", "U:carol");
    let (dave, answer) = ids.login(&server, "dave", "U:dave");
    assert_eq!(answer, "PONG");
    reloaded(&ids, &server, &["app=app2"]);
    let (bob, dave) = (bob.rest(), dave.rest());
    assert!(bob.contains("-ERR 'User Authentication Revoked'"), "{bob}");
    assert!(dave.contains("-ERR 'Authorization Violation'"), "{dave}");
    carol.barrier();
    let (_, answer) = ids.login(&server, "bob", "U:bob");
    assert_eq!(answer, "-ERR 'Authorization Violation'");
    reloaded(&ids, &server, &["app=app3"]);
    assert!(carol.rest().contains("-ERR 'User Authentication Revoked'"));
}

#[test]
fn a_directory_is_read_when_an_account_is_needed() {
    let ids = Issued::with(&[
        "app2 account by O:op for A:app {\"iat\":\"+1\",\"nats\":{OPEN,\"revocations\":{\"*\":99999999999}}}",
    ]);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("jwt");
    let config = |kind: &str| {
        ids.text(&format!(
            "operator: \"@op@\"\nresolver {{ type: {kind}, dir: \"{}\" }}\nresolver_preload {{ @key:A:sys@: \"@sys@\" }}",
            path.display()
        ))
    };
    let server = Server::with_config(&config("full"));
    server.wait_for_log("Managing all jwt in exclusive directory");
    let (_, answer) = ids.login(&server, "bob", "U:bob");
    assert_eq!(answer, "-ERR 'Authorization Violation'", "nobody has brought the account yet");
    let file = path.join(format!("{}.jwt", ids.text("@key:A:app@")));
    std::fs::write(&file, ids.text("@app@")).unwrap();
    assert!(path.join(format!("{}.jwt", ids.text("@key:A:sys@"))).exists(), "what is preloaded is stored");
    let (bob, answer) = ids.login(&server, "bob", "U:bob");
    assert_eq!(answer, "PONG");
    // Another token of the account, found by a reload: its connections are looked at.
    std::fs::write(&file, ids.text("@app2@")).unwrap();
    server.reload(&config("full"));
    assert!(bob.rest().contains("-ERR 'User Authentication Revoked'"));
    eventually("the closed connection", || {
        let page = server.page("/connz?state=closed");
        let rows = page["connections"].as_array().unwrap().clone();
        rows.iter().any(|row| row["reason"] == "Credentials Revoked")
    });
    let cache = Server::with_config(&config("cache"));
    cache.wait_for_log("Managing some jwt in exclusive directory");
    let (_, answer) = ids.login(&cache, "bob", "U:bob");
    assert_eq!(answer, "-ERR 'Authorization Violation'");
}

#[test]
fn a_system_account_may_come_later() {
    let ids = Issued::with(&["admin user by A:sys for U:admin {\"nats\":{FREE}}"]);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("jwt");
    let server = Server::with_config(
        &ids.text(&format!("operator: \"@op@\"\nresolver {{ type: full, dir: \"{}\" }}", path.display())),
    );
    server.wait_for_log("Using bootstrapping system account");
    let (mut admin, answer) = ids.login(&server, "admin", "U:admin");
    assert_eq!(answer, "PONG", "its own key is known");
    std::fs::write(path.join(format!("{}.jwt", ids.text("@key:A:sys@"))), ids.text("@sys@")).unwrap();
    server.wait_for_log("System account fetched and updated");
    admin.barrier();
}

/// A web server that knows tokens by path, for as long as a test lives.
fn serve_tokens(tokens: Vec<(String, String)>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a test is well made");
    let port = listener.local_addr().expect("a test is well made").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                request.push(byte[0]);
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match tokens.iter().find(|(key, _)| path.ends_with(&format!("/{key}"))) {
                Some((_, token)) => ("200 OK", token.as_str()),
                None if path.ends_with('/') => ("200 OK", ""),
                None => ("404 Not Found", ""),
            };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn a_url_is_asked_for_accounts() {
    let ids = Issued::with(&["lost user by A:lost for U:lost {\"nats\":{FREE}}"]);
    let tokens =
        ["sys", "app"].map(|name| (ids.text(&format!("@key:A:{name}@")), ids.text(&format!("@{name}@"))));
    let port = serve_tokens(tokens.into());
    let server =
        Server::with_config(&ids.text(&format!(
            "operator: \"@op@\"\nresolver: URL(\"http://127.0.0.1:{port}/jwt/v1/accounts/\")"
        )));
    let (_bob, answer) = ids.login(&server, "bob", "U:bob");
    assert_eq!(answer, "PONG");
    let (_, answer) = ids.login(&server, "lost", "U:lost");
    assert_eq!(answer, "-ERR 'Authorization Violation'");
    server.wait_for_log(&format!(
        "Account fetch failed: could not fetch <\"http://127.0.0.1:{port}/jwt/v1/accounts/{}\">: 404 Not Found",
        ids.text("@key:A:lost@")
    ));
}

/// Nobody answers at that URL: a login for an account that is not known waits, one for a known
/// account does not.
#[test]
fn a_url_that_does_not_answer_holds_up_nobody_else() {
    let ids = Issued::with(&["lost user by A:lost for U:lost {\"nats\":{FREE}}"]);
    let tokens =
        ["sys", "app"].map(|name| (ids.text(&format!("@key:A:{name}@")), ids.text(&format!("@{name}@"))));
    let port = serve_tokens(tokens.into());
    let server = Server::with_config(&ids.text(&format!(
        "operator: \"@op@\"\nresolver: URL(\"http://127.0.0.1:{port}/\")\nauthorization {{ timeout: 10 }}"
    )));
    let (_bob, answer) = ids.login(&server, "bob", "U:bob");
    assert_eq!(answer, "PONG");
    // The web server answers one request after the other: this one never ends its own.
    let _busy = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let lost = std::thread::scope(|scope| {
        let lost = scope.spawn(|| ids.login(&server, "lost", "U:lost").1);
        let (_again, answer) = ids.login(&server, "bob", "U:bob");
        assert_eq!(answer, "PONG");
        assert!(!lost.is_finished(), "it waits for an answer");
        lost.join().unwrap()
    });
    assert_eq!(lost, "-ERR 'Authorization Violation'");
}

#[test]
fn accounts_get_the_jetstream_of_their_tokens() {
    let ids = Issued::with(&[
        r#"js account by O:op for A:js {"name":"JS","nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1,"mem_storage":1000,"disk_storage":5000,"streams":2,"consumer":-1}}}"#,
        "jim user by A:js for U:jim {\"nats\":{FREE}}",
    ]);
    let store = tempfile::tempdir().unwrap();
    let config =
        format!("{}\njetstream {{ store_dir: \"{}\" }}", ids.memory(&["app", "js"]), store.path().display());
    let server = Server::with_config(&config);
    let info = |raw: &mut Raw| {
        raw.subscribe("r", 1);
        raw.send("PUB $JS.API.INFO r 0\r\n\r\n");
        serde_json::from_str::<Value>(raw.message().text()).unwrap()
    };
    let (mut jim, _) = ids.login(&server, "jim", "U:jim");
    let found = info(&mut jim);
    assert_eq!(found["limits"]["max_storage"], 5000, "{found}");
    assert_eq!(found["limits"]["max_streams"], 2);
    let (mut bob, _) = ids.login(&server, "bob", "U:bob");
    assert_eq!(info(&mut bob)["error"]["code"], 503, "an account that may store nothing");
    let shown = &server.page("/jsz?accounts=1")["account_details"];
    let names = |of: &Value| (of["name"].clone(), of["id"].clone());
    assert_eq!(names(&shown[0]), ("JS".into(), ids.text("@key:A:js@").into()), "{shown}");
}

/// Files of credentials are read by the official command line too, where it is installed.
#[test]
fn the_nats_command_line_logs_in() {
    let nats = Path::new(&std::env::var("HOME").unwrap_or_default()).join("go/bin/nats");
    if !nats.exists() {
        eprintln!("no nats command line: not tried");
        return;
    }
    let ids = Issued::with(&[]);
    let place = tempfile::tempdir().unwrap();
    let (creds, seed) = (place.path().join("bob.creds"), place.path().join("bob.nk"));
    std::fs::write(&creds, ids.credentials("bob", "U:bob")).unwrap();
    std::fs::write(&seed, ids.text("@seed:U:bob@")).unwrap();
    let operator = Server::with_config(&ids.memory(&["app"]));
    let nkeys = Server::with_config(&ids.text("authorization { users: [{nkey: @key:U:bob@}] }"));
    for (server, flag, file) in [(&operator, "--creds", &creds), (&nkeys, "--nkey", &seed)] {
        let done = std::process::Command::new(&nats)
            .env("XDG_CONFIG_HOME", place.path())
            .args(["--server", &server.url(), flag])
            .arg(file)
            .args(["pub", "a", "x"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{flag}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn a_user_is_told_when_its_token_ends() {
    let ids = Issued::with(&["brief user by A:app for U:brief {\"exp\":\"+2\",\"nats\":{FREE}}"]);
    let server = Server::with_config(&ids.memory(&["app"]));
    let (brief, answer) = ids.login(&server, "brief", "U:brief");
    assert_eq!(answer, "PONG");
    assert_eq!(brief.rest(), "-ERR 'User Authentication Expired'\r\n");
    server.wait_for_close("Authentication Expired");
}
