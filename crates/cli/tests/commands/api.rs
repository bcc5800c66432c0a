//! A server that is nothing but answers to requests: late ones, lost ones, and those of a leader
//! that has changed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Answer to a request.
#[derive(Clone)]
pub(crate) enum Answer {
    Payload(&'static str),
    /// A status without a message.
    Status(&'static str),
    /// The first message of a consumer.
    Delivery(&'static str),
    /// None, as where it is lost.
    Lost,
    /// The end of the connection.
    End,
}

/// Address of a server whose answers are these, and the subjects that it is asked. `answer` gets
/// those subjects, and `UNSUB` where a subscription ends.
pub(crate) fn acted(answer: impl FnMut(&str) -> Answer + Send + 'static) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let (send, subjects) = channel();
    let mut answer = answer;
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|socket| serve(socket, &mut answer, &send))
    });
    (url, subjects)
}

/// Serves one connection, whose end may be met at any time.
fn serve(mut socket: TcpStream, answer: &mut dyn FnMut(&str) -> Answer, asked: &Sender<String>) {
    let info = "INFO {\"server_id\":\"N\",\"version\":\"2.15.2\",\"headers\":true,\"max_payload\":1048576,\"api_lvl\":3}\r\n";
    let mut lines = BufReader::new(socket.try_clone().unwrap());
    let mut subs: Vec<(String, String)> = Vec::new();
    let mut line = String::new();
    let mut said = info.to_owned();
    while socket.write_all(said.as_bytes()).is_ok() {
        line.clear();
        said.clear();
        if !matches!(lines.read_line(&mut line), Ok(1..)) {
            return;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (subject, reply, size) = match words[..] {
            ["SUB", subject, sid] => {
                subs.push((subject.trim_end_matches('*').to_owned(), sid.to_owned()));
                continue;
            }
            ["UNSUB", ..] if matches!(answer("UNSUB"), Answer::End) => return,
            ["PING"] => {
                said += "PONG\r\n";
                continue;
            }
            ["PUB", subject, reply, size] | ["HPUB", subject, reply, _, size] => (subject, reply, size),
            _ => continue,
        };
        let mut payload = vec![0; size.parse::<usize>().unwrap() + 2];
        if lines.read_exact(&mut payload).is_err() {
            return;
        }
        let _ = asked.send(subject.to_owned());
        let sid = subs.iter().rfind(|(to, _)| reply.starts_with(to)).map_or("1", |(_, sid)| sid);
        said = match answer(subject) {
            Answer::Payload(text) => format!("MSG {reply} {sid} {}\r\n{text}\r\n", text.len()),
            Answer::Status(text) => {
                let head = format!("NATS/1.0 {text}\r\n\r\n");
                format!("HMSG {reply} {sid} {size} {size}\r\n{head}\r\n", size = head.len())
            }
            Answer::Delivery(text) => {
                let ack = "$JS.ACK.S.C.1.1.1.1700000000000000000.0";
                format!("MSG x {sid} {ack} {}\r\n{text}\r\n", text.len())
            }
            Answer::Lost => String::new(),
            Answer::End => return,
        };
    }
}
