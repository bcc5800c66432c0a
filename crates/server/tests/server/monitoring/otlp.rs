//! Metrics pushed to a collector by OTLP: nothing without an endpoint, the figures of `/metrics`,
//! and a collector that refuses, fails, hangs or comes back.

use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::tls::Lab;
use myelin_stdx::sync::lock;
use rcgen::CertificateParams;
use rustls::{ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// One request: its first line and headers in lower case, and its body.
pub(super) type Post = (String, Value);

/// Way in which a collector treats requests.
#[derive(Clone, Copy)]
pub(super) enum Mood {
    Takes,
    Answers(&'static str),
    Hangs,
}

/// Connection of a collector: a socket, or TLS on one.
trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// A collector on the loopback.
pub(super) struct Collector {
    address: SocketAddr,
    pub(super) posts: Arc<Mutex<Vec<Post>>>,
    mood: Arc<Mutex<Mood>>,
}

impl Collector {
    pub(super) fn start(mood: Mood) -> Self {
        Self::serve(TcpListener::bind("127.0.0.1:0").expect("a listener"), mood)
    }

    fn serve(listener: TcpListener, mood: Mood) -> Self {
        Self::serve_over(listener, mood, |stream| Box::new(stream))
    }

    /// A collector with the certificate of that name.
    fn secure(lab: &Lab, name: &str) -> Self {
        let config = lab.serves(name);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        Self::serve_over(listener, Mood::Takes, move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            Box::new(StreamOwned::new(connection, stream))
        })
    }

    fn serve_over(
        listener: TcpListener,
        mood: Mood,
        wrap: impl Fn(TcpStream) -> Box<dyn Wire> + Send + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("an address");
        let (posts, mood) = (Arc::<Mutex<Vec<Post>>>::default(), Arc::new(Mutex::new(mood)));
        let (kept, asked) = (Arc::clone(&posts), Arc::clone(&mood));
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream = BufReader::new(wrap(stream));
                let Some(post) = read(&mut stream) else { continue };
                let mood = *lock(&asked);
                let answer = match mood {
                    Mood::Takes => {
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
                    }
                    Mood::Answers(answer) => answer,
                    Mood::Hangs => "",
                };
                lock(&kept).push(post);
                let _ = stream.get_mut().write_all(answer.as_bytes());
                if matches!(mood, Mood::Hangs) {
                    held.push(stream);
                }
            }
        });
        Self { address, posts, mood }
    }

    pub(super) fn turns(&self, mood: Mood) {
        *lock(&self.mood) = mood;
    }

    pub(super) fn config(&self, more: &str) -> String {
        format!("otlp {{ endpoint: \"http://{}\", interval: \"100ms\"\n{more} }}\n", self.address)
    }

    fn count(&self) -> usize {
        lock(&self.posts).len()
    }

    /// Waits for more requests than there are.
    fn more(&self, count: usize) {
        let before = self.count();
        eventually("more requests", || self.count() >= before + count);
    }
}

fn read(stream: &mut BufReader<impl Read>) -> Option<Post> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).expect("JSON")))
}

/// Metric of that name in a request.
fn metric<'a>(body: &'a Value, name: &str) -> Option<&'a Value> {
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    metrics.iter().find(|metric| metric["name"] == name)
}

/// Value of the one sample of a metric, as a text.
fn value<'a>(body: &'a Value, name: &str, kind: &str) -> Option<&'a str> {
    metric(body, name)?[kind]["dataPoints"][0]["asInt"].as_str()
}

/// Attributes as `name=value`.
fn attributes(of: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let pair = |pair: &Value| format!("{}={}", text(&pair["key"]), text(&pair["value"]["stringValue"]));
    of["attributes"].as_array().expect("a list").iter().map(pair).collect()
}

