//! Attacks that were published for nats-server, each as a class, where they concern gateways: the
//! server lives, one link is lost at worst, and no rule has a way around over another cluster.

use super::handshake::{CONNECT, INFO, dialling, said};
use super::{Site, joined, login, pairs, two};
use crate::raw::{Message, Raw};
use crate::routes::{MIXES, Ours, free_port};

/// A server with a client that hears everything.
struct Innocent {
    site: Site,
    witness: Raw,
}

impl Innocent {
    fn start(inner: &str, more: &str) -> Self {
        let site = Site::start(Ours, ("A1", "A", free_port()), &[], inner, more).expect("it is built");
        let mut witness = site.client();
        witness.subscribe(">", 1);
        witness.barrier();
        Self { site, witness }
    }

    /// Everything that the server says to one that sends this to the port for other clusters.
    fn attack(&self, text: &str) -> String {
        let mut raw = self.site.dial();
        // It may close in the middle.
        let _ = raw.try_send(text.as_bytes());
        raw.rest()
    }

    /// The server goes on, and nothing that was sent is heard.
    fn check(&mut self, what: &str) {
        self.site.client().publish("mark", what);
        let message = self.witness.message();
        assert_eq!((message.subject.as_str(), message.text()), ("mark", what));
    }
}

/// SN 2026-16 and 2026-24: with `no_auth_user` what came before CONNECT was taken as that user's,
/// from links, too.
#[test]
fn sn_2026_16_and_24_nobody_is_let_in_before_connect() {
    let users = "accounts { A { users: [{user: a, password: a}] } }\nno_auth_user: a";
    let login = "authorization { user: gate, password: keep }";
    for inner in ["", login] {
        let mut site = Innocent::start(inner, users);
        let message = "RMSG A x 1\r\ny";
        for first in ["RS+ A a", message, "A+ A", "PUB x 1\r\ny", "SUB > 1", "PING", "PONG", INFO, ""] {
            let told = site.attack(&format!("{first}\r\n{message}\r\n"));
            assert!(told.contains("-ERR 'Authorization Violation'"), "{first}: {told}");
            assert!(!told.contains("RS+"), "{first}: {told}");
        }
        site.check("before CONNECT");
    }
    let mut site = Innocent::start(login, users);
    for fields in ["", r#""user":"","#, r#""user":"a","pass":"a","#, r#""user":"gate","#, r#""jwt":"e","#] {
        let connect = CONNECT.replacen('{', &format!("{{{fields}"), 1);
        let told = site.attack(&format!("{connect}\r\n{INFO}\r\nRMSG A x 1\r\ny\r\n"));
        assert!(told.contains("-ERR 'Authorization Violation'") && !told.contains("RS+"), "{fields}: {told}");
    }
    site.check("without a login");
}

/// SN 2026-04, 2026-10 and 2026-19: lines that come out of their order, twice or cut short brought
/// the server down, before anybody had logged in.
#[test]
fn sn_2026_04_10_and_19_what_comes_out_of_its_order_costs_its_own_link() {
    let mut site = Innocent::start("", "");
    for begin in [
        String::new(),
        format!("{INFO}\r\n{INFO}\r\n"),
        format!("{CONNECT}\r\n"),
        format!("{CONNECT}\r\n{CONNECT}\r\n"),
        format!("{CONNECT}\r\n{INFO}\r\n{CONNECT}\r\n"),
        format!("{CONNECT}\r\n{INFO}\r\n{INFO}\r\nINFO {{}}\r\nINFO {{\"gateway_cmd\":3}}\r\n"),
        "CONNECT {}\r\nINFO {}\r\n".to_owned(),
    ] {
        for verb in ["RMSG", "HMSG", "LMSG", "MSG", "RS+", "RS-", "A+", "A-", "LS+", "INFO", "-ERR"] {
            for tail in ["", " ", " $G", " $G a", " $G a -1", " $G a + r", " $G a | q", " $G a 12 3", "\0"] {
                // Enough of it that no message waits for more.
                site.attack(&format!("{begin}{verb}{tail}\r\n{}", "NONSENSE\r\n".repeat(4)));
            }
        }
        site.check("out of order");
    }
    // The other way: a server that was dialled.
    for begin in [format!("{INFO}\r\n{INFO}\r\n"), "INFO {}\r\nINFO {}\r\n".to_owned(), String::new()] {
        for line in
            ["RMSG", "RMSG $G a -1", "HMSG $G a 12 3", "RS+ $G", "RS+ $G a q", "A+", "INFO", "CONNECT {}"]
        {
            let (site, mut peer, _listener) = dialling(Ours, "").expect("it is built");
            let _ = peer.try_send(format!("{begin}{line}\r\n{}", "NONSENSE\r\n".repeat(4)).as_bytes());
            peer.rest();
            site.client().barrier();
        }
    }
}

/// SN 2026-02, 2026-11 and 2026-25: whoever has not logged in had as much memory as it wished.
#[test]
fn sn_2026_02_11_and_25_a_stranger_is_given_little_memory() {
    let mut site = Innocent::start("authorization { timeout: 60 }", "");
    for begin in ["CONNECT {\"name\":\"", "INFO {\"server_id\":\"", "RS+ $G ", ""] {
        let before = site.site.server.memory();
        let told = site.attack(&format!("{begin}{}", "x".repeat(16 << 20)));
        assert!(!told.contains("RS+"), "{begin}: {told}");
        let held = site.site.server.memory().saturating_sub(before);
        assert!(held < 8 << 20, "{begin}: {held} bytes");
    }
    site.check("endless lines");
}

