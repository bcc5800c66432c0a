//! Auth callout with services that are real clients: configuration and operator mode, sealed and
//! open, slow and silent.

use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::tls::Lab;
use myelin_auth::{KeyPair, XKey};
use myelin_compat::identity::{Identities, Order};
use myelin_stdx::base_n::{self, BASE64_URL};
use myelin_stdx::entropy::OsEntropy;
use myelin_stdx::nkey::{self, Role};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const OPEN: &str = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}"#;

pub(crate) fn key(role: Role, n: u8) -> KeyPair {
    KeyPair::from_bytes(role, &[n; 32]).expect("a role that signs")
}

/// A token of this kind with these claims.
fn signed(kind: &str, by: &KeyPair, mut claims: Value) -> String {
    claims["iss"] = json!(by.public());
    claims["nats"]["type"] = json!(kind);
    claims["nats"]["version"] = json!(2);
    let part = |value: Value| base_n::encode(value.to_string().as_bytes(), BASE64_URL);
    let signed = format!("{}.{}", part(json!({"typ": "JWT", "alg": "ed25519-nkey"})), part(claims));
    let signature = by.sign(signed.as_bytes());
    format!("{signed}.{signature}")
}

/// A question as a service hears it.
pub(crate) struct Question {
    pub(crate) reply: String,
    claims: Value,
    xkey: Option<String>,
}

impl Question {
    /// One of its claims.
    pub(crate) fn claim(&self, name: &str) -> Value {
        self.claims["nats"][name].clone()
    }

    fn user(&self) -> Value {
        self.claim("user_nkey")
    }

    /// The answer that lets in a user with these claims.
    pub(crate) fn admit(&self, by: &KeyPair, user_by: &KeyPair, mut claims: Value) -> String {
        claims["sub"] = self.user();
        let token = signed("user", user_by, claims);
        let server = self.claims["nats"]["server_id"]["id"].clone();
        signed(
            "authorization_response",
            by,
            json!({"sub": self.user(), "aud": server, "nats": {"jwt": token}}),
        )
    }
}

/// Hears the next question; sealed ones are opened with `curve`.
pub(crate) fn hear(service: &mut Raw, curve: Option<&XKey>) -> Question {
    let message = service.message();
    let has_headers = message.body.starts_with(b"NATS/1.0\r\n");
    let end = message.body.windows(4).position(|end| end == b"\r\n\r\n").filter(|_| has_headers);
    let (headers, body) = message.body.split_at(end.map_or(0, |end| end + 4));
    let headers = String::from_utf8_lossy(headers).into_owned();
    let xkey = headers.split_once("Nats-Server-Xkey: ").map(|(_, key)| key.trim().to_owned());
    let token = match (curve, &xkey) {
        (Some(curve), Some(sender)) => curve.open(body, sender).expect("sealed for us"),
        _ => body.to_vec(),
    };
    let token = String::from_utf8(token).expect("a token");
    let claims = base_n::decode(token.split('.').nth(1).expect("a token"), BASE64_URL).expect("base64");
    let claims = serde_json::from_slice(&claims).expect("JSON");
    Question { reply: message.reply.expect("a reply"), claims, xkey }
}

pub(crate) fn publish(service: &mut Raw, reply: &str, body: &[u8]) {
    let head = format!("PUB {reply} {}\r\n", body.len());
    service.send_bytes(&[head.as_bytes(), body, b"\r\n"].concat());
}

fn raw(server: &Server) -> Raw {
    Raw::open(server.address())
}

/// A service that has connected as a user with this CONNECT.
pub(crate) fn service(server: &Server, login: &str) -> Raw {
    let mut raw = raw(server);
    raw.send(&format!(
        "CONNECT {{{login},\"verbose\":false,\"headers\":true}}\r\nSUB $SYS.REQ.USER.AUTH 1\r\nPING\r\n"
    ));
    assert_eq!(raw.line(), "PONG");
    raw
}

pub(crate) fn configured(more: &str, timeout: u32) -> String {
    let issuer = key(Role::Account, 1).public();
    format!(
        "accounts {{ AUTH {{ users: [ {{user: auth, password: pwd}} ] }}, APP {{ users: [ {{user: app, password: pwd}} ] }} }}
         authorization {{ timeout: {timeout}, auth_callout {{ issuer: {issuer}, account: AUTH, auth_users: [auth, app] {more} }} }}"
    )
}

