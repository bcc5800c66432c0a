//! Rules for every file. Those without exceptions are assertions; the rest are lists that
//! may only shrink (`tidy/lists`): whoever mends something records the shorter list with
//! `MYELIN_RECORD=1 cargo test -p myelin-tidy`.

mod assertions;
mod circles;
mod floors;
mod hashed;
mod links;
mod paths;
mod sizes;
mod types;
mod words;
