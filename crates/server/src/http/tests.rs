//! The listener against peers of all kinds, on raw sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{LazyLock, Mutex};

use super::*;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

/// More than is looked at at once.
const PIECE_OF_A_LINE: usize = 1024;

const LIMIT: Duration = Duration::from_secs(30);

/// An answer that many get at once, as scrapers do.
static ENDLESS: LazyLock<Bytes> = LazyLock::new(|| vec![b'x'; 64 << 20].into());

/// The lines that a site has complained with.
type Complaints = Arc<Mutex<Vec<String>>>;

/// An echo of path and query, with deadlines that a test can wait for.
fn site(max_connections: usize) -> (Site, Complaints) {
    let complaints = Complaints::default();
    let sink = Arc::clone(&complaints);
    let complain = move |line: Arguments<'_>| sink.lock().unwrap().push(line.to_string());
    let site = Site::new(Arc::new(echo), Arc::new(complain), None).unwrap();
    let deadlines = Deadlines {
        head: Duration::from_millis(300),
        idle: Duration::from_millis(600),
        unread: Duration::from_millis(400),
    };
    (Site { deadlines, max_connections, ..site }, complaints)
}

fn echo(path: &str, query: &str) -> PageResponse {
    assert_ne!(path, "/panic", "asked for");
    let body = match path {
        "/large" => vec![b'x'; 1 << 20],
        "/endless" => return PageResponse { body: ENDLESS.clone(), ..PageResponse::not_found() },
        _ => format!("{path}|{query}").into_bytes(),
    };
    PageResponse { body: body.into(), ..PageResponse::not_found() }
}

/// Serves `site` and gives its address to `client`; then shuts down and waits.
pub(super) fn with_site<F: Future<Output = ()>>(site: Site, client: impl FnOnce(SocketAddr) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(site.serve(listener, async { stopped.await.unwrap() }));
        tokio::time::timeout(LIMIT, client(address)).await.unwrap();
        stop.send(()).unwrap();
        tokio::time::timeout(LIMIT, server).await.unwrap().unwrap();
    });
}

fn with_server<F: Future<Output = ()>>(client: impl FnOnce(SocketAddr) -> F) {
    with_site(site(MAX_CONNECTIONS).0, client);
}

async fn connect(address: SocketAddr, text: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(text.as_bytes()).await.unwrap();
    socket
}

