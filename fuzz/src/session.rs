//! A client that sends anything, beside one that behaves, through a broker without sockets.
//!
//! The first byte of the input chooses the house ([`house::House::new`]), the rest is what the
//! hostile client sends. Promised: nobody panics; what either client receives is well-formed
//! protocol, and the same for every way in which the bytes were split; the other client is still
//! served afterwards; when the hostile one is gone, no connection, no subscription, no answer that
//! is waited for and no byte of memory is left behind; no log line holds a line end.
//!
//! A house is costly, so inputs share it, with the client that behaves in it: that an input finds
//! everything as the one before did is [checked](house::House::check_empty) after each, and clocks
//! and numbers that go on change nothing that is compared. What is left is warm caches: a find that
//! does not come again alone needs those before it (libFuzzer's `-seed` repeats them).

mod frames;
mod house;
mod pipe;

use crate::pieces::pieces;
use frames::Heard;
use house::House;
use std::cell::RefCell;

/// Bits of the first byte that mean something.
const CHOICES: usize = 32;

thread_local! {
    static HOUSES: RefCell<[Option<House>; CHOICES]> = const { RefCell::new([const { None }; CHOICES]) };
}

/// Any bytes as what a client sends, behind a byte that chooses the server's configuration.
pub fn session(data: &[u8]) {
    let Some((&choice, sent)) = data.split_first() else { return };
    let choice = choice % CHOICES as u8;
    // Out of its place meanwhile: whoever panics leaves no house behind.
    let known = HOUSES.with_borrow_mut(|houses| houses[usize::from(choice)].take());
    let mut house = known.unwrap_or_else(|| House::new(choice));
    let whole = converse(&mut house, std::iter::once(sent));
    let split = converse(&mut house, pieces(sent));
    frames::assert_equal(&whole, &split);
    if house.is_worn() {
        house.close();
    } else {
        HOUSES.with_borrow_mut(|houses| houses[usize::from(choice)] = Some(house));
    }
}

fn converse<'a>(house: &mut House, sent: impl Iterator<Item = &'a [u8]>) -> Heard {
    house.begin();
    let hostile = house.enter();
    for piece in sent {
        house.send(hostile, piece);
    }
    house.time_passes(hostile);
    house.leave(hostile);
    house.check_service();
    let heard = house.heard(hostile);
    house.check_empty();
    house.clear();
    heard
}
