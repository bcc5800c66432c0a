//! A meta group that has lost its majority: `$JS.API.META.RESCUE`, then `SERVER.REMOVE` of those
//! that are lost.

use std::time::{Duration, Instant};

use myelin_loadgen::admin::{answered, granted};
use myelin_loadgen::connection::Connection;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server::Target;
use serde_json::{Value, json};

use crate::cluster::{RecoverArguments, gather, is_wanted, listed};
use crate::screen::say;

/// How long those that are left may take to elect a leader.
const ELECTED_WITHIN: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// The meta group as the servers that answer see it.
struct MetaGroup {
    left: Vec<String>,
    lost: Vec<String>,
    leader: Option<String>,
}

/// Shows the plan, and has it done if that is wanted.
pub(super) fn recover(target: &Target, arguments: &RecoverArguments) -> Result<(), BenchError> {
    let mut connection = target.connect()?;
    let MetaGroup { left, lost, leader } = look(&mut connection, target)?;
    if left.is_empty() {
        let why = "no server of a meta group has answered: use a user of the system account";
        return Err(BenchError::Usage(why.into()));
    }
    let size = left.len() + lost.len();
    say(&format_args!(
        "Meta group of {size} servers\n\nLost:\n  {}\n\nLeft:\n  {}",
        lost.join(", "),
        left.join(", ")
    ));
    if let Some(leader) = leader {
        return Err(BenchError::Usage(format!("server {leader} leads it: there is nothing to recover")));
    }
    if left.len() * 2 > size {
        return Err(BenchError::Usage(
            "a majority is there, and elects a leader: there is nothing to recover".into(),
        ));
    }
    say(&format_args!(
        "\nWhat may be lost: what was decided last about streams (made, changed, removed, moved), if the lost servers \
         alone knew of it. Messages are not concerned, and streams that have lost their majority are recovered one by \
         one.\nWhat is done: for five minutes those that are left are enough, and the lost ones are removed from the \
         group. Two parts of a cluster that do not see each other must not both do this."
    ));
    if !is_wanted(arguments)? {
        return Ok(());
    }
    let mut connection = target.connect()?;
    let quorum = left.len() / 2 + 1;
    let body = json!({ "quorum_needed": quorum });
    for answer in gather(&mut connection, target, &format!("{}.META.RESCUE", target.api), &body)? {
        let server = answer["server"].as_str().unwrap_or_default().to_owned();
        match granted(&answer) {
            Ok(()) => say(&format_args!("{server}: {quorum} servers are enough")),
            Err(error) => say(&format_args!("{server}: {error}")),
        }
    }
    let deadline = Instant::now() + ELECTED_WITHIN;
    let leader = loop {
        match look(&mut connection, target)?.leader {
            Some(leader) => break leader,
            None if Instant::now() > deadline => {
                return Err(BenchError::Usage("they have elected no leader: look at their logs".into()));
            }
            None => std::thread::sleep(BETWEEN_LOOKS),
        }
    };
    say(&format_args!("{leader} leads"));
    for server in &lost {
        let subject = format!("{}.SERVER.REMOVE", target.api);
        let body = json!({ "peer": server }).to_string();
        let answer = connection.ask_within(&subject, "", body.as_bytes(), target.timeout)?;
        answered("SERVER.REMOVE", &answer.payload)?;
        say(&format_args!("{server} is removed"));
    }
    Ok(())
}

/// Asks all servers who is there.
fn look(connection: &mut Connection, target: &Target) -> Result<MetaGroup, BenchError> {
    let answers = gather(connection, target, "$SYS.REQ.SERVER.PING.JSZ", &json!({}))?;
    Ok(understood(&answers))
}

fn understood(answers: &[Value]) -> MetaGroup {
    let is_meta = |answer: &&Value| !answer["data"]["meta_cluster"].is_null();
    let all: Vec<&Value> = answers.iter().filter(is_meta).collect();
    let name = |answer: &Value| answer["server"]["name"].as_str().unwrap_or_default().to_owned();
    let mut left: Vec<String> = all.iter().map(|answer| name(answer)).collect();
    left.sort_unstable();
    let mut lost: Vec<String> =
        all.iter().flat_map(|answer| listed(&answer["data"]["meta_cluster"]["replicas"])).collect();
    lost.sort_unstable();
    lost.dedup();
    lost.retain(|server| !left.contains(server));
    let leader = |answer: &&Value| answer["data"]["meta_cluster"]["leader"].as_str().map(str::to_owned);
    let leader = all.iter().filter_map(leader).find(|leader| left.contains(leader));
    MetaGroup { left, lost, leader }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_lost() {
        let answer = |name: &str, replicas: &[&str], leader: Option<&str>| {
            let replicas: Vec<Value> = replicas.iter().map(|name| json!({ "name": name })).collect();
            json!({"server": {"name": name}, "data": {"meta_cluster": {"replicas": replicas, "leader": leader}}})
        };
        let all = [answer("b", &["a", "b", "c"], None), answer("a", &["a", "b", "c"], Some("c"))];
        let MetaGroup { left, lost, leader } = understood(&all);
        assert_eq!((left, lost, leader), (vec!["a".into(), "b".into()], vec!["c".into()], None));
        assert_eq!(understood(&[answer("a", &["b"], Some("a"))]).leader, Some("a".into()));
    }
}