/// Sends `text` on a new connection and reads until the server closes it.
async fn exchange(address: SocketAddr, text: &str) -> String {
    let mut answer = String::new();
    connect(address, text).await.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn is_served(address: SocketAddr) -> bool {
    let mut socket = connect(address, "GET /x HTTP/1.0\r\n\r\n").await;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.is_ok() && answer.ends_with(b"/x|")
}

#[test]
fn an_answer_keeps_status_headers_and_body() {
    with_server(|address| async move {
        let answer =
            exchange(address, "GET /a%20b?c=d&e HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
        for header in ["Content-Type: text/plain; charset=utf-8", "Content-Length: 12", "Date: "] {
            assert!(answer.contains(&format!("\r\n{header}")), "{header}: {answer}");
        }
        assert!(answer.ends_with("\r\n\r\n/a%20b|c=d&e"), "{answer}");
    });
}

#[test]
fn a_connection_serves_several_requests() {
    with_server(|address| async move {
        let twice = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.0\r\n\r\n";
        let answer = exchange(address, twice).await;
        assert!(answer.contains("/1|") && answer.ends_with("/2|"), "{answer}");
    });
}

#[test]
fn head_has_no_body_and_other_methods_are_answered() {
    with_server(|address| async move {
        let answer = exchange(address, "HEAD /x HTTP/1.0\r\n\r\n").await;
        assert!(answer.contains("Content-Length: 3\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        let post = "POST /x HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc";
        assert!(exchange(address, post).await.ends_with("/x|"));
        assert!(exchange(address, "BREW /x HTTP/1.0\r\n\r\n").await.ends_with("/x|"));
    });
}

#[test]
fn a_body_is_not_waited_for() {
    with_server(|address| async move {
        let head = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n";
        let answer = exchange(address, head).await;
        assert!(answer.ends_with("/x|"), "{answer}");
    });
}

#[test]
fn a_large_answer_arrives_whole_and_in_chunks_if_they_can_be_read() {
    with_server(|address| async move {
        let answer = exchange(address, "GET /large HTTP/1.0\r\n\r\n").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.len(), 1 << 20);
        assert!(!head.contains("Content-Length") && !head.contains("Transfer-Encoding"), "{head}");
        let answer = exchange(address, "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nTransfer-Encoding: chunked"), "{head}");
        assert!(body.len() > 1 << 20 && body.ends_with("\r\n0\r\n\r\n"));
    });
}

#[test]
fn a_path_with_detours_is_redirected() {
    with_server(|address| async move {
        let answer = exchange(address, "GET //a/../varz?x=1&y HTTP/1.0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.0 307 Temporary Redirect\r\n"), "{answer}");
        assert!(answer.contains("\r\nLocation: /varz?x=1&y\r\n"), "{answer}");
        assert!(answer.ends_with("<a href=\"/varz?x=1&amp;y\">Temporary Redirect</a>.\n\n"), "{answer}");
        let answer = exchange(address, "POST //varz HTTP/1.0\r\n\r\n").await;
        assert!(answer.contains("Location: /varz\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(!answer.contains("Content-Type"), "{answer}");
        assert!(exchange(address, "GET /varz/ HTTP/1.0\r\n\r\n").await.ends_with("\r\n\r\n/varz/|"));
    });
}

#[test]
fn odd_requests_get_the_answers_that_go_gives() {
    with_server(|address| async move {
        let cases = [
            ("GET /x HTTP/1.1\r\n\r\n", "400 Bad Request: missing required Host header"),
            ("GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request"),
            ("GET /x HTTP/1.1\r\nHost: a b\r\n\r\n", "400 Bad Request: malformed Host header"),
            ("GET /x%zz HTTP/1.0\r\n\r\n", "400 Bad Request"),
        ];
        for (request, text) in cases {
            let answer = exchange(address, request).await;
            let (status, _) = answer.split_once("\r\n").unwrap();
            assert_eq!(status.split_once(' ').unwrap().1, text, "{request}");
            assert!(answer.ends_with(&format!("\r\n\r\n{text}")), "{request}: {answer}");
        }
        let options = exchange(address, "OPTIONS * HTTP/1.0\r\n\r\n").await;
        assert!(options.starts_with("HTTP/1.0 200 OK\r\n") && options.ends_with("\r\n\r\n"), "{options}");
        assert!(exchange(address, "GET * HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 400 "));
        let expect = "GET /x HTTP/1.0\r\nExpect: wonders\r\n\r\n";
        assert!(exchange(address, expect).await.starts_with("HTTP/1.0 417 "));
    });
}

/// As curl sends what was typed.
#[test]
fn a_query_may_hold_what_people_type() {
    with_server(|address| async move {
        let typed = "GET /connz?filter_subject=a.>&test=\"<#>\" HTTP/1.0\r\n\r\n";
        let read = "/connz|filter_subject=a.%3E&test=%22%3C%23%3E%22";
        assert!(exchange(address, typed).await.ends_with(read));
        let long = "<".repeat(2 * PIECE_OF_A_LINE);
        let answer = exchange(address, &format!("GET /x?{long} HTTP/1.0\r\n\r\n")).await;
        assert!(answer.ends_with(&format!("/x|{}", "%3C".repeat(long.len()))));
    });
}

#[test]
fn every_request_of_a_connection_may() {
    with_server(|address| async move {
        let mut socket = TcpStream::connect(address).await.unwrap();
        for _ in 0..3 {
            for part in ["GET /x?a.", "> HTTP/1.1\r\nHost: x\r\n", "\r\n"] {
                socket.write_all(part.as_bytes()).await.unwrap();
            }
            let mut answer = Vec::new();
            while !answer.ends_with(b"/x|a.%3E") {
                assert_ne!(socket.read_buf(&mut answer).await.unwrap(), 0, "{answer:?}");
            }
        }
    });
}

#[test]
fn garbage_and_endless_heads_are_refused() {
    with_server(|address| async move {
        assert!(exchange(address, "GARBAGE\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
        let hello = "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}";
        assert!(exchange(address, hello).await.starts_with("HTTP/1.1 400 "), "TLS on the plain port");
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD));
        assert!(exchange(address, &endless).await.starts_with("HTTP/1.1 431 "));
        let lines = "X: y\r\n".repeat(1000);
        assert!(exchange(address, &format!("GET /x HTTP/1.0\r\n{lines}\r\n")).await.ends_with("/x|"));
    });
}

#[test]
fn a_peer_that_has_said_all_it_wanted_is_still_answered() {
    with_server(|address| async move {
        let mut socket = connect(address, "GET /large HTTP/1.0\r\n\r\n").await;
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        assert!(answer.len() > 1 << 20, "{}", answer.len());
    });
}

#[test]
fn a_panic_while_rendering_is_a_500() {
    with_server(|address| async move {
        let answer = exchange(address, "GET /panic HTTP/1.0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.0 500 "), "{answer}");
        assert!(is_served(address).await);
    });
}

#[test]
fn silence_and_half_a_head_end_the_connection_and_no_trickle_prolongs_it() {
    let (site, _) = site(8);
    let head = site.deadlines.head;
    with_site(site, |address| async move {
        for text in ["", "GET / HTTP/1.1\r\nHost"] {
            let begun = Instant::now();
            assert_eq!(exchange(address, text).await, "");
            assert!(begun.elapsed() >= head - Duration::from_millis(50), "{:?}", begun.elapsed());
        }
        let mut socket = connect(address, "GET / HTTP/1.1\r\nX: ").await;
        let mut byte = [0];
        let mut ticks = tokio::time::interval(head / 10);
        let mut sent = 0;
        let ended = loop {
            tokio::select! {
                read = socket.read(&mut byte) => break read,
                _ = ticks.tick() => sent += socket.try_write(b"x").unwrap_or(0),
            }
        };
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        assert!(sent < 20, "{sent} bytes were taken");
    });
}

#[test]
fn an_idle_connection_may_wait_longer_than_a_head() {
    let (site, _) = site(8);
    let Deadlines { head, idle, .. } = site.deadlines;
    with_site(site, |address| async move {
        let mut socket = connect(address, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let begun = Instant::now();
        let mut buffer = [0; 1024];
        assert!(socket.read(&mut buffer).await.unwrap() > 0);
        // Nothing comes, and nothing ends it, for longer than a head may take.
        assert!(tokio::time::timeout(head + head / 2, socket.read(&mut buffer)).await.is_err());
        socket.write_all(b"GET /2 HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert!(socket.read(&mut buffer).await.unwrap() > 0);
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 0);
        assert!(begun.elapsed() >= head + idle, "{:?}", begun.elapsed());
    });
}

#[test]
fn who_reads_nothing_is_left_and_blocks_nobody() {
    let (site, _) = site(5);
    with_site(site, |address| async move {
        let mut slow = Vec::new();
        for _ in 0..4 {
            slow.push(connect(address, "GET /endless HTTP/1.0\r\n\r\n").await);
        }
        for socket in &mut slow {
            assert_eq!(socket.read_u8().await.unwrap(), b'H');
        }
        assert!(is_served(address).await, "one seat is free");
        let fifth = connect(address, "GET /endless HTTP/1.0\r\n\r\n").await;
        fifth.readable().await.unwrap();
        // All five are being answered and read nothing: they lose their slots after a while.
        let end = Instant::now() + Duration::from_secs(10);
        while !is_served(address).await {
            assert!(Instant::now() < end, "who reads nothing keeps his seat");
        }
        drop((slow, fifth));
    });
}

/// Memory of this process in bytes that lies in no file.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn a_hundred_who_read_nothing_share_their_answer() {
    let answer = ENDLESS.len();
    let (mut site, _) = site(100);
    site.deadlines = DEADLINES;
    with_site(site, |address| async move {
        let before = memory();
        let mut slow = Vec::new();
        for _ in 0..100 {
            let mut socket = connect(address, "GET /endless HTTP/1.0\r\n\r\n").await;
            assert_eq!(socket.read_u8().await.unwrap(), b'H');
            slow.push(socket);
            let more = memory().saturating_sub(before);
            assert!(more < 2 * answer, "{more} bytes for {} connections", slow.len());
        }
        assert!(!is_served(address).await, "all of them are owed the rest, and none makes room");
        // Whoever reads gets all of it.
        let mut read = Vec::new();
        slow.pop().unwrap().read_to_end(&mut read).await.unwrap();
        assert!(read.len() >= answer - 1 && read.ends_with(b"xxx"), "{} bytes", read.len());
    });
}

#[test]
fn probes_do_not_wait_behind_pages() {
    static IS_OPEN: AtomicBool = AtomicBool::new(false);
    let (site, _) = site(64);
    let app = |path: &str, query: &str| {
        while path.starts_with("/slow") && !IS_OPEN.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        echo(path, query)
    };
    let efforts = |path: &str| match path {
        "/livez" | "/panic" => Effort::None,
        "/readyz" | "/slow/readyz" => Effort::Probe,
        _ => Effort::Page,
    };
    let site = Site { app: Arc::new(app), deadlines: DEADLINES, ..site }.with_efforts(Arc::new(efforts));
    with_site(site, |address| async move {
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(connect(address, "GET /slow HTTP/1.0\r\n\r\n").await);
        }
        // All that pages have is taken when a page does not come.
        let mut page = connect(address, "GET /page HTTP/1.0\r\n\r\n").await;
        for path in ["/livez", "/readyz"] {
            let answer = exchange(address, &format!("GET {path} HTTP/1.0\r\n\r\n")).await;
            assert!(answer.ends_with(&format!("{path}|")), "{answer}");
        }
        for _ in 0..3 {
            held.push(connect(address, "GET /slow/readyz HTTP/1.0\r\n\r\n").await);
        }
        assert!(exchange(address, "GET /livez HTTP/1.0\r\n\r\n").await.ends_with("/livez|"));
        let panicked = exchange(address, "GET /panic HTTP/1.0\r\n\r\n").await;
        assert!(panicked.starts_with("HTTP/1.0 500 "), "{panicked}");
        IS_OPEN.store(true, SeqCst);
        let mut answer = String::new();
        page.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("/page|"), "{answer}");
    });
}

