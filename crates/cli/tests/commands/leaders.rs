//! Commands whose server leads no longer, or whose answer is lost.

use std::fs;

use crate::api::{Answer, acted};
use crate::{fail, myelin, succeed};

const STREAM: &str = r#"{"config":{},"state":{}}"#;
const CONSUMER: &str = r#"{"stream_name":"S","name":"C","config":{},"num_pending":0}"#;

/// Requests for messages meet a change of the leader, then nobody, and then another leader.
fn led_by_others() -> impl FnMut(&str) -> Answer + Send {
    let mut asked = 0;
    move |subject| {
        if subject.starts_with("$JS.API.STREAM.INFO.") {
            return Answer::Payload(STREAM);
        }
        if !subject.starts_with("$JS.API.CONSUMER.MSG.NEXT.") {
            return Answer::Payload(CONSUMER);
        }
        asked += 1;
        match asked {
            1 => Answer::Status("409 Leadership Change"),
            2 => Answer::Status("503"),
            3 => Answer::Status("409 Server Shutdown"),
            4 => Answer::Delivery("hello"),
            _ => Answer::Lost,
        }
    }
}

#[test]
fn who_waits_for_messages_goes_on_when_another_server_leads() {
    for line in ["kv watch B --count 1", "consumer sub S C --count 1 --raw"] {
        let (url, _subjects) = acted(led_by_others());
        let words: Vec<&str> = line.split(' ').collect();
        let said = succeed(&mut myelin(&[&words[..], &["-s", &url]].concat()));
        assert!(said.ends_with("hello\n"), "{line}: {said}");
    }
    let (url, _subjects) = acted(|subject| match subject {
        "$JS.API.CONSUMER.MSG.NEXT.S.C" => Answer::Status("409 Consumer Deleted"),
        _ => Answer::Payload(CONSUMER),
    });
    let said = fail(&mut myelin(&["consumer", "sub", "S", "C", "-s", &url]));
    assert!(said.contains("Consumer Deleted"), "{said}");
}

#[test]
fn content_is_removed_only_where_its_object_was_refused() {
    let refusal = r#"{"error":{"code":400,"err_code":10054,"description":"too large"}}"#;
    for (answer, is_lost) in [(Answer::Lost, true), (Answer::Payload(refusal), false)] {
        let (url, subjects) = acted(move |subject| match subject {
            subject if subject.starts_with("$O.B.M.") => answer.clone(),
            subject if subject.starts_with("$O.B.C.") => Answer::Payload(r#"{"stream":"OBJ_B","seq":1}"#),
            _ => Answer::Payload(r#"{"config":{},"state":{},"num_pending":0,"purged":1}"#),
        });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("in").display().to_string();
        fs::write(&file, b"content").unwrap();
        let said =
            fail(&mut myelin(&["object", "put", "B", &file, "--name", "x", "--timeout", "1s", "-s", &url]));
        let asked: Vec<String> = subjects.try_iter().collect();
        let is_removed = asked.iter().any(|subject| subject == "$JS.API.STREAM.PURGE.OBJ_B");
        assert_eq!(is_removed, !is_lost, "{asked:?}");
        assert_eq!(said.contains("may be stored or not"), is_lost, "{said}");
    }
}
