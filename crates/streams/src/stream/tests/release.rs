//! Replies that are sent only when it is safe, and those in their place when it never will be.

use std::path::Path;
use std::sync::Arc;

use myelin_disk::faulty::{DiskFault, FaultyDisk};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Purge, Store, StoreOptions};

use super::{Bench, NOW, block, config, msg};
use crate::stream::append_run::{MsgDraft, MsgVerdict};
use crate::stream::{Effects, StreamCore, StreamSettings, storage_config};
use myelin_jsapi::config::{Republish, Retention, Storage, StreamConfig};
use myelin_wire::message_buf::MessageRef;

/// A stream that acknowledges what is synced, on a disk that can be told to fail.
fn synced(config: StreamConfig) -> (Bench, Store, FaultyDisk) {
    on_disk(config, StreamSettings { always_syncs: true, ..StreamSettings::default() })
}

/// A stream with this retention that nobody has an interest in.
pub(in crate::stream) fn on_synced_disk(retention: Retention) -> (Bench, Store) {
    let (bench, store, _) = synced(StreamConfig { retention, ..config() });
    (bench, store)
}

/// A stream in files.
pub(super) fn on_disk(config: StreamConfig, settings: StreamSettings) -> (Bench, Store, FaultyDisk) {
    on_disk_with(StoreOptions::new(Path::new("/store")), config, settings)
}

/// A stream in files of a store that is opened so.
pub(super) fn on_disk_with(
    options: StoreOptions,
    config: StreamConfig,
    settings: StreamSettings,
) -> (Bench, Store, FaultyDisk) {
    let config = StreamConfig { storage: Storage::File, ..config };
    let disk = FaultyDisk::new(1);
    let (store, _) = Store::open(Arc::new(disk.clone()), options, Arc::new(SeededEntropy::new(1)))
        .expect("the disk works");
    let storage_config = storage_config(&config, settings.always_syncs);
    let stream = store.create_stream("A", "S", b"", storage_config, NOW).expect("the disk works");
    let core = StreamCore::new(Arc::new(config), stream, settings, NOW);
    (Bench { core, now: NOW, effects: Effects::default() }, store, disk)
}

/// Gives out the first sequence, for a message that nobody wants: it waits, and later ones do not.
pub(super) fn has_begun(bench: &mut Bench, store: &Store) {
    bench.msgs(&[msg("b", "r")]);
    state_first_mark(bench, store);
    assert_eq!(bench.said().len(), 1);
}

/// Has the journal state how far the stream may come, for which its first messages wait.
pub(super) fn state_first_mark(bench: &mut Bench, store: &Store) {
    round(store);
    bench.core.released(&mut bench.effects);
}

fn round(store: &Store) {
    store.journal().round_now(&|| NOW as u64).expect("the disk works");
}

fn again() -> StreamConfig {
    let rule = Republish { source: ">".into(), destination: "again.>".into(), headers_only: true };
    StreamConfig { republish: Some(rule), ..config() }
}

fn fail_a_round(store: &Store, disk: &FaultyDisk) {
    disk.fail_at(disk.points(), DiskFault::Error(std::io::ErrorKind::Other));
    let mut points = 0;
    while store.journal().round_now(&|| NOW as u64).is_ok() && points < 10 {
        points += 1;
    }
}