#[test]
fn idle_connections_make_room_the_longest_idle_first() {
    let (site, complaints) = site(2);
    with_site(site, |address| async move {
        let request = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut buffer = [0; 1024];
        let mut first = connect(address, request).await;
        assert!(first.read(&mut buffer).await.unwrap() > 0);
        let mut second = connect(address, request).await;
        assert!(second.read(&mut buffer).await.unwrap() > 0);
        assert!(is_served(address).await);
        assert_eq!(first.read(&mut buffer).await.unwrap_or(0), 0, "the first has made room");
        second.write_all(request.as_bytes()).await.unwrap();
        assert!(second.read(&mut buffer).await.unwrap() > 0, "the second stays");
    });
    assert!(complaints.lock().unwrap().is_empty());
}

#[test]
fn who_is_owed_an_answer_stays_and_newcomers_are_refused() {
    static IS_OPEN: AtomicBool = AtomicBool::new(false);
    let (mut site, complaints) = site(2);
    site.app = Arc::new(|path, query| {
        while path == "/slow" && !IS_OPEN.load(SeqCst) {
            std::thread::yield_now();
        }
        echo(path, query)
    });
    with_site(site, |address| async move {
        let mut held = [
            connect(address, "GET /slow HTTP/1.0\r\n\r\n").await,
            connect(address, "GET /slow HTTP/1.0\r\n\r\n").await,
        ];
        while is_served(address).await {}
        assert!(!is_served(address).await);
        IS_OPEN.store(true, SeqCst);
        for socket in &mut held {
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("/slow|"), "{answer}");
        }
        assert!(is_served(address).await);
    });
    let complaints = complaints.lock().unwrap();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].starts_with("monitoring: 1 connections refused"), "{complaints:?}");
}