const RULES: &str = "accounts { A { users: [
    {user: free, password: free}
    {user: bound, password: bound, permissions: {
        subscribe: {deny: [\"secret.>\", \"plain q\"]}, publish: {deny: [\"secret.>\"]} }}] } }";

/// CVE-2022-29946, SN 2026-17 and 2026-18: what was denied could be had with wildcards, or as a
/// member of a queue.
#[test]
fn cve_2022_29946_and_sn_2026_17_and_18_another_cluster_is_no_way_around_what_is_denied() {
    for [one, two] in pairs(RULES) {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut free, mut bound) = (login("free", here), login("bound", there));
            bound.send("SUB > 1\r\nSUB *.* 2\r\nSUB > w 3\r\nSUB *.a v 4\r\n");
            bound.barrier();
            joined(&mut free, &mut login("bound", there));
            free.send("PUB secret.a 1\r\nx\r\nPUB secret.a re 1\r\nx\r\nPUB open.a 1\r\nx\r\n");
            let mut heard = Vec::new();
            while heard.len() < 4 {
                let message = bound.message();
                if !message.subject.starts_with("probe.") {
                    heard.push(message);
                }
            }
            assert!(heard.iter().all(|message| message.subject == "open.a"), "{heard:?}");
            assert_eq!(bound.barrier(), []);
        }
    }
}

/// SN 2026-15 and 2026-20: a trace was a way to publish where its publisher must not.
#[test]
fn sn_2026_15_and_20_a_trace_tells_nothing_where_its_publisher_must_not() {
    for [one, two] in pairs(RULES) {
        for (here, there) in [(&one, &two), (&two, &one)] {
            let (mut free, mut bound) = (login("free", there), login("bound", here));
            free.send("SUB secret.> 1\r\nSUB told 2\r\nSUB traced 3\r\n");
            free.barrier();
            joined(&mut bound, &mut free);
            let hears = |line: String, bound: &mut Raw, free: &mut Raw| {
                let _ = bound.try_send(line.as_bytes());
                let mut far = login("free", here);
                far.publish("traced", "mark");
                let mut heard = Vec::new();
                while heard.last().is_none_or(|last: &Message| last.text() != "mark") {
                    heard.push(free.message());
                }
                heard.extend(free.barrier());
                heard
            };
            for more in ["", "Nats-Trace-Only: 1\r\n", "traceparent: 00-1-1-01\r\n"] {
                let block = format!("NATS/1.0\r\nNats-Trace-Dest: secret.a\r\n{more}\r\n");
                let line = format!("HPUB traced {0} {0}\r\n{block}\r\n", block.len());
                let heard = hears(line, &mut bound, &mut free);
                assert!(heard.iter().all(|message| message.sid == "3"), "{more}: {heard:?}");
                // The refusal may be told, and ends nothing.
                bound = login("bound", here);
            }
        }
    }
}

const SERVICE: &str = "accounts {
    S { users: [{user: s, password: s}], exports: [{service: svc}] }
    C { users: [{user: c, password: c}], imports: [{service: {account: S, subject: svc}, share: true}] } }";

/// SN 2026-08 and 2026-09: a client wrote the header itself by which a service learns who asks.
#[test]
fn sn_2026_08_and_09_nobody_says_who_asks_in_another_cluster_but_the_server() {
    // It is taken away where it comes in: each server looks after its own clients.
    let ours_asks = MIXES.iter().filter(|kinds| kinds[0] == Ours);
    for [one, two] in ours_asks.filter_map(|kinds| two(*kinds, [""; 2], SERVICE)) {
        let (mut asks, mut serves) = (login("c", &one), login("s", &two));
        serves.subscribe("svc", 1);
        joined(&mut login("s", &one), &mut serves);
        for name in ["Nats-Request-Info", "nats-request-info", "NATS-REQUEST-INFO", "Nats-Request-Info "] {
            let forged = format!("{name}: {{\"acc\":\"forged\"}}\r\n");
            let block = format!("NATS/1.0\r\nA: b\r\n{forged}{forged}\r\n");
            asks.send(&format!("HPUB svc in.box {0} {0}\r\n{block}\r\n", block.len()));
            let request = serves.message();
            let text = request.text();
            assert!(!text.contains("forged") && text.contains("\"acc\":\"C\""), "{name}: {text}");
        }
    }
}

/// SN 2026-05 and 2026-14: what must be kept was shown to whoever may look at the server.
#[test]
fn sn_2026_05_and_14_no_password_of_a_gateway_is_shown() {
    let (inner, urls) =
        ("authorization { user: gate, password: hidden1 }", "nats://gate:hidden2@127.0.0.1:1");
    let more = format!(
        "gateway {{ name: A, listen: \"127.0.0.1:-1\"\n{inner}\ngateways: [{{ name: B, url: \"{urls}\" }}] }}"
    );
    let server = crate::process::Setup::default().config(&more).flags(&["-DV"]).start();
    let pages = ["/varz", "/gatewayz", "/gatewayz?accs=1&subs=detail", "/connz?auth=1", "/accountz"];
    for page in pages {
        let (_, body) = server.exchange(page);
        assert!(!body.contains("hidden"), "{page}: {body}");
    }
    assert!(!server.log().contains("hidden"), "{}", server.log());
    // Neither is what another cluster has logged in with.
    let (site, _peer) = {
        let site = Site::start(Ours, ("A1", "A", free_port()), &[], inner, "").expect("it is built");
        let mut peer = site.dial();
        let connect = CONNECT.replacen('{', r#"{"user":"gate","pass":"hidden1","#, 1);
        peer.send(&format!("{connect}\r\n{INFO}\r\n"));
        said(&mut peer);
        (site, peer)
    };
    for page in pages {
        let (_, body) = site.server.exchange(page);
        assert!(!body.contains("hidden"), "{page}: {body}");
    }
    assert!(!site.server.log().contains("hidden"), "{}", site.server.log());
}