pub(crate) const AUTH: &str = "\"user\":\"auth\",\"pass\":\"pwd\"";

/// Questions are sealed for the service's key, and it may answer sealed or open.
#[test]
fn questions_and_answers_are_sealed() {
    let curve = XKey::from_seed(&nkey::encode_seed(Role::Curve, &[5; 32])).expect("a curve key");
    let server = Server::with_config(&configured(&format!(", xkey: {}", curve.public()), 5));
    let issuer = key(Role::Account, 1);
    let mut service = service(&server, AUTH);
    for is_sealed in [true, false] {
        let mut client = raw(&server);
        client.send("CONNECT {\"user\":\"bob\",\"pass\":\"secret\",\"verbose\":false}\r\nPING\r\n");
        let question = hear(&mut service, Some(&curve));
        let own = question.claims["nats"]["server_id"]["xkey"].clone();
        assert_eq!(question.xkey.as_deref(), own.as_str());
        assert_eq!(question.claims["nats"]["connect_opts"]["pass"], "secret");
        let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "name": "b"}));
        let own = question.xkey.clone().expect("a key");
        let body = if is_sealed {
            curve.seal(answer.as_bytes(), &own, &OsEntropy).expect("a key")
        } else {
            answer.into_bytes()
        };
        publish(&mut service, &question.reply, &body);
        assert_eq!(client.line(), "PONG");
    }
    // Sealed by somebody else, or broken.
    let stranger = XKey::random(&OsEntropy);
    for n in 0..3 {
        let mut client = raw(&server);
        client.send("CONNECT {\"user\":\"bob\",\"verbose\":false}\r\nPING\r\n");
        let question = hear(&mut service, Some(&curve));
        let answer = question.admit(&issuer, &issuer, json!({"aud": "APP"}));
        let own = question.xkey.clone().expect("a key");
        let mut body =
            if n == 0 { &stranger } else { &curve }.seal(answer.as_bytes(), &own, &OsEntropy).expect("a key");
        match n {
            1 => body[40] ^= 1,
            2 => body.truncate(20),
            _ => {}
        }
        publish(&mut service, &question.reply, &body);
        assert_eq!(client.line(), "-ERR 'Authorization Violation'");
    }
    server.wait_for_log(
        "Error decrypting auth callout response on account \"AUTH\": nkeys: could not decrypt input",
    );
    server.wait_for_log("nkeys: encrypted input is not valid");
}

/// Whoever waits for an answer holds up nobody else, however many they are.
#[test]
fn a_silent_service_costs_nobody_else_anything() {
    let server = Server::with_config(&configured("", 30));
    let mut service = service(&server, AUTH);
    let issuer = key(Role::Account, 1);
    let mut waiting: Vec<Raw> = (0..200)
        .map(|n| {
            let mut client = raw(&server);
            client.send(&format!("CONNECT {{\"user\":\"u{n}\",\"verbose\":false}}\r\nPING\r\n"));
            client
        })
        .collect();
    let questions: Vec<Question> = waiting.iter().map(|_| hear(&mut service, None)).collect();
    let mut app = raw(&server);
    app.send("CONNECT {\"user\":\"app\",\"pass\":\"pwd\",\"verbose\":false}\r\nSUB a 1\r\nPUB a 1\r\nx\r\nPING\r\n");
    assert_eq!(app.line(), "MSG a 1 1");
    // Those who leave are forgotten; late answers to them do no harm.
    waiting.truncate(100);
    for question in questions.iter().rev() {
        let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "nats": {}}));
        publish(&mut service, &question.reply, answer.as_bytes());
        publish(&mut service, &question.reply, answer.as_bytes());
    }
    for client in &mut waiting {
        assert_eq!(client.line(), "PONG");
    }
    eventually("only those who stay are there", || server.page("/connz")["num_connections"] == 102);
}

