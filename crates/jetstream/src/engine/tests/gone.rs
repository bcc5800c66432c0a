//! Accounts, streams and readers that are gone leave nothing behind that stays.

use super::house::{House, copy, source, stream};
use myelin_jsapi::config::AccountLimits;
use std::sync::Arc;

#[test]
fn an_account_that_is_gone_is_let_go_of_unless_it_has_streams() {
    let mut house = House::new();
    house.create(stream("S"));
    let names = |house: &House| -> Vec<String> {
        let accounts = house.jetstream.accounts();
        accounts.iter().map(|account| account.account().name().to_owned()).collect()
    };
    let before = names(&house);
    let other = Arc::clone(&house.other);
    for limits in [None, Some(AccountLimits::default())] {
        house.jetstream.enable(&other, limits).expect("it is promised nothing");
        assert!(names(&house).contains(&"OTHER".to_owned()));
        house.jetstream.disable("OTHER");
        assert_eq!(names(&house), before);
    }
    house.jetstream.disable("$G");
    assert_eq!(names(&house), before, "it has a stream");
    let account = Arc::clone(&house.account);
    house.jetstream.enable(&account, Some(AccountLimits::default())).expect("it is promised nothing");
    house.publish("S.a");
    assert_eq!(house.contents("S"), (1, 1));
}

#[test]
fn an_account_at_which_somebody_is_at_work_goes_with_the_next() {
    let house = House::new();
    let other = Arc::clone(&house.other);
    house.jetstream.enable(&other, Some(AccountLimits::default())).expect("it is promised nothing");
    let at_work = house.jetstream.account("OTHER");
    house.jetstream.disable("OTHER");
    assert!(at_work.is_some() && house.jetstream.account("OTHER").is_some());
    drop(at_work);
    house.jetstream.disable("NOBODY");
    assert!(house.jetstream.account("OTHER").is_none());
}

#[test]
fn copies_that_come_and_go_leave_nothing_at_a_quiet_origin() {
    let mut house = House::new();
    house.create(stream("QUIET"));
    for _ in 0..20 {
        house.create(copy("COPY", &[source("QUIET", "")]));
        house.pass(1_000_000_000);
        house.delete("COPY");
        house.settle();
    }
    let waiting = house.stream("QUIET").downstreams().waiting();
    assert!(waiting <= 2, "{waiting} wait");
}
