//! INFO and CONNECT of other servers.
//!
//! Promised for any bytes: they are read or refused, and what was read is read again from what is
//! written; so is the account of a command that other clusters send.

use myelin_wire::peer::gateway;
use myelin_wire::peer::info::{PeerConnect, PeerInfo};

/// Any bytes as the JSON of another server's INFO and CONNECT.
pub fn peer_json(data: &[u8]) {
    if let Ok(info) = PeerInfo::parse(data) {
        let line = info.line();
        let json = line.strip_prefix(b"INFO ").and_then(|line| line.strip_suffix(b" \r\n"));
        let json = json.expect("the line has this form");
        assert_eq!(PeerInfo::parse(json).ok().as_ref(), Some(&info));
        if let Some(account) = info.command_account() {
            let line = gateway::command(&info.gateway, gateway::ALL_SUBS_START, &account);
            let json = line.strip_prefix(b"INFO ").expect("the line has this form");
            let again = PeerInfo::parse(json.trim_ascii_end()).expect("it was made here");
            assert_eq!(again.command_account(), Some(account));
        }
    }
    if let Ok(connect) = PeerConnect::parse(data) {
        let line = connect.line();
        let json = line.strip_prefix(b"CONNECT ").and_then(|line| line.strip_suffix(b"\r\n"));
        let json = json.expect("the line has this form");
        assert_eq!(PeerConnect::parse(json).ok(), Some(connect));
    }
}
