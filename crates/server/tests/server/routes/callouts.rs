//! Auth callout beside a cluster: a service that is connected to another server than the client.

use super::{Raw, pairs, wait_for_interest};
use crate::callout::{AUTH, configured, hear, key, publish, service};
use myelin_stdx::nkey::Role;
use serde_json::json;

#[test]
fn a_service_of_another_server_decides() {
    for members in pairs(&configured("", 5)) {
        let issuer = key(Role::Account, 1);
        let mut asked = service(&members[1].server, AUTH);
        let mut probe = Raw::open(members[0].server.address());
        probe.send(&format!("CONNECT {{{AUTH},\"verbose\":false}}\r\n"));
        probe.barrier();
        wait_for_interest(&mut probe, &mut asked);
        let mut client = Raw::open(members[0].server.address());
        client.send("CONNECT {\"user\":\"bob\",\"pass\":\"secret\",\"verbose\":false}\r\nPING\r\n");
        let question = hear(&mut asked, None);
        let answer = question.admit(&issuer, &issuer, json!({"aud": "APP", "name": "b"}));
        publish(&mut asked, &question.reply, answer.as_bytes());
        assert_eq!(client.line(), "PONG");
        // Let in, the client is in the account that the service has named.
        let mut other = Raw::open(members[1].server.address());
        other.send("CONNECT {\"user\":\"app\",\"pass\":\"pwd\",\"verbose\":false}\r\n");
        other.barrier();
        client.subscribe("hello", 1);
        wait_for_interest(&mut other, &mut client);
        other.publish("hello", "x");
        assert_eq!(client.message().text(), "x");
    }
}