/// An answer decides name, account, limits and end of a login, and monitoring shows them.
#[test]
fn an_answer_says_who_it_is() {
    let server = Server::with_config(&configured("", 5));
    let mut service = service(&server, AUTH);
    let issuer = key(Role::Account, 1);
    let mut client = raw(&server);
    client.send("CONNECT {\"auth_token\":\"t\",\"verbose\":false,\"pedantic\":false}\r\nPING\r\n");
    let question = hear(&mut service, None);
    assert_eq!(question.claims["nats"]["connect_opts"]["auth_token"], "t");
    assert_eq!(question.claims["nats"]["client_info"]["user"], "[REDACTED]");
    let user = json!({"aud": "APP", "name": "bob", "nats": {"payload": 5, "subs": 1}});
    let answer = question.admit(&issuer, &issuer, user);
    publish(&mut service, &question.reply, answer.as_bytes());
    assert_eq!(client.line(), "PONG");
    let page = server.page("/connz?auth=1&acc=APP");
    let row = &page["connections"][0];
    assert_eq!((&row["authorized_user"], &row["account"]), (&json!("bob"), &json!("APP")));
    assert!(row["jwt"].is_null() && row["issuer_key"] == "APP", "{row}");
    client.send("SUB a 1\r\nSUB b 2\r\nPING\r\n");
    assert_eq!(client.line(), "-ERR 'maximum subscriptions exceeded'");
    assert_eq!(client.line(), "PONG");
    client.send("PUB a 6\r\n123456\r\n");
    assert_eq!(client.line(), "-ERR 'Maximum Payload Violation'");
    // Nothing of what the client keeps secret is in the log.
    let mut other = raw(&server);
    other.send("CONNECT {\"user\":\"u\",\"pass\":\"very-secret\",\"verbose\":false}\r\n");
    let question = hear(&mut service, None);
    publish(&mut service, &question.reply, b"");
    assert_eq!(other.line(), "-ERR 'Authorization Violation'");
    server.wait_for_log("no reason supplied");
    assert!(!server.log().contains("very-secret"));
}

/// A client that is turned away is reported in the service's account, with the service's reason;
/// one that is let in can see for how long.
#[test]
fn a_service_hears_whom_it_has_turned_away() {
    let server = Server::with_config(&configured("", 5));
    let mut service = service(&server, AUTH);
    let mut watcher = raw(&server);
    watcher.send(&format!(
        "CONNECT {{{AUTH},\"verbose\":false}}\r\nSUB $SYS.ACCOUNT.CLIENT.AUTH.ERR 1\r\nPING\r\n"
    ));
    assert_eq!(watcher.line(), "PONG");
    let issuer = key(Role::Account, 1);
    let mut client = raw(&server);
    client.send("CONNECT {\"user\":\"bob\",\"verbose\":false}\r\nPING\r\n");
    let question = hear(&mut service, None);
    let id = question.claims["nats"]["server_id"]["id"].clone();
    let no = json!({"sub": question.user(), "aud": id, "nats": {"error": "BAD CREDS"}});
    publish(&mut service, &question.reply, signed("authorization_response", &issuer, no).as_bytes());
    assert_eq!(client.line(), "-ERR 'Authorization Violation'");
    let event: Value = serde_json::from_slice(&watcher.message().body).expect("JSON");
    assert_eq!(event["reason"], "Auth callout service returned an error: BAD CREDS");
    assert_eq!((&event["client"]["acc"], &event["client"]["user"]), (&json!("AUTH"), &json!("bob")));
    let mut client = raw(&server);
    client.send("CONNECT {\"user\":\"bob\",\"verbose\":false,\"headers\":true}\r\nSUB in 1\r\nPUB $SYS.REQ.USER.INFO in 0\r\n\r\n");
    let question = hear(&mut service, None);
    let end = jiff::Timestamp::now().as_second() + 600;
    let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "name": "bob", "exp": end}));
    publish(&mut service, &question.reply, answer.as_bytes());
    let info: Value = serde_json::from_slice(&client.message().body).expect("JSON");
    let left = info["data"]["expires"].as_i64().expect("a number");
    assert!((500_000_000_000..=600_000_000_000).contains(&left), "{info}");
}

