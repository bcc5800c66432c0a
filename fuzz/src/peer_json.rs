//! INFO and CONNECT of other servers.
//!
//! Promised for any bytes: they are read or refused, and what was read is read again from what is
//! written.

use myelin_wire::peer::info::{PeerConnect, PeerInfo};

/// Any bytes as the JSON of another server's INFO and CONNECT.
pub fn peer_json(data: &[u8]) {
    if let Ok(info) = PeerInfo::parse(data) {
        let line = info.line();
        let json = line.strip_prefix(b"INFO ").and_then(|line| line.strip_suffix(b" \r\n"));
        let json = json.expect("the line has this form");
        assert_eq!(PeerInfo::parse(json).ok(), Some(info));
    }
    if let Ok(connect) = PeerConnect::parse(data) {
        let line = connect.line();
        let json = line.strip_prefix(b"CONNECT ").and_then(|line| line.strip_suffix(b"\r\n"));
        let json = json.expect("the line has this form");
        assert_eq!(PeerConnect::parse(json).ok(), Some(connect));
    }
}
