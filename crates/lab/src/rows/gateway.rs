//! Rows about gateways: two clusters of one server each, or one whose other cluster this program
//! plays.
//!
//! Owns their configurations and what is played. CPU is that of both servers.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;

use myelin_loadgen::connection::{Connection, PATIENCE};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::meter::Meter;
use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::throughput::ThroughputLoad;
use serde_json::Value;

use crate::rows::cluster::page;
use crate::servers::process::{Server, free_port};
use crate::servers::scratch::Scratch;

/// Name of the group for `--rows`.
pub(crate) const GROUP: &str = "gateway";

/// Work of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayLoad {
    /// Publishers in a cluster, subscribers in the other.
    Across(ThroughputLoad),
    /// Clients of a cluster request from a service in the other.
    Requests { clients: usize, size: usize },
    /// Publishers whose subjects nobody wants in the other cluster.
    Unwanted(ThroughputLoad),
    /// A cluster that is told of so many subscriptions when the gateway comes up.
    Joined { told: usize },
}

impl fmt::Display for GatewayLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Across(load) => write!(f, "{load}, from a cluster to another over a gateway"),
            Self::Requests { clients, size } => {
                write!(f, "{clients} clients request from a service in another cluster, {size} B")
            }
            Self::Unwanted(load) => write!(f, "{load}, which another cluster does not want"),
            Self::Joined { told } => {
                write!(f, "a gateway comes up and tells of {told} subscriptions of the other cluster")
            }
        }
    }
}

impl GatewayLoad {
    /// Load of messages, if there are any.
    pub(crate) fn messages(self) -> Option<ThroughputLoad> {
        match self {
            Self::Across(load) | Self::Unwanted(load) => Some(load),
            Self::Requests { .. } | Self::Joined { .. } => None,
        }
    }

    /// Whether this program plays the other cluster.
    pub(crate) fn is_played(self) -> bool {
        matches!(self, Self::Joined { .. })
    }

    /// A server of each of two clusters, and the ports of their pages.
    pub(crate) fn servers(
        self,
        binary: &Path,
        scratch: &Scratch,
    ) -> Result<(Vec<Server>, Vec<u16>), BenchError> {
        let gateways = [free_port()?, free_port()?];
        let first = start(binary, scratch, "A", gateways[0], ("B", gateways[1]))?;
        if self.is_played() {
            return Ok((vec![first.0], vec![first.1]));
        }
        let second = start(binary, scratch, "B", gateways[1], ("A", gateways[0]))?;
        Ok((vec![first.0, second.0], vec![first.1, second.1]))
    }

    /// Plays the other cluster of a server of its own: the time until it knows all, and what it
    /// holds then for each subscription.
    pub(crate) fn play(self, binary: &Path, scratch: &Scratch) -> Result<Vec<(Metric, f64)>, BenchError> {
        let Self::Joined { told } = self else { return Ok(Vec::new()) };
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(BenchError::io("listening"))?;
        let port = listener.local_addr().map_err(BenchError::io("listening"))?.port();
        let (server, _) = start(binary, scratch, "A", free_port()?, ("B", port))?;
        let before = server.meter().resident_at_rest()?;
        let (stream, _) = listener.accept().map_err(BenchError::io("waiting for a gateway"))?;
        let mut link = Played::new(stream)?;
        let interest = interest(told);
        let info = format!(
            "INFO {{\"server_id\":\"NB\",\"server_name\":\"played\",\"version\":\"2.15.2\",\"proto\":3,\
             \"headers\":true,\"max_payload\":1048576,\"gateway\":\"B\",\"gateway_urls\":[\"127.0.0.1:{port}\"],\
             \"gateway_url\":\"127.0.0.1:{port}\",\"gateway_nrp\":true,\"gateway_iom\":true}}\r\n"
        );
        link.send(&info)?;
        link.find("INFO ")?;
        let start = Instant::now();
        link.send(&interest)?;
        link.find("PONG")?;
        let took = start.elapsed();
        link.prove(&server, told)?;
        let after = server.meter().resident_at_rest()?;
        Ok(vec![
            (Metric::JoinTime, took.as_secs_f64() * 1e3),
            (Metric::SubscriptionMemory, after.saturating_sub(before) as f64 / told as f64),
        ])
    }
}

