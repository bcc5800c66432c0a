//! Accounts that are promised more than the server has, streams that nobody can open, and
//! consumers whose end the disk does not take.

use super::house::{House, stream};
use crate::engine::ServerLimits;
use crate::engine::host::Host;
use myelin_disk::faulty::{DiskFault, FaultyDisk};
use myelin_jsapi::config::AccountLimits;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageBuf;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Waker};

#[test]
fn an_account_keeps_its_limits_until_there_is_room_for_more() {
    let house = House::new();
    let (jetstream, account) = (&house.jetstream, &house.account);
    let server = jetstream.limits();
    let [memory, files] = [server.max_memory, server.max_store].map(super::super::saturated);
    let wanted = |max_memory, max_storage| AccountLimits { max_memory, max_storage, ..Default::default() };
    let code = |limits| jetstream.enable(account, Some(limits)).map_err(|error| error.err_code);
    assert_eq!(code(wanted(memory, files)), Ok(()));
    assert_eq!(code(wanted(memory + 1, 0)), Err(10_028));
    assert_eq!(code(wanted(1, files + 1)), Err(10_047));
    assert_eq!(house.streams().limits(), Some(wanted(memory, files)));
    // What it has counts once, and less is always granted.
    assert_eq!(code(wanted(memory, files)), Ok(()));
    assert_eq!(code(wanted(memory - 5, files)), Ok(()));
    assert_eq!(code(wanted(memory, files + 1)), Err(10_047));
    jetstream.enable_refused();
    assert_eq!(house.streams().limits(), Some(wanted(memory - 5, files)));
    jetstream.set_limits(ServerLimits { max_store: server.max_store + 1, ..ServerLimits::clone(&server) });
    jetstream.enable_refused();
    assert_eq!(house.streams().limits(), Some(wanted(memory, files + 1)));
}

#[test]
fn what_streams_have_reserved_is_not_promised_again() {
    let mut house = House::new();
    let files = super::super::saturated(house.jetstream.limits().max_store);
    let mut config = stream("S");
    config.max_bytes = files - 10;
    house.create(config);
    let account = house.account.clone();
    let enable = |max_storage| {
        let limits = AccountLimits { max_storage, ..AccountLimits::default() };
        house.jetstream.enable(&account, Some(limits)).map_err(|error| error.err_code)
    };
    assert_eq!((enable(11), enable(10)), (Err(10_047), Ok(())));
}

#[test]
fn a_purge_takes_streams_that_cannot_be_opened() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    house.create(stream("T"));
    let id = house.stream("S").lock_core().expect("it is there").parts().0.store().id();
    house.jetstream.store.write_blob(id, b"no configuration").expect("the disk works");
    drop(house);
    let disk = disk.kill();
    let mut house = House::on(&disk);
    assert_eq!(house.streams().unrestored(), ["S"]);
    house.streams().delete_unrestored(&house.jetstream).expect("the disk works");
    assert!(house.streams().unrestored().is_empty());
    house.create(stream("S"));
    drop(house);
    let house = House::on(&disk.kill());
    let names: Vec<_> = house.streams().streams().iter().map(|live| live.name().to_owned()).collect();
    assert_eq!((names, house.streams().unrestored()), (vec!["S".to_owned(), "T".to_owned()], vec![]));
}

/// A consumer `C` ends while the disk has a fault. Answers whether its end was said to be written,
/// and the consumers that the next process finds.
fn end_with(fault: DiskFault) -> (bool, Vec<String>) {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    let [c, d] = ["C", "D"].map(|name| ConsumerConfig {
        durable_name: name.into(),
        name: name.into(),
        ack_policy: AckPolicy::Explicit,
        ..ConsumerConfig::default()
    });
    house.consume("S", c);
    house.consume("S", d);
    house.settle();
    let consumers = Arc::clone(house.stream("S").consumers());
    disk.fail_at(disk.points(), fault);
    let live = consumers.find("C").expect("it is there");
    let is_written = consumers.delete_and_wait(&live, &mut MessageBuf::default()).is_ok();
    drop((house, consumers, live));
    let found = House::on(&disk.kill()).consumers("S");
    (is_written, found)
}

#[test]
fn a_consumer_whose_end_is_not_written_is_not_said_to_be_gone() {
    let failed = ErrorKind::Other;
    assert_eq!(end_with(DiskFault::Error(failed)), (true, vec!["D".to_owned()]), "the second time it is");
    // A write that fails may have been done.
    let (is_written, _) = end_with(DiskFault::ErrorsFrom(failed));
    assert!(!is_written, "a disk that takes nothing");
}

/// Deletes a stream whose consumers' log the last round could not make durable, with an error at so
/// many points of the disk ahead, and makes others durable when its files are gone and the call has
/// not gone on. `None`: the round has lost no file.
fn settle_amid_deletion(points: u64) -> Option<io::Result<()>> {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.create(stream("S"));
    let durable = ConsumerConfig { durable_name: "C".into(), name: "C".into(), ..ConsumerConfig::default() };
    house.consume("S", durable);
    house.publish("S.a");
    house.listen("inbox");
    house.say("$JS.API.CONSUMER.MSG.NEXT.S.C", "inbox", "");
    house.flush();
    disk.fail_at(disk.points() + points, DiskFault::Error(ErrorKind::Other));
    let now = house.host.now().unsigned_abs();
    let is_healthy = house.jetstream.journal().round_now(&|| now).is_ok();
    if !is_healthy || house.jetstream.journal().failed_files() == 0 {
        return None;
    }
    let (streams, live) = (house.streams(), house.stream("S"));
    house.host.has_sync_thread.store(true, Relaxed);
    let mut out = MessageBuf::default();
    let mut deletion = pin!(streams.delete(&house.jetstream, &live, &mut out));
    assert!(deletion.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let end_stream = lock(&house.host.syncs).pop_front().expect("the disk is waited for");
    end_stream();
    assert_eq!((live.is_gone(), streams.streams().len()), (true, 1), "it leaves the table later");
    Some(house.jetstream.settle())
}

#[test]
fn a_log_of_consumers_that_goes_with_its_stream_keeps_nothing_from_being_durable() {
    let outcomes: Vec<_> = (0..40).filter_map(settle_amid_deletion).collect();
    assert!(!outcomes.is_empty(), "there is a point at which a round loses a file");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}
