//! Addresses under which this server itself can be reached.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};

/// Addresses of this server for clients: the host that is configured, or the machine's addresses
/// where that is none.
pub(crate) fn of(host: &str, port: u16) -> Vec<String> {
    let is_any = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    if !is_any {
        return vec![with_port(host, port)];
    }
    let found: Vec<_> = addresses().iter().map(|ip| with_port(&ip.to_string(), port)).collect();
    if found.is_empty() { vec![with_port(host, port)] } else { found }
}

/// Where dialling would lead to the server itself.
pub(super) fn to_self(bound: SocketAddr) -> HashSet<SocketAddr> {
    let local = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let all = addresses().into_iter().chain(local);
    let is_any = bound.ip().is_unspecified();
    let all = all.filter(|ip| is_any || bound.ip() == *ip);
    all.map(|ip| SocketAddr::new(ip, bound.port())).collect()
}

/// Whether a server that listens there would dial itself at this host, whatever that is called.
pub(crate) fn is_own(listens: (&str, u16), host: &str) -> bool {
    let found = |host: &str| (host, listens.1).to_socket_addrs().into_iter().flatten();
    let own = |bound| to_self(bound).into_iter().chain([bound]);
    let own: HashSet<SocketAddr> = found(listens.0).flat_map(own).collect();
    host.eq_ignore_ascii_case(listens.0) || found(host).any(|address| own.contains(&address))
}

/// Addresses of the machine towards others, by way of the routes that the system would take:
/// nothing is sent. Compat: the reference lists all interfaces.
fn addresses() -> Vec<IpAddr> {
    let probes = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    let found = probes.iter().filter_map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    });
    found.filter(|ip| !ip.is_loopback() && !ip.is_unspecified()).collect()
}

fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_said_is_told() {
        assert_eq!(of("h", 1), ["h:1"]);
        assert_eq!(of("fd00::2", 1), ["[fd00::2]:1"]);
        assert!(!of("0.0.0.0", 1).is_empty());
    }

    #[test]
    fn a_name_of_the_machine_leads_to_the_server_itself() {
        assert!(is_own(("0.0.0.0", 7), "localhost"));
        assert!(is_own(("127.0.0.1", 7), "localhost") && is_own(("localhost", 7), "127.0.0.1"));
        assert!(is_own(("192.0.2.7", 7), "192.0.2.7") && is_own(("n1.invalid", 7), "N1.invalid"));
        assert!(!is_own(("127.0.0.1", 7), "192.0.2.7") && !is_own(("0.0.0.0", 7), "n2.invalid"));
    }

    #[test]
    fn loopback_leads_to_a_server_that_listens_everywhere() {
        let own = to_self("0.0.0.0:7".parse().unwrap());
        assert!(own.contains(&"127.0.0.1:7".parse().unwrap()));
        let own = to_self("127.0.0.1:7".parse().unwrap());
        assert_eq!(own.into_iter().collect::<Vec<_>>(), ["127.0.0.1:7".parse().unwrap()]);
    }
}
