//! Runs the body of the same name under libFuzzer, or over the files that are named.
#![cfg_attr(fuzzing, no_main)]

myelin_fuzz::target!(myelin_fuzz::store_pack);
