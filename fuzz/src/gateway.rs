//! A server of another cluster that sends anything over a gateway, beside a client of this server
//! that behaves, through a broker without sockets.
//!
//! The first byte of the input chooses ([`GatewayHouse::new`]) who has dialled, whether there is a
//! password, and who is let in; and whether the handshake is done before the rest comes, which is
//! what the other side sends. Promised is what `link` promises, and more: before the other side is
//! let in it changes nothing and is told of no interest.
//!
//! A house is costly, so inputs share it, as in `session`.

mod house;

use crate::pieces::pieces;
use house::GatewayHouse;
use std::cell::RefCell;

/// Bits of the first byte that mean something.
const CHOICES: usize = 64;

thread_local! {
    static HOUSES: RefCell<[Option<GatewayHouse>; CHOICES]> =
        const { RefCell::new([const { None }; CHOICES]) };
}

/// Any bytes as what a server of another cluster sends, behind a byte that chooses the
/// configuration.
pub fn gateway(data: &[u8]) {
    let Some((&choice, sent)) = data.split_first() else { return };
    let choice = choice % CHOICES as u8;
    // Out of its place meanwhile: whoever panics leaves no house behind.
    let known = HOUSES.with_borrow_mut(|houses| houses[usize::from(choice)].take());
    let mut house = known.unwrap_or_else(|| GatewayHouse::new(choice));
    let whole = house.converse(std::iter::once(sent));
    let split = house.converse(pieces(sent));
    assert_eq!(whole, split, "in pieces");
    if !house.is_worn() {
        HOUSES.with_borrow_mut(|houses| houses[usize::from(choice)] = Some(house));
    }
}
