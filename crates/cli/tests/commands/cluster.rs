//! `myelin cluster recover`, where there is nothing to recover. What it does to a cluster is tried
//! by the server's tests.

use std::process::Stdio;

use crate::server::programs;
use crate::servers::Server;
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
