//! MQTT over TLS and over WebSocket.

use super::peer::{Peer, hello};
use super::{address, servers, start};
use crate::certificates::params;
use crate::process::{Server, Setup};
use crate::tls::Lab;
use crate::websocket;
use crate::websocket::peer::{BINARY, dial, frame};
use myelin_compat::implementation::reference_program;
use myelin_mqtt::packet::{ClientPacket, ConnectPacket, ProtocolLevel, ReasonCode};
use std::net::TcpStream;

/// Where a server speaks MQTT over TLS.
fn secure_address(server: &Server) -> std::net::SocketAddr {
    server.monitor("Listening for MQTT clients on tls://")
}

fn shake(
    lab: &Lab,
    server: &Server,
    shown: Option<&str>,
) -> Peer<impl std::io::Read + std::io::Write + use<>> {
    let socket = TcpStream::connect(secure_address(server)).expect("the server listens");
    socket.set_read_timeout(Some(crate::PATIENCE)).expect("a positive time");
    Peer::over(lab.shake(socket, shown).into_stream())
}

#[test]
fn it_may_be_encrypted_and_certificates_may_name_users() {
    let lab = Lab::new();
    lab.sign_as("mapped", &params(&["email:e@x"], &[]));
    let block = lab.block("verify_and_map: true, ca_file: \"@ca.pem\"");
    for server in &servers(&block, "authorization { users: [ {user: e@x}, {user: p, password: p} ] }") {
        let mut peer = shake(&lab, server, Some("mapped"));
        assert_eq!(peer.greet(&hello("secure")), Some(ReasonCode::Success));
        assert_eq!(peer.subscribe(&["a"]), [0]);
        peer.publish("a", "x");
        assert_eq!(peer.message().shown(), ("a", "x"));
        let conn = &server.page("/connz?auth=1&mqtt_client=secure")["connections"][0];
        assert_eq!(conn["authorized_user"], "e@x", "{conn}");
        assert!(conn["tls_version"].is_string() && server.page("/varz")["mqtt"]["tls_map"] == true);
        let mut plain = Peer::dial(secure_address(server));
        let mut bytes = Vec::new();
        ClientPacket::Connect(hello("plain")).encode(ProtocolLevel::V3, &mut bytes);
        plain.send_bytes(&bytes);
        plain.rest();
        server.wait_for_close("TLS Handshake Failure");
    }
}

#[test]
fn tls_may_be_left_to_the_client() {
    let lab = Lab::new();
    for server in &servers(&lab.block(""), &format!("{}\nallow_non_tls: true", lab.block(""))) {
        let mut peer = shake(&lab, server, None);
        assert_eq!(peer.greet(&hello("secure")), Some(ReasonCode::Success));
        Peer::connect(secure_address(server), "plain").barrier();
    }
}

/// Bytes of a packet in a frame.
fn framed(packet: &ClientPacket<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(ProtocolLevel::V3, &mut bytes);
    frame(BINARY, &bytes)
}

#[test]
fn it_is_spoken_over_websocket() {
    let websocket = "websocket { host: \"127.0.0.1\", port: -1, no_tls: true }\n\
                     authorization { users: [ {user: w, password: p, allowed_connection_types: [MQTT_WS]}, \
                     {user: m, password: p, allowed_connection_types: [MQTT]} ] }";
    for server in &servers("", websocket) {
        let at = websocket::address(server);
        let mut peer =
            websocket::peer::Peer::over_path(dial(at), "/mqtt", "Sec-WebSocket-Protocol: mqtt\r\n");
        let connect = ConnectPacket { user_name: Some("w"), password: Some(b"p"), ..hello("framed") };
        peer.send(&framed(&ClientPacket::Connect(connect)));
        assert_eq!(peer.frame(), Some((BINARY, vec![0x20, 2, 0, 0])));
        // In pieces, and several in one.
        let mut bytes = Vec::new();
        ClientPacket::PingReq.encode(ProtocolLevel::V3, &mut bytes);
        peer.send(&frame(BINARY, &bytes[..1]));
        peer.send(&frame(BINARY, &[&bytes[1..], &bytes].concat()));
        let mut pongs = Vec::new();
        while pongs.len() < 4 {
            pongs.extend(peer.frame().expect("the connection is open").1);
        }
        assert_eq!(pongs, [0xd0, 0, 0xd0, 0]);
        server.wait_for_log("mid_ws:");
        let conn = &server.page("/connz?auth=1&mqtt_client=framed")["connections"][0];
        assert_eq!((&conn["type"], &conn["authorized_user"]), (&"mqtt".into(), &"w".into()), "{conn}");
        // Users may be for one way in only.
        let other = ConnectPacket { user_name: Some("m"), password: Some(b"p"), ..hello("other") };
        let mut peer = websocket::peer::Peer::over_path(dial(at), "/a/mqtt", "");
        peer.send(&framed(&ClientPacket::Connect(other)));
        assert_eq!(peer.frame(), Some((BINARY, vec![0x20, 2, 0, 5])));
        let mut peer = Peer::dial(address(server));
        assert_eq!(peer.greet(&connect), Some(ReasonCode::NotAuthorized));
        assert_eq!(Peer::dial(address(server)).greet(&other), Some(ReasonCode::Success));
    }
}

/// Needs of a configuration, in the reference's words.
#[test]
fn a_start_without_what_it_needs_is_refused() {
    let programs =
        std::iter::once(std::path::PathBuf::from(crate::process::PROGRAM)).chain(reference_program());
    for program in programs {
        for (config, text) in [
            ("mqtt { port: -1 }", "mqtt requires JetStream to be enabled if running in standalone mode"),
            (
                "mqtt { port: -1 }\ncluster { name: C, port: -1 }",
                "mqtt requires server name to be explicitly set",
            ),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = folder.path().join("server.conf");
            std::fs::write(&file, config).expect("the folder takes files");
            let output = std::process::Command::new(&program)
                .args(["-a", "127.0.0.1", "-p", "-1", "-c"])
                .arg(&file)
                .output()
                .expect("the program starts");
            assert!(!output.status.success());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(text), "{}: {said}", program.display());
        }
    }
    let server = start(Setup::default(), "", "");
    Peer::connect(address(&server), "fine").barrier();
}
