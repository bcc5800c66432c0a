//! A stream whose group has lost its majority: `$JS.API.MYELIN.RECOVER`.

use myelin_loadgen::admin::{answered, granted};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server::Target;
use myelin_loadgen::units::grouped;
use serde_json::{Value, json};

use crate::cluster::{RecoverArguments, ago, gather, is_wanted, listed};
use crate::screen::{plain, say, show};

/// Shows the plan, and has it done if that is wanted.
pub(super) fn recover(target: &Target, arguments: &RecoverArguments, stream: &str) -> Result<(), BenchError> {
    let account = &arguments.account;
    let mut connection = target.connect()?;
    let subject = |action: &str| format!("{}.MYELIN.RECOVER.{action}", target.api);
    let order = json!({ "account": account, "stream": stream });
    let answers = gather(&mut connection, target, &subject("PLAN"), &order)?;
    answers.iter().try_for_each(granted)?;
    let Some(group) = answers.iter().map(|answer| &answer["group"]).find(|group| !group.is_null()) else {
        let why = "no meta leader has answered. Use a user of the system account; where the meta group has lost its \
                   majority, too, recover that first: `myelin cluster recover`";
        return Err(BenchError::Usage(why.into()));
    };
    if group["lacks_majority"] != true {
        let why = "a majority of its servers is there: there is nothing to recover";
        return Err(BenchError::Usage(why.into()));
    }
    show(&plain(&plan(account, stream, group, &answers)))?;
    if !is_wanted(arguments)? {
        return Ok(());
    }
    let mut connection = target.connect()?;
    let order = json!({
        "account": account, "stream": stream, "lost": listed(&group["lost"]), "plan": group["plan"],
    });
    let answer =
        connection.ask_within(&subject("STREAM"), "", order.to_string().as_bytes(), target.timeout)?;
    let done = answered("MYELIN.RECOVER.STREAM", &answer.payload)?;
    say(&format_args!(
        "\nDone: {account} > {stream} goes on with {}; it gets more replicas where servers are free. What the servers \
         that were given up have of it counts no more.",
        listed(&done["servers"]).join(", ")
    ));
    Ok(())
}

/// The plan for a person.
fn plan(account: &str, stream: &str, group: &Value, answers: &[Value]) -> String {
    let mut text = format!(
        "Stream {account} > {stream}, with replicas on {}\n\nLost:\n",
        listed(&group["voting"]).join(", ")
    );
    for lost in group["lost"].as_array().into_iter().flatten() {
        let name = lost["name"].as_str().unwrap_or_default();
        text += &format!("  {name}, last heard {}\n", ago(lost["seconds"].as_u64()));
    }
    text += "\nLeft:\n";
    let mut last = 0;
    for answer in answers.iter().filter(|answer| !answer["replica"].is_null()) {
        let (name, replica) = (answer["server"].as_str().unwrap_or_default(), &answer["replica"]);
        let number = |name: &str| replica[name].as_u64().unwrap_or_default();
        last = last.max(number("last_seq"));
        let damaged = if replica["damaged"] == true { ", DAMAGED: it lacks something" } else { "" };
        text += &format!(
            "  {name}: {} messages, to sequence {}; log to entry {} of term {}, {} known to be committed{damaged}\n",
            grouped(number("messages")),
            number("last_seq"),
            number("last_index"),
            number("term"),
            number("committed")
        );
    }
    text += &format!(
        "\nWhat may be lost: messages after sequence {last} that were acknowledged by the lost servers alone, and what \
         consumers did since; whether there are any cannot be known from here.\nWhat is done: those that are left are \
         the group from now on, with all that they have. A lost server that comes back later drops its replica and \
         gets a new one: copy its store_dir first if its messages may matter.\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_who_is_lost_and_what_is_left() {
        let group =
            json!({"voting": ["a", "b", "c"], "lost": [{"name": "a", "seconds": 130}, {"name": "c"}]});
        let replica = json!({"messages": 1200, "last_seq": 1500, "last_index": 9, "term": 2, "committed": 8});
        let text =
            plan("A", "S", &group, &[json!({"server": "b", "replica": replica}), json!({"group": group})]);
        for part in [
            "Stream A > S, with replicas on a, b, c",
            "  a, last heard 2 min ago\n",
            "  c, last heard before the leader's start\n",
            "  b: 1,200 messages, to sequence 1500; log to entry 9 of term 2, 8 known to be committed\n",
            "messages after sequence 1500 that were acknowledged by the lost servers alone",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