pub(super) fn warnings(server: &Server) -> Vec<String> {
    let log = server.log();
    let told = log.lines().filter(|line| line.contains("OTLP: "));
    told.map(|line| line.split("OTLP: ").nth(1).unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_figures_of_the_page_come_with_what_the_configuration_adds() {
    let collector = Collector::start(Mood::Takes);
    let more = "headers { Authorization: \"Bearer x\" }, resource { \"deployment.environment\": prod, \"service.name\": n }";
    let server = Server::with_config(&format!("server_name: x\nmetrics: true\n{}", collector.config(more)));
    let mut client = Raw::connect(&server);
    client.publish("a", "hello");
    client.barrier();
    eventually("a message is counted", || {
        let posts = lock(&collector.posts);
        posts.last().is_some_and(|(_, body)| value(body, "gnatsd_varz_in_msgs", "gauge") == Some("1"))
    });
    let (head, body) = lock(&collector.posts).last().cloned().expect("a request");
    assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
    let host = format!("host: {}\r\n", collector.address);
    for header in ["content-type: application/json\r\n", "authorization: bearer x\r\n", &host] {
        assert!(head.contains(header), "{head}");
    }
    let resource = attributes(&body["resourceMetrics"][0]["resource"]);
    let id = server.page("/varz")["server_id"].as_str().expect("an id").to_owned();
    for expected in ["deployment.environment=prod", "service.name=n", &format!("service.instance.id={id}")] {
        assert!(resource.iter().any(|found| found == expected), "{expected}: {resource:?}");
    }
    assert!(!resource.contains(&"service.name=myelin".to_owned()));
    // All names of the page are there, and no others.
    let (_, page) = server.exchange("/metrics");
    let of_page: Vec<_> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split('{').next())
        .collect();
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("a list");
    for name in &of_page {
        // Counted once the page was asked for.
        let is_new = name.contains("http_req_stats");
        assert!(is_new || metrics.iter().any(|metric| metric["name"] == **name), "{name}");
    }
    for metric in metrics {
        assert!(of_page.iter().any(|name| metric["name"] == **name), "{metric}");
    }
    let panics = metric(&body, "myelin_panics_total").expect("a counter");
    assert_eq!(
        (&panics["sum"]["aggregationTemporality"], &panics["sum"]["isMonotonic"]),
        (&2.into(), &true.into())
    );
    let point = &panics["sum"]["dataPoints"][0];
    assert_eq!(attributes(point), [format!("server_id={id}")]);
    let nanos =
        |name: &str| point[name].as_str().and_then(|text| text.parse::<u64>().ok()).expect("nanoseconds");
    assert!(nanos("startTimeUnixNano") < nanos("timeUnixNano"), "{point}");
    assert!(page.contains("myelin_otlp_pushes_total{"), "{page}");
}

#[test]
fn a_reload_begins_changes_and_ends_it() {
    let (first, second) = (Collector::start(Mood::Takes), Collector::start(Mood::Takes));
    let server = Server::with_config("server_name: x\nmetrics: true\n");
    assert!(!server.exchange("/metrics").1.contains("myelin_otlp"));
    let lines = server.reload(&format!("server_name: x\nmetrics: true\n{}", first.config("")));
    assert!(lines.iter().any(|line| line.ends_with("Reloaded: otlp")), "{lines:?}");
    first.more(1);
    server.reload(&format!("server_name: x\nmetrics: true\n{}", second.config("")));
    second.more(1);
    let before = first.count();
    second.more(3);
    assert_eq!(first.count(), before);
    server.reload("server_name: x\nmetrics: true\n");
    assert!(!server.exchange("/metrics").1.contains("myelin_otlp"));
    let pushed =
        |collector: &Collector| format!("metrics are pushed to http://{}/v1/metrics", collector.address);
    assert_eq!(warnings(&server), [pushed(&first), pushed(&second)]);
}

#[test]
fn a_failure_is_told_once_and_counted_and_so_is_its_end() {
    let unavailable = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    let partial = "HTTP/1.1 200 OK\r\ncontent-length: 75\r\n\r\n\
                   {\"partialSuccess\":{\"rejectedDataPoints\":\"7\",\"errorMessage\":\"out of order\"}}";
    let collector = Collector::start(Mood::Answers(unavailable));
    let server = Server::with_config(&format!("metrics: true\n{}", collector.config("timeout: \"300ms\"")));
    let url = format!("http://{}/v1/metrics", collector.address);
    collector.more(4);
    collector.turns(Mood::Hangs);
    server.wait_for_log(&format!(
        "[WRN] OTLP: metrics could not be pushed to {url}: no answer within the timeout"
    ));
    collector.more(1);
    // Clients do not notice.
    let mut client = Raw::connect(&server);
    client.subscribe("a", 1);
    client.publish("a", "hello");
    assert_eq!(client.message().text(), "hello");
    collector.turns(Mood::Answers(partial));
    server.wait_for_log("the collector rejected 7 samples: out of order");
    collector.more(3);
    collector.turns(Mood::Takes);
    server.wait_for_log(&format!("[INF] OTLP: metrics are pushed to {url} again, after "));
    collector.more(3);
    let told = warnings(&server);
    assert_eq!(told.len(), 5, "{told:#?}");
    assert!(told[1].ends_with(": the collector answered 503 Service Unavailable"), "{told:#?}");
    let failures: u64 = told[4].rsplit(' ').nth(1).and_then(|count| count.parse().ok()).expect("a number");
    assert!(failures >= 8, "{told:#?}");
    let (_, page) = server.exchange("/metrics");
    let count = format!("result=\"failed\"}} {failures}");
    assert!(
        page.lines().any(|line| line.starts_with("myelin_otlp_pushes_total{") && line.ends_with(&count)),
        "{page}"
    );
}

#[test]
fn a_collector_that_is_not_there_yet_is_found_when_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let server =
        Server::with_config(&format!("otlp {{ endpoint: \"http://{address}/\", interval: \"100ms\" }}"));
    server.wait_for_log(&format!(
        "[WRN] OTLP: metrics could not be pushed to http://{address}/v1/metrics: connection refused"
    ));
    let collector = Collector::serve(TcpListener::bind(address).expect("the port is free"), Mood::Takes);
    server.wait_for_log("metrics are pushed to http");
    collector.more(1);
    server.wait_for_log(" again, after ");
}

