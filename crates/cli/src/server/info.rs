//! `myelin server info`: what a server is, and how much it does.

use clap::Args;
use myelin_loadgen::error::BenchError;
use serde_json::{Value, json};

use crate::screen::{show, show_json};
use crate::server::pages::PageFlags;
use crate::table::{facts, moment, number, size, text};

/// `myelin server info`
#[derive(Args, Debug)]
pub(super) struct InfoArguments {
    #[command(flatten)]
    pages: PageFlags,
    /// Everything, as JSON
    #[arg(short, long)]
    json: bool,
}

pub(super) fn run(arguments: &InfoArguments) -> Result<(), BenchError> {
    let varz = arguments.pages.open()?.page("varz", &json!({}))?;
    if arguments.json { show_json(&varz) } else { show(&description(&varz)) }
}

fn description(varz: &Value) -> String {
    let yes = |value: &Value| if *value == true { "yes" } else { "no" }.to_owned();
    let both = |first: String, second: String| format!("{first} in, {second} out");
    let (stats, config) = (&varz["jetstream"]["stats"], &varz["jetstream"]["config"]);
    let streams = |value: String| if stats.is_object() { value } else { String::new() };
    facts(&[
        ("Server", called(&text(&varz["server_name"]), &text(&varz["server_id"]))),
        ("Version", format!("{}, {}", text(&varz["version"]), text(&varz["go"]))),
        ("Started", format!("{}, {} ago", moment(&varz["start"]), text(&varz["uptime"]))),
        ("Configuration loaded", moment(&varz["config_load_time"])),
        ("Configuration digest", text(&varz["config_digest"])),
        ("Listens", format!("{}:{}", text(&varz["host"]), text(&varz["port"]))),
        ("Authentication", yes(&varz["auth_required"])),
        ("TLS", yes(&varz["tls_required"])),
        ("Cluster", text(&varz["cluster"]["name"])),
        ("Processors", format!("{}, {}% busy", number(&varz["cores"]), varz["cpu"])),
        ("Memory", size(&varz["mem"])),
        (
            "Connections",
            format!("{}, {} until now", number(&varz["connections"]), number(&varz["total_connections"])),
        ),
        ("Routes", number(&varz["routes"])),
        ("Leaf nodes", number(&varz["leafnodes"])),
        ("Subscriptions", number(&varz["subscriptions"])),
        ("Messages", both(number(&varz["in_msgs"]), number(&varz["out_msgs"]))),
        ("Bytes", both(size(&varz["in_bytes"]), size(&varz["out_bytes"]))),
        ("Slow consumers", number(&varz["slow_consumers"])),
        ("Stale connections", number(&varz["stale_connections"])),
        ("Maximum payload", size(&varz["max_payload"])),
        ("JetStream", streams(format!("in {}", text(&config["store_dir"])))),
        (
            "Memory of streams",
            streams(format!("{} of {}", size(&stats["memory"]), size(&config["max_memory"]))),
        ),
        (
            "Files of streams",
            streams(format!("{} of {}", size(&stats["storage"]), size(&config["max_storage"]))),
        ),
        (
            "Requests to the API",
            streams(format!(
                "{}, {} failed",
                number(&stats["api"]["total"]),
                number(&stats["api"]["errors"])
            )),
        ),
    ])
}

/// Name of the server with its id; a server that nobody has named has the id for a name.
fn called(name: &str, id: &str) -> String {
    if name == id { id.to_owned() } else { format!("{name} ({id})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_name_is_called_by_its_id_once() {
        assert_eq!([called("n1", "NABC"), called("NABC", "NABC")], ["n1 (NABC)", "NABC"]);
    }
}