/// A reload asks again about those whom a service has let in.
#[test]
fn a_reload_asks_again() {
    let server = Setup::default().config(&configured("", 5)).start();
    let mut service = service(&server, AUTH);
    let issuer = key(Role::Account, 1);
    let mut clients: Vec<Raw> = ["stays", "goes"]
        .iter()
        .map(|name| {
            let mut client = raw(&server);
            client.send(&format!("CONNECT {{\"user\":\"{name}\",\"verbose\":false}}\r\nPING\r\n"));
            let question = hear(&mut service, None);
            let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "name": "x"}));
            publish(&mut service, &question.reply, answer.as_bytes());
            assert_eq!(client.line(), "PONG");
            client
        })
        .collect();
    let more = configured("", 5).replace("APP {", "MORE {}, APP {");
    let asked = std::thread::scope(|scope| {
        let reload = scope.spawn(|| server.reload(&more));
        for _ in 0..2 {
            let question = hear(&mut service, None);
            let name = question.claims["nats"]["connect_opts"]["user"].clone();
            let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "name": "x"}));
            let body = if name == "stays" { answer } else { String::new() };
            publish(&mut service, &question.reply, body.as_bytes());
        }
        reload.join().expect("the reload ends")
    });
    assert!(asked.iter().any(|line| line.contains("Reloaded server configuration")), "{asked:?}");
    let goes = clients.pop().expect("two clients");
    assert!(goes.rest().contains("-ERR 'Authorization Violation'"));
    clients[0].barrier();
}

fn issued(orders: &[String]) -> Identities {
    let orders: Vec<_> =
        orders.iter().map(|order| Order::parse(order).expect("a test is well made")).collect();
    Identities::issue(&orders).expect("a test is well made")
}

fn text(ids: &Identities, text: &str) -> String {
    String::from_utf8(ids.fill(text.as_bytes()).expect("a test is well made")).expect("a test is well made")
}

pub(crate) fn pair(ids: &Identities, name: &str) -> KeyPair {
    KeyPair::from_seed(&text(ids, &format!("@seed:{name}@"))).expect("a seed")
}

