//! The soak in short: two minutes, or as long as `MYELIN_RANDOM_SECONDS` says. At 0 it is left out.
//! Its first line has the seed.

use myelin_compat::implementation;
use myelin_soak::{Plan, fresh_seed, run};
use std::time::Duration;

const SECONDS: u64 = 120;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_grows_in_two_minutes() {
    let seconds = std::env::var("MYELIN_RANDOM_SECONDS").ok().and_then(|text| text.parse().ok());
    if seconds == Some(0) {
        return println!("left out: MYELIN_RANDOM_SECONDS is 0");
    }
    let plan = Plan {
        server: implementation::myelin().expect("cargo builds it").program,
        duration: Duration::from_secs(seconds.unwrap_or(SECONDS)),
        visitors: 10,
        rate: 300,
        seed: fresh_seed(),
        only: None,
    };
    let verdict = run(&plan, |line| println!("{line}")).await.expect("the server starts");
    assert!(verdict.is_good(), "{verdict}");
}
