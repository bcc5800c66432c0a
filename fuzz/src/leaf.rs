//! A leaf node, or a hub, that sends anything over a link, beside a client of this server that
//! behaves, through a broker without sockets.
//!
//! The first byte of the input chooses ([`LeafHouse::new`]) who has dialled, who is the hub, logins
//! and permissions, compression; and whether the handshake is done before the rest comes, which is
//! what the other side sends. Promised is what `link` promises, and more: before its credentials
//! are checked, or its hub has answered, the other side changes nothing and is told of no interest.
//!
//! A house is costly, so inputs share it, as in `session`.

mod house;

use crate::pieces::pieces;
use house::LeafHouse;
use std::cell::RefCell;

/// Bits of the first byte that mean something.
const CHOICES: usize = 128;

thread_local! {
    static HOUSES: RefCell<[Option<LeafHouse>; CHOICES]> =
        const { RefCell::new([const { None }; CHOICES]) };
}

/// Any bytes as what a leaf node or a hub sends, behind a byte that chooses the configuration.
pub fn leaf(data: &[u8]) {
    let Some((&choice, sent)) = data.split_first() else { return };
    let choice = choice % CHOICES as u8;
    // Out of its place meanwhile: whoever panics leaves no house behind.
    let known = HOUSES.with_borrow_mut(|houses| houses[usize::from(choice)].take());
    let mut house = known.unwrap_or_else(|| LeafHouse::new(choice));
    let whole = house.converse(std::iter::once(sent));
    let split = house.converse(pieces(sent));
    assert_eq!(whole, split, "in pieces");
    if !house.is_worn() {
        HOUSES.with_borrow_mut(|houses| houses[usize::from(choice)] = Some(house));
    }
}
