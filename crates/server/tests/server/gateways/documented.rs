//! Configurations of our page on gateways and of NATS's documentation (docs.nats.io:
//! configuration/gateways), as they stand there but for ports and host names.

use super::{Site, joined};
use crate::eventually;
use crate::process::Setup;
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port};

fn start(kind: ServerKind, text: &str, port: u16) -> Option<Site> {
    let setup = Setup::default().program(&kind.program()?).config(text).flags(&["-D"]);
    Some(Site { server: setup.start(), port })
}

#[test]
fn clusters_of_our_page_are_joined() {
    let page = include_str!("../../../../../docs/gateways.md");
    let block = page.split("```").nth(1).expect("a block with two configurations");
    let (east, west) =
        block.split_once("# a server of the cluster west").expect("that of the second cluster");
    for kinds in MIXES {
        let ports = [free_port(), free_port()];
        let fill = |text: &str, own: u16| {
            text.replace("0.0.0.0:7222", &format!("127.0.0.1:{own}"))
                .replace("east.example:7222", &format!("127.0.0.1:{}", ports[0]))
                .replace("west.example:7222", &format!("127.0.0.1:{}", ports[1]))
        };
        let sites = [
            start(kinds[0], &fill(east, ports[0]), ports[0]),
            start(kinds[1], &fill(west, ports[1]), ports[1]),
        ];
        let [Some(east), Some(west)] = sites else { continue };
        joined(&mut east.client(), &mut west.client());
    }
}

const TUTORIAL: &str = r#"gateway {
    name: "NAME"
    listen: "127.0.0.1:PORT"
    authorization {
        user: gwu
        password: gwp
    }
    gateways: [
        {name: "A", url: "nats://gwu:gwp@127.0.0.1:PORTA"},
        {name: "B", url: "nats://gwu:gwp@127.0.0.1:PORTB"},
        {name: "C", url: "nats://gwu:gwp@127.0.0.1:PORTC"},
    ]
}"#;

#[test]
fn clusters_of_the_documentation_are_joined() {
    for kinds in [[Ours, Ours, Ours], [Ours, Reference, Ours], [Reference, Ours, Reference]] {
        let ports = [free_port(), free_port(), free_port()];
        let names = ["A", "B", "C"];
        let site = |at: usize| {
            let mut text = TUTORIAL.replace("NAME", names[at]);
            for (name, port) in names.iter().zip(ports) {
                text = text.replace(&format!("PORT{name}"), &port.to_string());
            }
            start(kinds[at], &text.replace("PORT", &ports[at].to_string()), ports[at])
        };
        let Some(sites) = (0..3).map(site).collect::<Option<Vec<_>>>() else { continue };
        eventually("each has a gateway to both others", || {
            sites.iter().all(|site| {
                let page = site.server.page("/gatewayz");
                ["outbound_gateways", "inbound_gateways"]
                    .iter()
                    .all(|way| page[*way].as_object().is_some_and(|links| links.len() == 2))
            })
        });
        let [mut a, mut b, mut c] = [0, 1, 2].map(|at: usize| sites[at].client());
        joined(&mut a, &mut b);
        joined(&mut b, &mut c);
        joined(&mut c, &mut a);
    }
}