/// A server of the gateway `name`, and the port of its pages. Its own events would cross, too.
fn start(
    binary: &Path,
    scratch: &Scratch,
    name: &str,
    gateway: u16,
    (other, remote): (&str, u16),
) -> Result<(Server, u16), BenchError> {
    let (port, http) = (free_port()?, free_port()?);
    let text = format!(
        "server_name: gateway-{port}\nno_system_account: true\nhttp: \"127.0.0.1:{http}\"\ngateway {{ name: {name}, \
         listen: \"127.0.0.1:{gateway}\", gateways: [{{ name: {other}, url: \"nats://127.0.0.1:{remote}\" }}] }}\n"
    );
    let room = scratch.room(&format!("server-{port}"))?;
    Ok((Server::with_configuration(binary, port, room, &text)?, http))
}

/// Lines about its interest that a cluster says when a gateway has come up.
fn interest(told: usize) -> String {
    let command = |number| {
        format!("INFO {{\"gateway\":\"B\",\"gateway_cmd\":{number},\"gateway_cmd_payload\":\"JEc=\"}}\r\n")
    };
    let lines: String = (0..told).map(|n| format!("RS+ $G {}\r\n", subject(n))).collect();
    format!("{}{lines}{}PING\r\n", command(2), command(3))
}

fn subject(n: usize) -> String {
    format!("orders.{}.{}", n % 1000, n / 1000)
}

/// The other end of a link that this program plays.
struct Played {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Played {
    fn new(stream: TcpStream) -> Result<Self, BenchError> {
        let setting = || BenchError::io("setting up a link");
        stream.set_read_timeout(Some(PATIENCE)).map_err(setting())?;
        stream.set_nodelay(true).map_err(setting())?;
        let lines = BufReader::new(stream.try_clone().map_err(setting())?);
        Ok(Self { stream, lines })
    }

    fn send(&mut self, text: &str) -> Result<(), BenchError> {
        self.stream.write_all(text.as_bytes()).map_err(BenchError::io("sending over a link"))
    }

    /// Reads until a line begins like this.
    fn find(&mut self, start: &str) -> Result<(), BenchError> {
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            let count = self.lines.read_line(&mut line).map_err(BenchError::io("reading from a link"))?;
            if count == 0 || line.starts_with("-ERR") {
                return Err(BenchError::Lost(format!("a link that was played has ended: {line}")));
            }
        }
        Ok(())
    }

    /// A message on the last subject comes over the link, and so it knows that one.
    fn prove(&mut self, server: &Server, told: usize) -> Result<(), BenchError> {
        let last = subject(told - 1);
        let mut client = Connection::open(server.address())?;
        client.send(format!("PUB {last} 1\r\n!\r\n").as_bytes())?;
        self.find(&format!("RMSG $G {last} 1"))
    }
}

/// Bytes of messages that the pages of two servers say have crossed the links between them, at any
/// of their ends, when both have come to rest.
pub(crate) fn crossed(pages: &[u16], meters: &[Meter]) -> Result<u64, BenchError> {
    meters.iter().try_for_each(|meter| meter.rest())?;
    let mut sum = 0;
    for http in pages {
        let page = page(*http, "/gatewayz")
            .ok_or_else(|| BenchError::Lost("a page about gateways cannot be read".into()))?;
        let none = serde_json::Map::new();
        let outbound = page["outbound_gateways"].as_object().unwrap_or(&none).values();
        let inbound = page["inbound_gateways"].as_object().unwrap_or(&none).values();
        let inbound = inbound.filter_map(Value::as_array).flatten();
        for link in outbound.chain(inbound) {
            let connection = &link["connection"];
            sum += ["in_bytes", "out_bytes"].iter().filter_map(|name| connection[name].as_u64()).sum::<u64>();
        }
    }
    Ok(sum)
}
