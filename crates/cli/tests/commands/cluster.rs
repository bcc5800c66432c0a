//! `myelin cluster recover`, where there is nothing to recover. What it does to a cluster is tried
//! by the server's tests.

use std::io::Write;
use std::process::Stdio;

use crate::api::{Answer, acted};
use crate::server::programs;
use crate::servers::Server;
use crate::top::{shown_on, terminal, wait_for};
use crate::{fail, myelin};

#[test]
fn nothing_is_recovered_where_no_meta_group_is() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        let recover = |more: &[&str]| {
            let mut command =
                myelin(&[&["cluster", "recover", "--timeout", "300ms", "-s", &url], more].concat());
            command.stdin(Stdio::null());
            fail(&mut command)
        };
        assert!(recover(&["ORDERS", "--yes"]).contains("no meta leader has answered"));
        let told = recover(&["--yes"]);
        assert!(told.contains("system account"), "{told}");
        assert!(recover(&["a.b"]).contains("must not hold"));
    }
}

/// A plan that is read for longer than the server waits for a client that is silent.
#[test]
fn a_person_may_take_long_to_read_the_plan() {
    let mut is_planned = false;
    let (url, _subjects) = acted(move |subject| match subject {
        "$JS.API.MYELIN.RECOVER.PLAN" => {
            is_planned = true;
            let plan =
                r#"{"group":{"lacks_majority":true,"voting":["a","b"],"lost":[{"name":"a"}],"plan":1}}"#;
            Answer::Payload(plan)
        }
        "UNSUB" if std::mem::take(&mut is_planned) => Answer::End,
        _ => Answer::Payload(r#"{"servers":["b"]}"#),
    });
    let (mut person, other) = terminal(80, 24);
    let mut recover = myelin(&["cluster", "recover", "ORDERS", "-s", &url]);
    let same = || Stdio::from(other.try_clone().unwrap());
    let mut child = recover.stdin(same()).stdout(same()).stderr(same()).spawn().unwrap();
    let shown = shown_on(person.try_clone().unwrap());
    wait_for(&shown, "Type `recover` to go on");
    person.write_all(b"recover\n").unwrap();
    wait_for(&shown, "ORDERS goes on with b");
    assert!(child.wait().unwrap().success());
}