/// Operator mode: an account's token names its service, and into which accounts that may put users.
#[test]
fn an_account_with_a_token_has_a_service_of_its_own() {
    let scope = r#"{"kind":"user_scope","key":"@key:A:scoped@","role":"r","template":{"pub":{"allow":["x.{{name()}}"]},"subs":-1,"data":-1,"payload":-1}}"#;
    let ids = issued(&[
        r#"op operator by O:op for O:op {"name":"op","nats":{"system_account":"@key:A:sys@"}}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"name":"SYS","nats":{{{OPEN}}}}}"#),
        format!(r#"app account by O:op for A:app {{"name":"APP","nats":{{{OPEN},"signing_keys":["@key:A:appsk@",{scope}]}}}}"#),
        format!(r#"alien account by O:op for A:alien {{"nats":{{{OPEN}}}}}"#),
        format!(
            r#"auth account by O:op for A:auth {{"name":"AUTH","nats":{{{OPEN},"authorization":{{"auth_users":["@key:U:svc@"],"allowed_accounts":["@key:A:app@"]}}}}}}"#
        ),
        r#"svc user by A:auth for U:svc {"nats":{"subs":-1,"data":-1,"payload":-1}}"#.to_owned(),
        r#"sentinel user by A:auth for U:sentinel {"name":"sentinel","nats":{"bearer_token":true,"subs":-1,"data":-1,"payload":-1}}"#.to_owned(),
    ]);
    let server = Setup::default().config(&text(
        &ids,
        "operator: \"@op@\"\nresolver: MEM\nauthorization { timeout: 5 }\nresolver_preload {\n@key:A:sys@: \"@sys@\"\n@key:A:app@: \"@app@\"\n@key:A:auth@: \"@auth@\"\n@key:A:alien@: \"@alien@\"\n}\n",
    )).start();
    let mut service = {
        let mut raw = Raw::over(TcpStream::connect(server.address()).expect("the server listens"));
        let info: Value =
            serde_json::from_str(raw.line().strip_prefix("INFO ").expect("INFO")).expect("JSON");
        let nonce = info["nonce"].as_str().expect("a nonce");
        let connect = "CONNECT {\"jwt\":\"@svc@\",\"sig\":\"@sig@\",\"verbose\":false,\"pedantic\":false}\r\nSUB $SYS.REQ.USER.AUTH 1\r\nPUB $SYS.REQ.USER.AUTH 0\r\n\r\nPING\r\n";
        let bytes = ids.fill_signed(connect.as_bytes(), Some(("U:svc", nonce))).expect("a test is well made");
        raw.send_bytes(&bytes);
        assert!(raw.line().contains("Permissions Violation for Publish"));
        assert_eq!(raw.line(), "PONG");
        raw
    };
    let mut login = |claims: Value, by: &str, user_by: &str| {
        let mut client = raw(&server);
        let connect = "CONNECT {\"jwt\":\"@sentinel@\",\"user\":\"bob\",\"pass\":\"p\",\"verbose\":false,\"pedantic\":false}\r\nPING\r\n";
        client.send(&text(&ids, connect));
        let question = hear(&mut service, None);
        assert_eq!(question.claims["sub"], text(&ids, "@key:A:auth@"));
        assert_eq!(question.claims["nats"]["connect_opts"]["jwt"], text(&ids, "@sentinel@"));
        assert_eq!(question.claims["nats"]["client_info"]["name_tag"], "sentinel");
        let answer = question.admit(&pair(&ids, by), &pair(&ids, user_by), claims);
        publish(&mut service, &question.reply, answer.as_bytes());
        let answer = client.line();
        (client, answer)
    };
    let app = text(&ids, "@key:A:app@");
    let free = json!({"subs": -1, "data": -1, "payload": -1});
    let in_app = |extra: &str| {
        let mut nats = free.clone();
        nats["issuer_account"] = json!(app);
        json!({"name": extra, "nats": nats})
    };
    let (_own, answer) = login(json!({"name": "own", "nats": free}), "A:auth", "A:auth");
    assert_eq!(answer, "PONG");
    let (_bob, answer) = login(in_app("bob"), "A:auth", "A:appsk");
    assert_eq!(answer, "PONG");
    let page = server.page(&format!("/connz?auth=1&acc={app}"));
    assert_eq!(page["connections"][0]["authorized_user"], "bob", "{page}");
    assert_eq!(page["connections"][0]["issuer_key"], text(&ids, "@key:A:appsk@"));
    let (_app, answer) = login(json!({"name": "direct", "nats": free}), "A:auth", "A:app");
    assert_eq!(answer, "PONG");
    // A scoped key gives what its scope says.
    let (mut scoped, answer) =
        login(json!({"name": "carl", "nats": {"issuer_account": app}}), "A:auth", "A:scoped");
    assert_eq!(answer, "PONG");
    scoped.send("PUB x.carl 0\r\n\r\nPUB x.bob 0\r\n\r\nPING\r\n");
    assert!(scoped.line().contains("Permissions Violation for Publish to \"x.bob\""));
    assert_eq!(scoped.line(), "PONG");
    for (claims, by, user_by, log) in [
        (
            in_app("eve"),
            "A:auth",
            "A:scoped",
            "User JWT is not valid: scoped users require no permissions or limits set",
        ),
        (in_app("eve"), "A:auth", "A:eve", "is not known"),
        (
            json!({"nats": free}),
            "A:auth",
            "A:alien",
            "not permitted as valid account option for auth callout",
        ),
        (in_app("eve"), "A:app", "A:appsk", "Auth callout signing key is unknown"),
    ] {
        let (_, answer) = login(claims, by, user_by);
        assert_eq!(answer, "-ERR 'Authorization Violation'", "{log}");
        server.wait_for_log(log);
    }
}

/// A service sees the certificate that TLS has verified.
#[test]
fn a_question_has_the_clients_certificate() {
    let lab = Lab::new();
    lab.sign("client");
    let config = format!("{}{}", lab.block("ca_file: \"@ca.pem\", verify: true"), configured("", 5));
    let server = Server::with_config(&config.replace("auth_users: [auth, app]", "auth_users: [auth]"));
    let issuer = key(Role::Account, 1);
    let mut service = lab.secure(&server, Some("client"));
    service.send(&format!("CONNECT {{{AUTH},\"verbose\":false}}\r\nSUB $SYS.REQ.USER.AUTH 1\r\n"));
    service.barrier().expect("a service");
    let mut client = lab.secure(&server, Some("client"));
    client.send("CONNECT {\"user\":\"bob\",\"verbose\":false}\r\n");
    let mut stream = BufReader::new(service.into_stream());
    let mut line = String::new();
    stream.read_line(&mut line).expect("a question");
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut body = vec![0; words[4].parse().expect("a size")];
    stream.read_exact(&mut body).expect("the token");
    let token = String::from_utf8(body).expect("a token");
    let claims = base_n::decode(token.split('.').nth(1).expect("a token"), BASE64_URL).expect("base64");
    let question = Question {
        reply: words[3].to_owned(),
        claims: serde_json::from_slice(&claims).expect("JSON"),
        xkey: None,
    };
    let tls = &question.claims["nats"]["client_tls"];
    assert_eq!(tls["version"], "1.3", "{tls}");
    assert!(tls["cipher"].as_str().is_some_and(|name| name.starts_with("TLS_")));
    let squeezed = |pem: &str| pem.replace(char::is_whitespace, "");
    let own = std::fs::read_to_string(lab.file("client.pem")).expect("the lab signs");
    let authority = std::fs::read_to_string(lab.file("ca.pem")).expect("the lab signs");
    let chains = tls["verified_chains"].as_array().expect("chains");
    assert_eq!(chains.len(), 1, "{tls}");
    let shown: Vec<&str> =
        chains[0].as_array().expect("a chain").iter().flat_map(|cert| cert.as_str()).collect();
    // The client has shown its own alone; the authority is the server's knowledge.
    assert_eq!(
        shown.iter().map(|pem| squeezed(pem)).collect::<Vec<_>>(),
        [squeezed(&own), squeezed(&authority)]
    );
    assert_eq!(tls["certs"], Value::Null, "{tls}");
    let shown = shown[0];
    assert!(shown.lines().all(|line| line.len() <= 64), "{shown}");
    let answer = question.admit(&issuer, &issuer, json!({"aud": "APP"}));
    let answer = format!("PUB {} {}\r\n{answer}\r\n", question.reply, answer.len());
    stream.get_mut().write_all(answer.as_bytes()).expect("the server reads");
    client.barrier().expect("let in");
}

/// Nobody answers: the client is told when the time is over, not earlier and not much later.
#[test]
fn no_answer_is_none() {
    let server = Setup::default().config(&configured("", 1)).flags(&["-D"]).start();
    let began = Instant::now();
    let mut client = raw(&server);
    client.send("CONNECT {\"user\":\"bob\",\"verbose\":false}\r\n");
    assert_eq!(client.line(), "-ERR 'Authorization Violation'");
    assert!(began.elapsed() >= Duration::from_secs(1));
    server.wait_for_log("Authorization callout response not received in time on account \"AUTH\"");
    // Everybody else must say CONNECT.
    let mut other = raw(&server);
    other.send("PING\r\n");
    assert_eq!(other.line(), "-ERR 'Authorization Violation'");
}

/// Nobody but the server asks: not with the help of streams, consumers, answers, imports or
/// mappings either.
#[test]
fn nothing_in_the_services_account_asks_in_the_servers_stead() {
    const SUBJECT: &str = "$SYS.REQ.USER.AUTH";
    let home = tempfile::tempdir().expect("a temporary folder");
    let issuer = key(Role::Account, 1);
    let server = Server::with_config(&format!(
        "jetstream {{ store_dir: {:?} }}
         accounts {{
           AUTH {{ jetstream: enabled, users: [ {{user: auth, password: pwd}}, {{user: insider, password: pwd}},
                     {{user: answerer, password: pwd, permissions: {{ allow_responses: true }}}} ],
                   mappings: {{ to.auth: \"{SUBJECT}\" }}, exports: [ {{service: \"{SUBJECT}\"}} ] }}
           APP {{ users: [ {{user: app, password: pwd}} ],
                  imports: [ {{service: {{account: AUTH, subject: \"{SUBJECT}\"}}, to: ask}} ] }}
         }}
         authorization {{ timeout: 5, auth_callout {{ issuer: {}, account: AUTH, auth_users: [auth, insider, answerer, app] }} }}",
        home.path(),
        issuer.public()
    ));
    let mut service = service(&server, AUTH);
    let login = |user: &str| {
        let mut raw = raw(&server);
        raw.send(&format!(
            "CONNECT {{\"user\":\"{user}\",\"pass\":\"pwd\",\"verbose\":false}}\r\nSUB r r\r\n"
        ));
        raw.barrier();
        raw
    };
    let mut insider = login("insider");
    let mut ask = |subject: &str, body: Value| {
        let body = body.to_string();
        insider.send(&format!("PUB {subject} r {}\r\n{body}\r\n", body.len()));
        let answer = insider.message();
        serde_json::from_str::<Value>(answer.text()).expect("JSON")
    };
    let made = ask(
        "$JS.API.STREAM.CREATE.S",
        json!({"name": "S", "subjects": ["s"], "allow_direct": true, "republish": {"src": "s", "dest": SUBJECT}}),
    );
    assert!(made["error"].is_null(), "{made}");
    let push =
        json!({"stream_name": "S", "config": {"name": "P", "durable_name": "P", "deliver_subject": SUBJECT}});
    let made = ask("$JS.API.CONSUMER.CREATE.S.P", push);
    assert!(made["error"].is_null(), "{made}");
    let pull =
        json!({"stream_name": "S", "config": {"name": "Q", "durable_name": "Q", "ack_policy": "explicit"}});
    ask("$JS.API.CONSUMER.CREATE.S.Q", pull);
    assert_eq!(ask("s", json!("forged"))["seq"], 1);
    insider.send(&format!("PUB $JS.API.CONSUMER.MSG.NEXT.S.Q {SUBJECT} 0\r\n\r\n"));
    insider.send(&format!("PUB $JS.API.DIRECT.GET.S {SUBJECT} 9\r\n{{\"seq\":1}}\r\n"));
    insider.send(&format!("PUB $JS.API.INFO {SUBJECT} 0\r\n\r\n"));
    insider.send("PUB $JS.API.STREAM.NAMES r 0\r\n\r\n");
    // What the API's thread was asked before is answered when this is.
    insider.message();
    // Mapped, it is what its user is denied.
    let mut other = login("insider");
    other.publish("to.auth", "forged");
    assert!(other.line().contains("Permissions Violation for Publish to"));
    // Nor is it an answer that one may give.
    let mut answerer = login("answerer");
    answerer.subscribe("question", 1);
    answerer.barrier();
    other.send(&format!("PUB question {SUBJECT} 0\r\n\r\n"));
    assert_eq!(answerer.message().reply.as_deref(), Some(SUBJECT));
    answerer.publish(SUBJECT, "forged");
    assert!(answerer.line().contains("Permissions Violation for Publish to"));
    let mut app = login("app");
    app.publish("ask", "forged");
    app.barrier();
    // The server itself is heard, and nothing was before it.
    let mut client = raw(&server);
    client.send("CONNECT {\"user\":\"bob\",\"pass\":\"secret\",\"verbose\":false}\r\nPING\r\n");
    let question = hear(&mut service, None);
    assert_eq!(question.claims["nats"]["connect_opts"]["user"], "bob");
    let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "name": "b"}));
    publish(&mut service, &question.reply, answer.as_bytes());
    assert_eq!(client.line(), "PONG");
    assert_eq!(service.barrier(), []);
}

/// CONNECT with a bearer token.
fn by_token(ids: &Identities, token: &str) -> String {
    text(ids, &format!("CONNECT {{\"jwt\":\"@{token}@\",\"verbose\":false,\"pedantic\":false}}\r\n"))
}

/// The service of the account `auth`, and a client that came with the token `sentinel` and that it
/// has let into its own account, without rules of its own.
fn let_in(server: &Server, ids: &Identities) -> (Raw, Raw) {
    let mut service = raw(server);
    service.send(&format!("{}SUB $SYS.REQ.USER.AUTH 1\r\n", by_token(ids, "svc")));
    service.barrier();
    let mut client = raw(server);
    client.send(&format!("{}PING\r\n", by_token(ids, "sentinel")));
    let question = hear(&mut service, None);
    let free = json!({"name": "bob", "nats": {"subs": -1, "data": -1, "payload": -1}});
    let answer = question.admit(&pair(ids, "A:auth"), &pair(ids, "A:auth"), free);
    publish(&mut service, &question.reply, answer.as_bytes());
    assert_eq!(client.line(), "PONG");
    (service, client)
}

/// Whoever may do what is the account's default may do what is its default now, when its account
/// gets another token.
#[test]
fn other_default_permissions_reach_those_whom_a_service_has_let_in() {
    let defaults = |subject: &str| {
        format!(
            r#""default_permissions":{{"pub":{{"allow":["{subject}"]}},"sub":{{"allow":["{subject}","r"]}}}}"#
        )
    };
    let account = |name: &str, subject: &str| {
        format!(
            r#"{name} account by O:op for A:auth {{"name":"AUTH","iat":"+{}","nats":{{{OPEN},{},"authorization":{{"auth_users":["@key:U:svc@"]}}}}}}"#,
            name.len(),
            defaults(subject)
        )
    };
    let ids = issued(&[
        r#"op operator by O:op for O:op {"name":"op","nats":{"system_account":"@key:A:sys@"}}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{OPEN}}}}}"#),
        account("auth", "old"),
        account("auth_new", "new"),
        r#"admin user by A:sys for U:admin {"nats":{"bearer_token":true,"subs":-1,"data":-1,"payload":-1}}"#.to_owned(),
        r#"svc user by A:auth for U:svc {"nats":{"bearer_token":true,"subs":-1,"data":-1,"payload":-1,"pub":{"allow":[">"]},"sub":{"allow":[">"]}}}"#.to_owned(),
        r#"sentinel user by A:auth for U:sentinel {"nats":{"bearer_token":true,"subs":-1,"data":-1,"payload":-1}}"#.to_owned(),
    ]);
    let config = "operator: \"@op@\"\nresolver: MEM\nauthorization { timeout: 5 }\nresolver_preload {\n@key:A:sys@: \"@sys@\"\n@key:A:auth@: \"@auth@\"\n}\n";
    let server = Setup::default().config(&text(&ids, config)).start();
    let (_service, mut client) = let_in(&server, &ids);
    client.send("SUB old 1\r\nPUB old 1\r\nx\r\nPING\r\n");
    assert_eq!(client.until_pong().len(), 1);
    let mut admin = raw(&server);
    admin.send(&format!("{}SUB r r\r\n", by_token(&ids, "admin")));
    admin.barrier();
    let token = text(&ids, "@auth_new@");
    let of_auth = text(&ids, "$SYS.REQ.ACCOUNT.@key:A:auth@.CLAIMS.UPDATE");
    admin.send(&format!("PUB {of_auth} r {}\r\n{token}\r\n", token.len()));
    assert!(admin.message().text().contains("\"code\":200"));
    let said = client.line();
    assert!(said.contains("Permissions Violation for Subscription to \"old\""), "{said}");
    client.send("PUB old 1\r\nx\r\n");
    assert!(client.line().contains("Permissions Violation for Publish to \"old\""));
    client.send("SUB new 2\r\nPUB new 1\r\nx\r\nPUB $SYS.REQ.USER.AUTH 0\r\n\r\n");
    assert_eq!(client.message().subject, "new");
    assert!(client.line().contains("Permissions Violation for Publish to \"$SYS.REQ.USER.AUTH\""));
}

/// The end of an account is told as such also to those whom a service has let in.
#[test]
fn the_end_of_an_account_is_no_end_of_its_users() {
    let account = |name: &str, first: &str| {
        format!(
            r#"{name} account by O:op for A:auth {{{first}"nats":{{{OPEN},"authorization":{{"auth_users":["@key:U:svc@"]}}}}}}"#
        )
    };
    let user = |name: &str| {
        format!(
            r#"{name} user by A:auth for U:{name} {{"nats":{{"bearer_token":true,"subs":-1,"data":-1,"payload":-1}}}}"#
        )
    };
    let ids = issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        account("auth", "\"exp\":\"+3\","),
        user("svc"),
        user("sentinel"),
    ]);
    let config = "operator: \"@op@\"\nresolver: MEM\nauthorization { timeout: 5 }\n\
        resolver_preload {\n@key:A:auth@: \"@auth@\"\n}\n";
    let server = Setup::default().config(&text(&ids, config)).start();
    let (service, client) = let_in(&server, &ids);
    assert!(client.rest().contains("-ERR 'Account Authentication Expired'"));
    assert!(service.rest().contains("-ERR 'Account Authentication Expired'"));
}
