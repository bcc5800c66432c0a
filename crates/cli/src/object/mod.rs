//! `myelin object …`: buckets of objects, as ADR-20 keeps them in streams.
//!
//! Owns what is printed. `bucket` has their records, `content` moves their bytes,
//! `settings` are what a bucket may be like.

mod bucket;
mod content;
mod settings;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use myelin_loadgen::admin::Admin;
use myelin_loadgen::client_pool::message_writer::header_lines;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::token::unique;
use myelin_loadgen::units::{Bytes, binary, human_time};
use serde_json::{Value, json};

use crate::buckets::{self, check_bucket};
use crate::object::bucket::{ObjectBucket, ObjectRecord, Unrecorded};
use crate::object::content::{NewFile, StoredContent, file_name};
use crate::object::settings::ObjectSettings;
use crate::progress_bar::ProgressBar;
use crate::screen::{confirm, one_line, show, show_json};
use crate::settings::SettingFlags;
use crate::table::{Columns, ago, facts, limit, local, moment, number, period, size, text};

/// Bytes of a piece where nothing else is said.
const CHUNK: u64 = 128 * 1024;

/// `myelin object …`
#[derive(Args, Debug)]
pub(crate) struct ObjectArguments {
    #[command(flatten)]
    flags: ConnectionFlags,
    #[command(subcommand)]
    verb: ObjectVerb,
}

