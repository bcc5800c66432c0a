//! The HTTP listener for monitoring: frames requests and answers, and decides nothing about their content.
//!
//! It is HTTP/1.1 for a handful of tools, not a web server: connections are capped, a peer that sends or reads
//! too slowly is dropped, and a request's method and body are ignored, as the reference does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use myelin_monitor::Answer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections at once; one more is closed as soon as it is accepted.
const MAX_CONNECTIONS: usize = 128;

/// How long a request's head may take, counted from the answer before it or from the connection's begin.
///
/// Compat: the reference lets a connection idle without end between requests.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// How long a peer may leave what was sent to it unread. Without it, peers that stop reading would keep all
/// connections for themselves.
#[cfg(target_os = "linux")]
const UNREAD_DEADLINE: Duration = Duration::from_secs(30);

/// The largest head, in bytes; a longer one is answered with 431.
const MAX_HEAD: usize = 64 * 1024;

/// How long to wait after accepting failed, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Turns a path (percent-encoded) and what follows its `?` into an answer. It may take long: it runs where
/// blocking is allowed.
pub(crate) type App = dyn Fn(&str, &str) -> Answer + Send + Sync;

/// Answers requests on `listener` with `app` until `shutdown` is done; then every connection is closed at once,
/// in the middle of an answer too, as the reference does.
pub(crate) async fn serve(listener: TcpListener, app: Arc<App>, shutdown: impl Future<Output = ()>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match (accepted, Arc::clone(&slots).try_acquire_owned()) {
                (Ok((stream, _)), Ok(slot)) => {
                    let app = Arc::clone(&app);
                    connections.spawn(async move {
                        attend(stream, app).await;
                        drop(slot);
                    });
                }
                (Ok(_), Err(_)) => {}
                (Err(_), _) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

/// Serves one connection until its peer leaves or breaks a rule. What went wrong is the peer's business only.
async fn attend(stream: TcpStream, app: Arc<App>) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(UNREAD_DEADLINE));
    let service = service_fn(move |request| respond(request, Arc::clone(&app)));
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(MAX_HEAD)
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Renders on a thread that may block: a `/connz` of many connections must not hold up the runtime.
async fn respond(request: Request<Incoming>, app: Arc<App>) -> Result<Response<Full<Bytes>>, Infallible> {
    let uri = request.uri().clone();
    let answer = tokio::task::spawn_blocking(move || app(uri.path(), uri.query().unwrap_or_default())).await;
    Ok(answer.map_or_else(|_| status(StatusCode::INTERNAL_SERVER_ERROR), framed))
}

fn framed(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(*name, *value);
    }
    response
        .body(Full::new(Bytes::from(answer.body)))
        .unwrap_or_else(|_| status(StatusCode::INTERNAL_SERVER_ERROR))
}

fn status(code: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}

/// Requests by page since the start: varz's `http_req_stats`.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<&'static str, u64>>);

impl RequestCounts {
    /// Counts one request to `page`.
    pub(crate) fn count(&self, page: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(page).or_default() += 1;
    }

    /// The counts so far.
    #[must_use]
    pub(crate) fn snapshot(&self) -> BTreeMap<String, u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(page, count)| ((*page).to_owned(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Serves an echo of path and query, and gives its address to `client`; then shuts down and waits.
    fn with_server<F: Future<Output = ()>>(client: impl FnOnce(SocketAddr) -> F) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopped) = oneshot::channel::<()>();
            let server = tokio::spawn(serve(listener, Arc::new(echo), async { stopped.await.unwrap() }));
            tokio::time::timeout(LIMIT, client(address)).await.unwrap();
            stop.send(()).unwrap();
            tokio::time::timeout(LIMIT, server).await.unwrap().unwrap();
        });
    }

    fn echo(path: &str, query: &str) -> Answer {
        assert_ne!(path, "/panic", "asked for");
        let body =
            if path == "/large" { vec![b'x'; 1 << 20] } else { format!("{path}|{query}").into_bytes() };
        Answer { body, ..Answer::not_found() }
    }

    /// Sends `text` on a new connection and reads until the server closes it.
    async fn exchange(address: SocketAddr, text: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
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
        });
    }

    #[test]
    fn a_body_is_not_waited_for() {
        with_server(|address| async move {
            let mut socket = TcpStream::connect(address).await.unwrap();
            let head = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n";
            socket.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("/x|"), "{answer}");
        });
    }

    #[test]
    fn a_large_answer_arrives_whole() {
        with_server(|address| async move {
            let answer = exchange(address, "GET /large HTTP/1.0\r\n\r\n").await;
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            assert_eq!(body.len(), 1 << 20);
        });
    }

    #[test]
    fn garbage_and_endless_heads_are_refused() {
        with_server(|address| async move {
            assert!(exchange(address, "GARBAGE\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
            let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD));
            assert!(exchange(address, &endless).await.starts_with("HTTP/1.1 431 "));
        });
    }

    #[test]
    fn a_panic_while_rendering_is_a_500() {
        with_server(|address| async move {
            let answer = exchange(address, "GET /panic HTTP/1.0\r\n\r\n").await;
            assert!(answer.starts_with("HTTP/1.0 500 "), "{answer}");
            assert!(exchange(address, "GET /x HTTP/1.0\r\n\r\n").await.ends_with("/x|"));
        });
    }

    #[test]
    fn a_slow_head_ends_the_connection() {
        with_server(|address| async move {
            let begun = std::time::Instant::now();
            exchange(address, "GET / HTTP/1.1\r\nHost").await;
            assert!(begun.elapsed() >= HEAD_DEADLINE - Duration::from_millis(100), "{:?}", begun.elapsed());
        });
    }

    #[test]
    fn an_idle_connection_ends() {
        with_server(|address| async move {
            let answer = exchange(address, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert!(answer.ends_with("/x|"), "{answer}");
        });
    }

    #[test]
    fn one_connection_too_many_is_closed() {
        with_server(|address| async move {
            let mut held = Vec::new();
            for _ in 0..MAX_CONNECTIONS {
                let mut socket = TcpStream::connect(address).await.unwrap();
                socket.write_all(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
                // The first byte of an answer shows that the connection has its slot.
                socket.read_u8().await.unwrap();
                held.push(socket);
            }
            let mut extra = TcpStream::connect(address).await.unwrap();
            assert!(extra.read_u8().await.is_err(), "the extra connection was served");
            held.clear();
            let end = std::time::Instant::now() + LIMIT;
            loop {
                let mut socket = TcpStream::connect(address).await.unwrap();
                let _ = socket.write_all(b"GET /x HTTP/1.0\r\n\r\n").await;
                if socket.read_u8().await.is_ok() {
                    break;
                }
                assert!(std::time::Instant::now() < end, "no slot became free");
            }
        });
    }

    #[test]
    fn requests_are_counted_by_page() {
        let counts = RequestCounts::default();
        for page in ["/varz", "/", "/varz"] {
            counts.count(page);
        }
        let expected = BTreeMap::from([("/".to_owned(), 1), ("/varz".to_owned(), 2)]);
        assert_eq!(counts.snapshot(), expected);
    }
}
