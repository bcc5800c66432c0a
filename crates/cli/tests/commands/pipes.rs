//! Outputs that nobody reads to their end, as behind `| head -1`.

use std::process::Stdio;

use crate::servers::{Server, any};
use crate::{myelin, texts};

#[test]
fn a_command_whose_output_nobody_reads_ends_quietly() {
    let Some(program) = any() else { return };
    let server = Server::with_streams(&program, &[]);
    for line in ["server check connection", "stream ls"] {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = myelin(&[&words[..], &["-s", &server.url()]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(141), ""), "{line}");
    }
}