/// A configuration that pushes to a port of the loopback over TLS, and trusts an authority.
fn over_tls(lab: &Lab, port: u16) -> String {
    format!(
        "metrics: true\notlp {{ endpoint: \"https://localhost:{port}\", interval: \"100ms\", tls {{ ca_file: {:?} }} }}\n",
        lab.file("ca.pem")
    )
}

#[test]
fn an_encrypted_endpoint_has_to_show_its_certificate() {
    let lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    // Nobody shakes hands here: what comes first is a client's hello, and no figures.
    let seen = thread::spawn(move || {
        let mut first = [0; 1];
        let (mut stream, _): (TcpStream, _) = listener.accept().expect("a connection");
        stream.read_exact(&mut first).expect("a byte");
        first[0]
    });
    let server = Setup::default().config(&over_tls(&lab, port)).start();
    assert_eq!(seen.join().expect("it ends"), 0x16, "a handshake");
    server.wait_for_log("[WRN] OTLP: metrics could not be pushed to https://localhost:");
}

#[test]
fn metrics_reach_a_collector_whose_certificate_is_good() {
    let lab = Lab::new();
    let collector = Collector::secure(&lab, "server");
    let server = Server::with_config(&over_tls(&lab, collector.address.port()));
    collector.more(2);
    let (head, body) = lock(&collector.posts).last().cloned().expect("a request");
    assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: localhost:{}\r\n", collector.address.port())), "{head}");
    assert_eq!(value(&body, "gnatsd_varz_connections", "gauge"), Some("0"), "{body}");
    assert_eq!(warnings(&server).len(), 1, "{:?}", warnings(&server));
}

#[test]
fn nothing_reaches_a_collector_whose_certificate_is_no_good() {
    let (lab, other) = (Lab::new(), Lab::new());
    let elsewhere = CertificateParams::new(vec!["collector.example".to_owned()]).expect("parameters");
    lab.sign_as("elsewhere", &elsewhere);
    for (trusted, name, reason) in [
        (&other, "server", "certificate: BadSignature"),
        (&lab, "elsewhere", "certificate not valid for name"),
    ] {
        let collector = Collector::secure(&lab, name);
        let server = Server::with_config(&over_tls(trusted, collector.address.port()));
        eventually("several pushes fail", || pushes(&server, "failed") >= 4);
        assert_eq!(pushes(&server, "ok"), 0);
        assert_eq!(collector.count(), 0, "a request came through");
        let told = warnings(&server);
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(told[1].starts_with("metrics could not be pushed to https://localhost:"), "{told:#?}");
        assert!(told[1].contains(reason), "{told:#?}");
        // Clients do not notice, and a good authority is enough to go on.
        let mut client = Raw::connect(&server);
        client.subscribe("a", 1);
        client.publish("a", "hello");
        assert_eq!(client.message().text(), "hello");
        if name == "server" {
            server.reload(&over_tls(&lab, collector.address.port()));
            collector.more(1);
            server.wait_for_log(" again, after ");
        }
    }
}

/// Pushes of a result that the server has counted.
fn pushes(server: &Server, result: &str) -> u64 {
    let (_, page) = server.exchange("/metrics");
    let label = format!("result=\"{result}\"");
    let row = |line: &&str| line.starts_with("myelin_otlp_pushes_total{") && line.contains(&label);
    let row = page.lines().find(row).unwrap_or_else(|| panic!("{page}"));
    row.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a number")
}