#[derive(Debug, Subcommand)]
enum ObjectVerb {
    /// List buckets, or the objects of one
    #[command(visible_alias = "list")]
    Ls {
        bucket: Option<String>,
        /// Names only
        #[arg(short, long)]
        names: bool,
        /// As JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Make a bucket
    Add {
        bucket: String,
        #[command(flatten)]
        settings: SettingFlags<ObjectSettings>,
    },
    /// Show a bucket or an object
    #[command(visible_aliases = ["show", "i"])]
    Info {
        bucket: String,
        object: Option<String>,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Store a file, or what the standard input has
    Put(PutObject),
    /// Write an object to a file
    Get(GetObject),
    /// Remove an object or a bucket
    #[command(name = "del", visible_alias = "rm")]
    Rm {
        bucket: String,
        object: Option<String>,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
    /// Show what the bucket has, and what becomes of it
    Watch {
        bucket: String,
        /// End after so many lines
        #[arg(long)]
        count: Option<u64>,
    },
}

/// `myelin object put`
#[derive(Args, Debug)]
struct PutObject {
    bucket: String,
    /// File; the standard input where there is none
    #[arg(required_unless_present = "name")]
    file: Option<PathBuf>,
    /// Name of the object [default: that of the file]
    #[arg(long)]
    name: Option<String>,
    /// Description of the object
    #[arg(long)]
    description: Option<String>,
    /// Header line, K:V
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// Bytes of its pieces [default: 128KiB]
    #[arg(long, value_name = "BYTES")]
    chunk_size: Option<Bytes>,
    #[command(flatten)]
    bar: BarFlags,
    /// Do not ask whether an object may be replaced
    #[arg(short, long)]
    force: bool,
}

/// `myelin object get`
#[derive(Args, Debug)]
struct GetObject {
    bucket: String,
    object: String,
    /// File to write, - for the standard output [default: the object's name, in this folder]
    #[arg(short = 'O', long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    bar: BarFlags,
    /// Do not ask whether a file may be replaced
    #[arg(short, long)]
    force: bool,
}

/// Whether a bar shows how far it is.
#[derive(Args, Debug)]
struct BarFlags {
    #[arg(long, hide = true, overrides_with = "no_progress")]
    progress: bool,
    /// Show no bar
    #[arg(long, overrides_with = "progress")]
    no_progress: bool,
}

pub(crate) fn run(arguments: &ObjectArguments) -> Result<(), BenchError> {
    let verb = &arguments.verb;
    match verb {
        ObjectVerb::Ls { bucket, .. } => bucket.as_deref().map_or(Ok(()), check_bucket)?,
        ObjectVerb::Add { bucket, .. }
        | ObjectVerb::Info { bucket, .. }
        | ObjectVerb::Put(PutObject { bucket, .. })
        | ObjectVerb::Get(GetObject { bucket, .. })
        | ObjectVerb::Rm { bucket, .. }
        | ObjectVerb::Watch { bucket, .. } => check_bucket(bucket)?,
    }
    let mut admin = Admin::open(&arguments.flags.target()?)?;
    let admin = &mut admin;
    match verb {
        ObjectVerb::Ls { bucket: None, names, json } => buckets(admin, *names, *json),
        ObjectVerb::Ls { bucket: Some(bucket), names, json } => objects(admin, bucket, *names, *json),
        ObjectVerb::Add { bucket, settings } => {
            admin.create_stream(&settings::stream(bucket, settings))?;
            shown(&ObjectBucket::open(admin, bucket)?, false)
        }
        ObjectVerb::Info { bucket, object: None, json } => shown(&ObjectBucket::open(admin, bucket)?, *json),
        ObjectVerb::Info { bucket, object: Some(object), json } => {
            let bucket = ObjectBucket::open(admin, bucket)?;
            let record = there(admin, &bucket, object)?;
            if *json { show_json(&record.value) } else { show(&description(&bucket.name, &record)) }
        }
        ObjectVerb::Put(wanted) => put(admin, wanted),
        ObjectVerb::Get(wanted) => get(admin, wanted),
        ObjectVerb::Rm { bucket, object: None, force } => {
            confirm(*force, &format!("Really remove bucket {bucket} with all its objects?"))?;
            admin.delete_stream(&format!("OBJ_{bucket}"))
        }
        ObjectVerb::Rm { bucket, object: Some(object), force } => {
            confirm(*force, &format!("Really remove object {bucket} > {}?", one_line(object)))?;
            remove(admin, bucket, object)
        }
        ObjectVerb::Watch { bucket, count } => watch(admin, bucket, *count),
    }
}

fn there(admin: &mut Admin, bucket: &ObjectBucket, object: &str) -> Result<ObjectRecord, BenchError> {
    let found = bucket.find(admin, object)?.filter(ObjectRecord::is_there);
    found.ok_or_else(|| BenchError::Usage("object not found".into()))
}

fn put(admin: &mut Admin, wanted: &PutObject) -> Result<(), BenchError> {
    let bucket = ObjectBucket::open(admin, &wanted.bucket)?;
    let of_file = wanted.file.as_deref().map(|file| file.display().to_string());
    let name = wanted.name.clone().or(of_file).unwrap_or_default();
    if name.is_empty() {
        return Err(BenchError::Usage("the object needs a name".into()));
    }
    let before = bucket.find(admin, &name)?.filter(ObjectRecord::is_there);
    if before.is_some() {
        confirm(wanted.force, &format!("Replace object {} > {}?", bucket.name, one_line(&name)))?;
    }
    let (mut input, length) = opened(wanted.file.as_deref())?;
    let mut bar = ProgressBar::new(length, !wanted.bar.no_progress);
    let largest = admin.connection().max_payload() as u64;
    let chunk = wanted.chunk_size.map_or(CHUNK, |Bytes(chunk)| chunk).min(largest);
    let id = unique(22);
    let stored = content::store(admin, &bucket.content(&id), &mut *input, chunk as usize, &mut bar);
    drop(bar);
    let record = stored.and_then(|stored| recorded(wanted, &name, &id, chunk, &stored));
    let record = record.map_err(Unrecorded::Refused);
    let record = match record.and_then(|record| bucket.publish(admin, &record).map(|()| record)) {
        Ok(record) => record,
        Err(Unrecorded::Refused(error)) => {
            // What nobody knows of would stay for ever; the error is what is to be told.
            let _ = bucket.remove_content(admin, &id);
            return Err(error);
        }
        Err(Unrecorded::Unknown(error)) => {
            let former = before.as_ref().and_then(|before| before.id().ok()).map(|id| bucket.content(id));
            return Err(unknown(&error, &bucket.stream, &bucket.content(&id), former.as_deref()));
        }
    };
    if let Some(before) = before {
        bucket.remove_content(admin, before.id()?)?;
    }
    show(&description(&bucket.name, &ObjectRecord { value: record, stored: jiff::Timestamp::now() }))
}

/// Error where nobody knows whether an object is stored: which content is to be removed then, the
/// new one or that of the object before it.
fn unknown(error: &BenchError, stream: &str, content: &str, former: Option<&str>) -> BenchError {
    let purge = |content| format!("`myelin stream purge {stream} --subject {content}`");
    let former = former.map_or_else(String::new, |former| {
        format!("; if it is, {} removes that of the object before", purge(former))
    });
    BenchError::Usage(format!(
        "{error}\nThe object may be stored or not: look with `myelin object info`. If it is not, {} removes \
         its content{former}",
        purge(content)
    ))
}

/// The file, or the standard input, and how long it is as far as that is known.
fn opened(file: Option<&Path>) -> Result<(Box<dyn Read>, Option<u64>), BenchError> {
    let Some(file) = file.filter(|file| *file != Path::new("-")) else {
        return Ok((Box::new(std::io::stdin()), None));
    };
    let file = File::open(file).map_err(BenchError::io("opening the file"))?;
    let length = file.metadata().map_err(BenchError::io("opening the file"))?.len();
    Ok((Box::new(file), Some(length)))
}

/// Record of a new object.
fn recorded(
    wanted: &PutObject,
    name: &str,
    id: &str,
    chunk: u64,
    stored: &StoredContent,
) -> Result<Value, BenchError> {
    let mut record = json!({
        "name": name, "bucket": wanted.bucket, "nuid": id, "size": stored.size,
        "mtime": jiff::Timestamp::now().to_string(), "chunks": stored.chunks, "digest": stored.digest,
        "options": { "max_chunk_size": chunk },
    });
    if let Some(description) = &wanted.description {
        record["description"] = description.as_str().into();
    }
    for line in header_lines(&wanted.headers)?.lines() {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        let values = &mut record["headers"][key];
        match values.as_array_mut() {
            Some(values) => values.push(value.into()),
            None => *values = json!([value]),
        }
    }
    Ok(record)
}

fn get(admin: &mut Admin, wanted: &GetObject) -> Result<(), BenchError> {
    let bucket = ObjectBucket::open(admin, &wanted.bucket)?;
    let record = there(admin, &bucket, &wanted.object)?;
    let link = &record.value["options"]["link"];
    if link.is_object() {
        let (to, name) = (text(&link["bucket"]), text(&link["name"]));
        return Err(BenchError::Usage(format!("it is a link to {to} > {name}")));
    }
    let mut bar = ProgressBar::new(record.value["size"].as_u64(), !wanted.bar.no_progress);
    let began = Instant::now();
    if wanted.output.as_deref() == Some(Path::new("-")) {
        return content::read(admin, &bucket, &record, &mut std::io::stdout(), &mut bar).map(drop);
    }
    let path = wanted.output.clone().map_or_else(|| file_name(&wanted.object), Ok)?;
    let shown = one_line(&path.display().to_string());
    if path.exists() {
        confirm(wanted.force, &format!("Replace file {shown}?"))?;
    }
    let mut new = NewFile::beside(&path)?;
    let bytes = content::read(admin, &bucket, &record, new.file(), &mut bar)?;
    new.keep(&path)?;
    drop(bar);
    show(&format!("Wrote {} to {shown} in {}\n", binary(bytes as f64), human_time(began.elapsed())))
}

fn remove(admin: &mut Admin, bucket: &str, object: &str) -> Result<(), BenchError> {
    let bucket = ObjectBucket::open(admin, bucket)?;
    let mut record = there(admin, &bucket, object)?;
    let id = record.id()?.to_owned();
    for (key, value) in
        [("size", json!(0)), ("chunks", json!(0)), ("digest", json!("")), ("deleted", json!(true))]
    {
        record.value[key] = value;
    }
    bucket.publish(admin, &record.value)?;
    bucket.remove_content(admin, &id)?;
    show(&format!("Removed {} > {}\n", bucket.name, one_line(object)))
}

fn watch(admin: &mut Admin, bucket: &str, count: Option<u64>) -> Result<(), BenchError> {
    let bucket = ObjectBucket::open(admin, bucket)?;
    let mut reader = bucket.reader(admin, &bucket.all_records())?;
    for _ in 0..count.unwrap_or(u64::MAX) {
        let Some(pulled) = reader.next(None)? else { break };
        let record = ObjectRecord::of(pulled)?;
        let head = format!("{} > {}", bucket.name, one_line(&record.name()));
        let (size, chunks) = (size(&record.value["size"]), number(&record.value["chunks"]));
        let time = local(record.stored);
        match record.is_there() {
            true => show(&format!("[{time}] PUT {head}: {size} in {chunks} chunks\n"))?,
            false => show(&format!("[{time}] DEL {head}\n"))?,
        }
    }
    reader.end()
}

fn objects(admin: &mut Admin, bucket: &str, is_names: bool, is_json: bool) -> Result<(), BenchError> {
    let bucket = ObjectBucket::open(admin, bucket)?;
    let mut records = bucket.records(admin)?;
    records.retain(ObjectRecord::is_there);
    records.sort_by_key(ObjectRecord::name);
    if is_json {
        return show_json(&records.into_iter().map(|record| record.value).collect());
    }
    if is_names {
        return show(&crate::table::names(
            &records.iter().map(|record| record.name().into()).collect::<Vec<_>>(),
        ));
    }
    let mut columns = Columns::new(&["Name", "Size", "Time", "Description"]);
    for record in records {
        let value = &record.value;
        columns.row([record.name(), size(&value["size"]), local(record.stored), text(&value["description"])]);
    }
    show(&columns.text_or("No objects"))
}

/// Names of the objects of a bucket.
pub(crate) fn names(admin: &mut Admin, bucket: &str) -> Result<Vec<String>, BenchError> {
    let records = ObjectBucket::open(admin, bucket)?.records(admin)?;
    Ok(records.iter().filter(|record| record.is_there()).map(ObjectRecord::name).collect())
}

fn buckets(admin: &mut Admin, is_names: bool, is_json: bool) -> Result<(), BenchError> {
    let headings = ["Bucket", "Created", "Size", "Last Update", "Description"];
    buckets::list(admin, "OBJ_", (is_names, is_json), &headings, |name, info| {
        let (state, description) = (&info["state"], text(&info["config"]["description"]));
        [name, moment(&info["created"]), size(&state["bytes"]), ago(&state["last_ts"]), description]
    })
}

fn shown(bucket: &ObjectBucket, is_json: bool) -> Result<(), BenchError> {
    let info = &bucket.info;
    if is_json {
        return show_json(info);
    }
    let (config, state) = (&info["config"], &info["state"]);
    show(&facts(&[
        ("Bucket", bucket.name.clone()),
        ("Description", text(&config["description"])),
        ("Created", moment(&info["created"])),
        ("Size", size(&state["bytes"])),
        ("Maximum size", limit(&config["max_bytes"], size)),
        ("Maximum age", limit(&config["max_age"], period)),
        ("Sealed", text(&config["sealed"])),
        ("Storage", text(&config["storage"])),
        ("Compression", text(&config["compression"])),
        ("Replicas", number(&config["num_replicas"])),
        ("Stream", bucket.stream.clone()),
        ("Leader", text(&info["cluster"]["leader"])),
    ]))
}

fn description(bucket: &str, record: &ObjectRecord) -> String {
    let value = &record.value;
    let header = |(key, values): (&String, &Value)| format!("{key}: {}", crate::table::texts(values));
    let headers: Vec<String> = value["headers"].as_object().into_iter().flatten().map(header).collect();
    facts(&[
        ("Object", format!("{bucket} > {}", record.name())),
        ("Description", text(&value["description"])),
        ("Headers", headers.join("; ")),
        ("Size", size(&value["size"])),
        ("Stored", local(record.stored)),
        ("Chunks", number(&value["chunks"])),
        ("Digest", text(&value["digest"])),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_know_what_is_stored_is_told_which_content_to_remove() {
        let said = |former| unknown(&BenchError::Usage("no answer".into()), "OBJ_B", "$O.B.C.new", former);
        let new = "no answer\nThe object may be stored or not: look with `myelin object info`. If it is not, \
            `myelin stream purge OBJ_B --subject $O.B.C.new` removes its content";
        assert_eq!(said(None).to_string(), new);
        let both =
            "; if it is, `myelin stream purge OBJ_B --subject $O.B.C.old` removes that of the object before";
        assert_eq!(said(Some("$O.B.C.old")).to_string(), format!("{new}{both}"));
    }
}
