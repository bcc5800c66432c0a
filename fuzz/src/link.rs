//! Another server that sends anything over a link, beside a client of this one that behaves,
//! through a broker and a mesh without sockets.
//!
//! The first byte of the input chooses ([`LinkHouse::new`]) who has dialled, whether there is a
//! pool and a password, compression, and a log of the protocol, whether the server takes part in
//! groups; and whether the handshake is done
//! before the rest comes, which is what the other side sends. Where compression was agreed on that
//! is a stream of S2.
//! Promised: nobody panics; the client and the other side hear the same for every way in which the
//! bytes were split, and the link ends alike; when it has ended, no link, no interest, no account
//! and no byte of memory is left behind; what it makes the server dial is bounded.
//!
//! A house is costly, so inputs share it, as in `session`.

mod house;

use crate::pieces::pieces;
use house::LinkHouse;
use std::cell::RefCell;

/// Bits of the first byte that mean something.
const CHOICES: usize = 128;

thread_local! {
    static HOUSES: RefCell<[Option<LinkHouse>; CHOICES]> =
        const { RefCell::new([const { None }; CHOICES]) };
}

/// Any bytes as what another server sends, behind a byte that chooses the configuration.
pub fn link(data: &[u8]) {
    let Some((&choice, sent)) = data.split_first() else { return };
    let choice = choice % CHOICES as u8;
    // Out of its place meanwhile: whoever panics leaves no house behind.
    let known = HOUSES.with_borrow_mut(|houses| houses[usize::from(choice)].take());
    let mut house = known.unwrap_or_else(|| LinkHouse::new(choice));
    let whole = house.converse(std::iter::once(sent));
    let split = house.converse(pieces(sent));
    assert_eq!(whole, split, "in pieces");
    if !house.is_worn() {
        HOUSES.with_borrow_mut(|houses| houses[usize::from(choice)] = Some(house));
    }
}
