//! Any bytes against what must hold of the parser of this name.
#![no_main]

#[path = "../../tests/garbage/words.rs"]
mod words;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| words::check(bytes));
