//! `myelin consumer …`: consumers of a stream, and messages from them.
//!
//! Owns what is printed of consumers. `config` has the flags that say what a consumer is like,
//! `messages` takes what consumers deliver.

mod config;
mod messages;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use myelin_loadgen::admin::{self, Admin};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::token::unique;
use serde_json::{Value, json};

use crate::consumer::config::ConsumerSettings;
use crate::consumer::messages::{Next, Subscription};
use crate::screen::{confirm, show, show_json};
use crate::settings::{SettingFlags, agreed, in_file};
use crate::table::{Columns, ago, facts, limit, moment, number, period, size, text, texts};

/// `myelin consumer …`
#[derive(Args, Debug)]
pub(crate) struct ConsumerArguments {
    #[command(flatten)]
    flags: ConnectionFlags,
    #[command(subcommand)]
    verb: ConsumerVerb,
}

#[derive(Debug, Subcommand)]
enum ConsumerVerb {
    /// List the consumers of a stream
    #[command(visible_alias = "list")]
    Ls {
        stream: String,
        /// Names only
        #[arg(short, long)]
        names: bool,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Show one consumer
    Info {
        #[command(flatten)]
        which: Which,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Make a consumer
    #[command(visible_aliases = ["create", "new"])]
    Add(AddConsumer),
    /// Change the configuration of a consumer
    #[command(visible_alias = "update")]
    Edit(EditConsumer),
    /// Remove a consumer
    #[command(visible_aliases = ["delete", "del"])]
    Rm {
        #[command(flatten)]
        which: Which,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
    /// Take messages from a pull consumer
    Next(Next),
    /// Show messages as a consumer delivers them
    Sub(Subscription),
    /// Let a consumer deliver nothing until a moment
    Pause {
        #[command(flatten)]
        which: Which,
        /// How long, as in 1h, or a date and a time of day
        until: String,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
    /// End the pause of a consumer
    Resume {
        #[command(flatten)]
        which: Which,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
    /// Show how far the consumers of a stream are
    Report {
        stream: String,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
}

/// A consumer and its stream.
#[derive(Args, Debug)]
struct Which {
    stream: String,
    consumer: String,
}

/// `myelin consumer add`
#[derive(Args, Debug)]
struct AddConsumer {
    stream: String,
    /// Name; that of the file where there is none, and one made up with --ephemeral
    consumer: Option<String>,
    /// JSON file with the configuration, which the flags change
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Taken and not needed: a consumer without --target is pulled from
    #[arg(long, hide = true)]
    pull: bool,
    /// Let the server remove it when nobody uses it
    #[arg(long)]
    ephemeral: bool,
    /// Taken and not needed: nothing is asked
    #[arg(long, hide = true)]
    defaults: bool,
    /// Print the new consumer as JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<ConsumerSettings>,
}

/// `myelin consumer edit`
#[derive(Args, Debug)]
struct EditConsumer {
    #[command(flatten)]
    which: Which,
    /// JSON file with the configuration, instead of the one that it has; the flags change it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    force: bool,
    /// Show what would be different, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the changed consumer as JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<ConsumerSettings>,
}

pub(crate) fn run(arguments: &ConsumerArguments) -> Result<(), BenchError> {
    let verb = &arguments.verb;
    check(verb)?;
    let mut admin = Admin::open(&arguments.flags.target()?)?;
    match verb {
        ConsumerVerb::Ls { stream, names: true, json: false } => {
            show(&crate::table::names(&admin.consumers("NAMES", stream)?))
        }
        ConsumerVerb::Ls { stream, names: true, .. } => show_json(&admin.consumers("NAMES", stream)?.into()),
        ConsumerVerb::Ls { stream, json, .. } => listed(&admin.consumers("LIST", stream)?, *json, table),
        ConsumerVerb::Report { stream, json } => listed(&admin.consumers("LIST", stream)?, *json, report),
        ConsumerVerb::Info { which, json } => shown(&info(&mut admin, which)?, *json),
        ConsumerVerb::Add(wanted) => add(&mut admin, wanted),
        ConsumerVerb::Edit(wanted) => edit(&mut admin, wanted),
        ConsumerVerb::Rm { which, force } => {
            confirm(*force, &format!("Really remove consumer {} > {}?", which.stream, which.consumer))?;
            admin.delete_consumer(&which.stream, &which.consumer)
        }
        ConsumerVerb::Next(wanted) => messages::next(&mut admin, wanted),
        ConsumerVerb::Sub(wanted) => messages::subscribe(&mut admin, wanted),
        ConsumerVerb::Pause { which, until, force } => {
            let until = config::until(until)?;
            confirm(*force, &format!("Really pause consumer {} > {}?", which.stream, which.consumer))?;
            pause(&mut admin, which, &json!({ "pause_until": until }))
        }
        ConsumerVerb::Resume { which, force } => {
            confirm(*force, &format!("Really resume consumer {} > {}?", which.stream, which.consumer))?;
            pause(&mut admin, which, &json!({}))
        }
    }
}

/// Refuses names that would break a line before anything is sent.
fn check(verb: &ConsumerVerb) -> Result<(), BenchError> {
    let (stream, consumer) = match verb {
        ConsumerVerb::Ls { stream, .. } | ConsumerVerb::Report { stream, .. } => (stream, None),
        ConsumerVerb::Add(wanted) => (&wanted.stream, wanted.consumer.as_ref()),
        ConsumerVerb::Info { which, .. }
        | ConsumerVerb::Edit(EditConsumer { which, .. })
        | ConsumerVerb::Rm { which, .. }
        | ConsumerVerb::Next(Next { which, .. })
        | ConsumerVerb::Sub(Subscription { which, .. })
        | ConsumerVerb::Pause { which, .. }
        | ConsumerVerb::Resume { which, .. } => (&which.stream, Some(&which.consumer)),
    };
    names::stream(stream)?;
    consumer.map_or(Ok(()), |consumer| names::consumer(consumer))
}

fn info(admin: &mut Admin, which: &Which) -> Result<Value, BenchError> {
    admin.ask(&format!("CONSUMER.INFO.{}.{}", which.stream, which.consumer), &Value::Null)
}

fn listed(consumers: &[Value], is_json: bool, shown: impl Fn(&[Value]) -> String) -> Result<(), BenchError> {
    if is_json { show_json(&consumers.into()) } else { show(&shown(consumers)) }
}

fn shown(info: &Value, is_json: bool) -> Result<(), BenchError> {
    if is_json { show_json(info) } else { show(&description(info)) }
}

fn add(admin: &mut Admin, wanted: &AddConsumer) -> Result<(), BenchError> {
    let mut config = wanted.config.as_deref().map_or_else(|| Ok(json!({})), in_file)?;
    one_filter(&mut config, &wanted.settings);
    // As the nats command does: acknowledgements are for consumers that are pulled from.
    if config["ack_policy"].is_null() {
        let is_push = config["deliver_subject"].is_string();
        config["ack_policy"] = if is_push { "none" } else { "explicit" }.into();
    }
    let in_config = || text(&config[if config["name"].is_null() { "durable_name" } else { "name" }]);
    let name = match wanted.consumer.clone().unwrap_or_else(in_config) {
        name if name.is_empty() && wanted.ephemeral => unique(8),
        name => name,
    };
    names::consumer(&name)?;
    config["name"] = name.as_str().into();
    if !wanted.ephemeral {
        config["durable_name"] = name.as_str().into();
    }
    let (subject, body) = admin::create(&wanted.stream, &config, "create");
    let info = admin.ask(&subject, &body)?;
    shown(&info, wanted.json)
}

fn edit(admin: &mut Admin, wanted: &EditConsumer) -> Result<(), BenchError> {
    let Which { stream, consumer } = &wanted.which;
    let old = info(admin, &wanted.which)?["config"].clone();
    let mut config = wanted.config.as_deref().map_or_else(|| Ok(old.clone()), in_file)?;
    one_filter(&mut config, &wanted.settings);
    config["name"] = consumer.as_str().into();
    if agreed(&old, &config, wanted.force, wanted.dry_run)? {
        let (subject, body) = admin::create(stream, &config, "update");
        shown(&admin.ask(&subject, &body)?, wanted.json)?;
    }
    Ok(())
}

/// Applies the flags; a single filter has a place of its own, and either place excludes the other.
fn one_filter(config: &mut Value, settings: &SettingFlags<ConsumerSettings>) {
    settings.apply(config);
    let Some(fields) = config.as_object_mut().filter(|_| settings.sets("filter_subjects")) else { return };
    fields.remove("filter_subject");
    let filters = fields.get("filter_subjects").and_then(Value::as_array).cloned().unwrap_or_default();
    if let [only] = &filters[..] {
        fields.remove("filter_subjects");
        fields.insert("filter_subject".into(), only.clone());
    }
}

fn pause(admin: &mut Admin, which: &Which, body: &Value) -> Result<(), BenchError> {
    let Which { stream, consumer } = which;
    let answer = admin.ask(&format!("CONSUMER.PAUSE.{stream}.{consumer}"), body)?;
    let until = moment(&answer["pause_until"]);
    match answer["paused"] == true {
        true => show(&format!("Paused {stream} > {consumer} until {until}\n")),
        false => show(&format!("Consumer {stream} > {consumer} is not paused\n")),
    }
}

fn table(consumers: &[Value]) -> String {
    let mut columns = Columns::new(&[
        "Name",
        "Mode",
        "Ack Pending",
        "Unprocessed",
        "Last Delivery",
        "Created",
        "Description",
    ]);
    for info in consumers {
        columns.row([
            text(&info["name"]),
            mode(info).into(),
            number(&info["num_ack_pending"]),
            number(&info["num_pending"]),
            ago(&info["delivered"]["last_active"]),
            moment(&info["created"]),
            text(&info["config"]["description"]),
        ]);
    }
    columns.text_or("No consumers")
}

fn report(consumers: &[Value]) -> String {
    let mut columns = Columns::new(&[
        "Consumer",
        "Mode",
        "Ack Policy",
        "Ack Wait",
        "Ack Pending",
        "Redelivered",
        "Unprocessed",
        "Ack Floor",
        "Leader",
    ]);
    for info in consumers {
        let config = &info["config"];
        columns.row([
            text(&info["name"]),
            mode(info).into(),
            text(&config["ack_policy"]),
            period(&config["ack_wait"]),
            number(&info["num_ack_pending"]),
            number(&info["num_redelivered"]),
            number(&info["num_pending"]),
            number(&info["ack_floor"]["stream_seq"]),
            text(&info["cluster"]["leader"]),
        ]);
    }
    columns.text_or("No consumers")
}

fn mode(info: &Value) -> &'static str {
    if info["config"]["deliver_subject"].is_string() { "Push" } else { "Pull" }
}

fn description(info: &Value) -> String {
    let config = &info["config"];
    let filters = [text(&config["filter_subject"]), texts(&config["filter_subjects"])].concat();
    let paused = if info["paused"] == true { moment(&config["pause_until"]) } else { String::new() };
    let sequences = |what: &Value| {
        format!("consumer {}, stream {}", number(&what["consumer_seq"]), number(&what["stream_seq"]))
    };
    facts(&[
        ("Consumer", format!("{} > {}", text(&info["stream_name"]), text(&info["name"]))),
        ("Description", text(&config["description"])),
        ("Created", moment(&info["created"])),
        ("Mode", mode(info).into()),
        ("Delivers to", text(&config["deliver_subject"])),
        ("Queue group", text(&config["deliver_group"])),
        ("Filter", filters),
        ("Deliver policy", text(&config["deliver_policy"])),
        ("Acknowledgements", text(&config["ack_policy"])),
        ("Ack wait", period(&config["ack_wait"])),
        ("Replay", text(&config["replay_policy"])),
        ("Maximum deliveries", limit(&config["max_deliver"], number)),
        ("Maximum ack pending", limit(&config["max_ack_pending"], number)),
        (
            "Maximum pull bytes",
            config["max_bytes"].as_u64().map_or_else(String::new, |_| size(&config["max_bytes"])),
        ),
        ("Leader", text(&info["cluster"]["leader"])),
        ("Paused until", paused),
        ("Last delivered", sequences(&info["delivered"])),
        ("Ack floor", sequences(&info["ack_floor"])),
        ("Ack pending", number(&info["num_ack_pending"])),
        ("Redelivered", number(&info["num_redelivered"])),
        ("Unprocessed", number(&info["num_pending"])),
        ("Waiting pulls", number(&info["num_waiting"])),
    ])
}