#[test]
fn nothing_is_said_before_a_round() {
    let (mut bench, store, _disk) = synced(again());
    let headers = block(&["Nats-Msg-Id: one"]);
    let message = MessageRef { headers: headers.as_bytes(), ..msg("a", "r") };
    assert!(bench.msgs(&[message]).is_empty());
    // Compat: a duplicate of what is not safe is no answer either.
    assert!(bench.msgs(&[message]).is_empty());
    bench.core.released(&mut bench.effects);
    assert!(bench.said().is_empty());
    round(&store);
    bench.core.released(&mut bench.effects);
    let said = bench.said();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].starts_with("again.a "));
    assert_eq!(said[1..], [r#"r {"stream":"S","seq":1}"#, r#"r {"stream":"S","seq":1,"duplicate": true}"#]);
}

#[test]
fn what_waits_is_said_before_what_comes_later() {
    let (mut bench, store, _disk) = synced(config());
    assert!(bench.msgs(&[msg("a", "r1")]).is_empty());
    round(&store);
    // The round is over, and nobody has told the stream.
    assert_eq!(bench.msgs(&[msg("a", "r2")]), [r#"r1 {"stream":"S","seq":1}"#]);
    round(&store);
    bench.core.released(&mut bench.effects);
    assert_eq!(bench.said(), [r#"r2 {"stream":"S","seq":2}"#]);
}

#[test]
fn an_expectation_counts_what_is_not_safe_yet() {
    let (mut bench, store, _disk) = synced(config());
    let headers =
        block(&["Nats-Expected-Last-Subject-Sequence: 1", "Nats-Expected-Last-Subject-Sequence-Subject: *"]);
    bench.msgs(&[msg("a", ""), MessageRef { headers: headers.as_bytes(), ..msg("b", "r") }]);
    round(&store);
    bench.core.released(&mut bench.effects);
    assert_eq!(bench.said(), [r#"r {"stream":"S","seq":2}"#]);
}

#[test]
fn a_failed_sync_is_no_acknowledgement() {
    let (mut bench, store, disk) = synced(again());
    assert!(bench.msgs(&[msg("a", "r")]).is_empty());
    fail_a_round(&store, &disk);
    bench.core.released(&mut bench.effects);
    let failed = bench.effects.failed.clone().expect("the stream says that it failed");
    let said = bench.said();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(r#"r {"error":{"code":503,"err_code":10077,"#), "{said:?}");
    assert!(said[0].contains(&failed), "{said:?}");
    let said = bench.msgs(&[msg("a", "r"), msg("a", "")]);
    assert!(said.len() == 1 && said[0].contains("10077"), "{said:?}");
    assert_eq!(bench.core.drops(), [(10077, 1)]);
}

#[test]
fn a_full_disk_refuses_and_the_stream_goes_on() {
    let (mut bench, _store, disk) = synced(config());
    disk.set_capacity(Some(disk.used()));
    let payload = vec![b'x'; 4 << 20];
    let message = MessageRef { payload: &payload, ..msg("a", "r") };
    let said = bench.msgs(&[message, message, MessageRef { reply: b"", ..message }]);
    let refused = format!("r {}", super::error(503, 10023, "insufficient resources"));
    assert_eq!(said, [refused.clone(), refused]);
    assert_eq!((bench.core.drops(), bench.last()), (&[(10023, 1)][..], 0));
    disk.set_capacity(None);
    bench.msgs(&[message]);
    assert_eq!(bench.last(), 1);
}

#[test]
fn a_fast_batch_does_not_outlive_what_it_stored() {
    let (mut bench, store, disk) = synced(StreamConfig { allow_batched: true, ..config() });
    let members = ["_I.u.1.ok.1.0.$FI", "_I.u.1.ok.2.1.$FI"].map(|reply| msg("f", reply));
    assert!(bench.msgs(&members).is_empty());
    fail_a_round(&store, &disk);
    bench.core.released(&mut bench.effects);
    let said = bench.said();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(r#"_I.u.1.ok.2.1.$FI {"error":{"code":503,"err_code":10077,"#), "{said:?}");
    bench.core.reopen(&store, NOW, &mut |_, _| {}).expect("the disk works again");
    let unknown = super::error(400, 10208, "batch publish ID unknown");
    for reply in ["_I.u.1.ok.2.4.$FI", "_I.u.1.ok.3.2.$FI"] {
        assert_eq!(bench.msgs(&[msg("f", reply)]), [format!("{reply} {unknown}")]);
    }
}

#[test]
fn a_stream_that_is_opened_anew_leaves_everything_behind() {
    let (mut bench, store, disk) = synced(StreamConfig { allow_batched: true, ..config() });
    assert!(bench.msgs(&[msg("a", "r"), msg("f", "_I.u.1.ok.1.0.$FI")]).is_empty());
    bench.core.pending_purges.push_back(Purge::default());
    bench.core.run.push(0, MsgDraft::default(), MsgVerdict::Store);
    fail_a_round(&store, &disk);
    bench.core.reopen(&store, NOW, &mut |_, _| {}).expect("the disk works again");
    assert!(bench.core.pending_purges.is_empty() && bench.core.run.is_empty());
    bench.core.due(NOW, &mut bench.effects);
    let said = bench.said();
    assert!(said.len() == 2 && said.iter().all(|line| line.contains("10077")), "{said:?}");
    assert!(bench.msgs(&[msg("a", "r")]).is_empty());
    round(&store);
    bench.core.released(&mut bench.effects);
    assert_eq!(bench.said(), [format!(r#"r {{"stream":"S","seq":{}}}"#, bench.last())]);
}

#[test]
fn a_panic_fails_the_stream_and_who_waits_is_told() {
    let (mut bench, store, _disk) = synced(config());
    assert!(bench.msgs(&[msg("a", "r")]).is_empty());
    let slot = bench.core.ids.begin(b"one", NOW);
    bench.core.run.push(0, MsgDraft { id: slot, ..MsgDraft::default() }, MsgVerdict::Store);
    bench.core.panicked(&mut bench.effects);
    assert!(bench.effects.failed.is_some() && bench.core.run.is_empty());
    assert_eq!(bench.core.known_ids().count, 0);
    let said = bench.said();
    assert!(said.len() == 1 && said[0].starts_with("r ") && said[0].contains("10077"), "{said:?}");
    bench.core.reopen(&store, NOW, &mut |_, _| {}).expect("the disk works");
    bench.core.due(NOW, &mut bench.effects);
    assert!(bench.effects.failed.is_none());
}

#[test]
fn a_parcel_begins_with_nothing_of_another() {
    let mut bench = Bench::new(config());
    bench.core.run.push(0, MsgDraft::default(), MsgVerdict::Store);
    assert_eq!(bench.msgs(&[msg("a", "r")]), [r#"r {"stream":"S","seq":1}"#]);
}

/// Has the device refuse to read the messages of the stream, or read them again.
pub(super) fn refuse_reads(disk: &FaultyDisk, refuses: bool) {
    let segments = disk.files().into_keys().filter(|path| path.extension().is_some_and(|end| end == "seg"));
    for path in segments {
        disk.fail_reads(&path, 0..if refuses { u64::MAX } else { 0 }).expect("it is there");
    }
}

/// Opens a stream on a disk, whose device refuses to read its messages once it is open.
fn restart_unread(bench: Bench, store: &Store, disk: &FaultyDisk) -> Bench {
    let Bench { core, now, .. } = bench;
    let (config, id) = (Arc::clone(core.config()), core.store().id());
    drop(core);
    let stream = store.open_stream(id, storage_config(&config, false), now).expect("the disk works").0;
    refuse_reads(disk, true);
    let core = StreamCore::new(config, stream, StreamSettings::default(), now);
    Bench { core, now, effects: Effects::default() }
}

#[test]
fn what_a_device_refuses_to_read_at_a_start_is_not_taken_for_nothing() {
    let (mut bench, store, disk) = on_disk(super::schedules::scheduling(), StreamSettings::default());
    has_begun(&mut bench, &store);
    let id = ["Nats-Msg-Id: one"];
    bench.publish("t.x", &id, "x");
    super::schedules::plan(&mut bench, "s.a", "@at 2023-11-14T22:13:30Z", &[super::schedules::TO_A]);
    let mut bench = restart_unread(bench, &store, &disk);
    assert!(bench.core.store().failure().is_some_and(|why| why.contains("could not be read")));
    assert!(bench.publish("t.x", &id, "x").contains("error"), "nobody knows whether it is a duplicate");
    refuse_reads(&disk, false);
    bench.core.reopen(&store, bench.now, &mut |_, _| {}).expect("the disk works");
    assert!(bench.publish("t.x", &id, "x").contains(r#""duplicate": true"#));
    super::schedules::pass(&mut bench, NOW + 10 * super::schedules::SECOND);
    let last = bench.core.store().last_of(b"t.a").expect("it can be read");
    assert!(last.is_some(), "the schedule has fired");
}

#[test]
fn a_schedule_that_a_device_refuses_to_read_is_a_second_late() {
    let (mut bench, store, disk) = on_disk(super::schedules::scheduling(), StreamSettings::default());
    has_begun(&mut bench, &store);
    super::schedules::plan(&mut bench, "s.a", "@at 2023-11-14T22:13:30Z", &[super::schedules::TO_A]);
    refuse_reads(&disk, true);
    super::schedules::pass(&mut bench, NOW + 10 * super::schedules::SECOND);
    refuse_reads(&disk, false);
    assert_eq!(bench.core.store().last_of(b"t.a").expect("it can be read"), None);
    super::schedules::pass(&mut bench, NOW + 11 * super::schedules::SECOND);
    let last = bench.core.store().last_of(b"t.a").expect("it can be read");
    assert!(last.is_some(), "the schedule has fired");
}

#[test]
fn a_lifetime_that_a_device_refuses_to_read_is_looked_for_again() {
    let config = StreamConfig { allow_msg_ttl: true, ..config() };
    let (mut bench, store, disk) = on_disk(config, StreamSettings::default());
    has_begun(&mut bench, &store);
    // As in a copy, of which the log says nothing.
    let headers = block(&["Nats-TTL: 2"]);
    let message = myelin_store::NewMessage {
        subject: b"a",
        headers: headers.as_bytes(),
        timestamp: NOW,
        ..Default::default()
    };
    let mut outcomes = Vec::new();
    let granted = myelin_store::Admission::Granted;
    bench.core.store_mut().append(&[message], granted, NOW, &mut outcomes).expect("the disk works");
    let count = bench.core.state().totals.messages;
    bench.core.seek_lifetimes(u64::MAX, NOW);
    refuse_reads(&disk, true);
    bench.core.due(NOW, &mut bench.effects);
    refuse_reads(&disk, false);
    super::upkeep::pass(&mut bench, 10 * super::schedules::SECOND);
    super::upkeep::pass(&mut bench, 10 * super::schedules::SECOND);
    assert_eq!(bench.core.state().totals.messages, count - 1);
}