#[test]
fn a_thousand_silent_connections_do_not_keep_a_scrape_out() {
    let (mut site, _) = site(64);
    site.deadlines = DEADLINES;
    with_site(site, |address| async move {
        let mut silent = Vec::new();
        for _ in 0..1000 {
            silent.push(connect(address, "GET /varz HT").await);
        }
        // Everybody may be silent for a moment; then one of them leaves for each that comes.
        let end = Instant::now() + Duration::from_secs(4);
        while !is_served(address).await {
            assert!(Instant::now() < end, "nobody made room");
        }
    });
}

mod secure {
    use super::*;
    use crate::shard::Permits;
    use crate::tls::testing::TestAuthority;
    use crate::tls::{Current, Peers, TlsTerms, offer};
    use rustls::pki_types::ServerName;
    use tokio_rustls::TlsConnector;

    fn terms(lab: &TestAuthority) -> TlsTerms {
        offer(&lab.server(), Peers::Anonymous).unwrap().terms
    }

    fn secure_site(lab: &TestAuthority) -> (Site, Complaints) {
        let (mut site, complaints) = site(8);
        site.security = Some(Security { terms: Current::new(terms(lab)), permits: Permits::new(2) });
        (site, complaints)
    }

    async fn ask(address: SocketAddr, lab: &TestAuthority) -> std::io::Result<String> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(lab.client(None))).connect(name, stream).await?;
        stream.write_all(b"GET /x HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[test]
    fn pages_are_served_over_tls() {
        let lab = TestAuthority::new();
        let (site, complaints) = secure_site(&lab);
        with_site(site, |address| async move {
            assert!(ask(address, &lab).await.unwrap().ends_with("/x|"));
        });
        assert!(complaints.lock().unwrap().is_empty());
    }

    #[test]
    fn handshakes_fail_in_gos_words() {
        let lab = TestAuthority::new();
        let (site, complaints) = secure_site(&lab);
        with_site(site, |address| async move {
            for sent in ["garbage\r\n\r\n", "", "\u{16}\u{3}\u{1}"] {
                let mut socket = connect(address, sent).await;
                socket.shutdown().await.unwrap();
                let _ = socket.read_to_end(&mut Vec::new()).await;
            }
        });
        let lines = complaints.lock().unwrap();
        for words in ["tls: first record does not look like a TLS handshake", "EOF", "unexpected EOF"] {
            assert!(lines.iter().any(|line| line.ends_with(&format!(": {words}"))), "{lines:?}");
        }
    }

    #[test]
    fn a_certificate_that_is_exchanged_is_shown_to_the_next() {
        let (old, new) = (TestAuthority::new(), TestAuthority::new());
        let (site, _) = secure_site(&old);
        let security = site.security.clone().unwrap();
        with_site(site, |address| async move {
            assert!(ask(address, &old).await.is_ok());
            security.terms.set(terms(&new));
            assert!(ask(address, &old).await.is_err());
            assert!(ask(address, &new).await.is_ok());
        });
    }

    #[test]
    fn plain_http_is_told_so() {
        let lab = TestAuthority::new();
        let (site, complaints) = secure_site(&lab);
        with_site(site, |address| async move {
            let answer = exchange(address, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let text = "Client sent an HTTP request to an HTTPS server.\n";
            assert_eq!(answer, format!("HTTP/1.0 400 Bad Request\r\n\r\n{text}"));
        });
        let complaints = complaints.lock().unwrap();
        let [line] = &complaints[..] else { panic!("{complaints:?}") };
        assert!(line.starts_with("monitoring: TLS handshake error from 127.0.0.1:"), "{line}");
        assert!(line.ends_with(": client sent an HTTP request to an HTTPS server"), "{line}");
    }

    #[test]
    fn what_comes_before_the_first_answer_is_on_one_account() {
        let lab = TestAuthority::new();
        let (site, complaints) = secure_site(&lab);
        with_site(site, |address| async move {
            // A record whose end never comes, in pieces that would each be allowed.
            let mut flood = connect(address, "").await;
            let record = [&[0x16, 3, 1, 0x40, 0][..], &[1, 0, 0xff, 0xff], &[0; 0x4000 - 4]].concat();
            for _ in 0..32 {
                if flood.write_all(&record).await.is_err() {
                    break;
                }
            }
            let _ = flood.read_to_end(&mut Vec::new()).await;
            // One after another, requests are no longer strangers': together they are longer than
            // the account.
            let name = ServerName::try_from("localhost").unwrap();
            let stream = TcpStream::connect(address).await.unwrap();
            let mut stream =
                TlsConnector::from(Arc::new(lab.client(None))).connect(name, stream).await.unwrap();
            let request = format!("GET /x HTTP/1.1\r\nHost: x\r\nLong: {}\r\n\r\n", "y".repeat(40_000));
            for _ in 0..6 {
                stream.write_all(request.as_bytes()).await.unwrap();
                let (mut answer, mut byte) = (Vec::new(), [0]);
                while !answer.ends_with(b"/x|") {
                    assert_eq!(stream.read(&mut byte).await.unwrap(), 1, "{}", answer.escape_ascii());
                    answer.extend_from_slice(&byte);
                }
            }
        });
        let lines = complaints.lock().unwrap();
        assert!(lines.iter().any(|line| line.contains("TLS handshake error")), "{lines:?}");
    }

    #[test]
    fn half_a_handshake_ends_and_garbage_too() {
        let lab = TestAuthority::new();
        let (site, complaints) = secure_site(&lab);
        with_site(site, |address| async move {
            for text in ["", "\u{16}\u{3}\u{1}", "garbage\r\n\r\n"] {
                let mut rest = Vec::new();
                let _ = connect(address, text).await.read_to_end(&mut rest).await;
                assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
            }
            assert!(ask(address, &lab).await.is_ok());
        });
        assert_eq!(complaints.lock().unwrap().len(), 3);
    }
}
