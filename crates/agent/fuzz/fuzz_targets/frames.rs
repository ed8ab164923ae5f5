//! Any bytes against what must hold of the parser of this name.
#![no_main]

#[path = "../../tests/garbage/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frames::check(bytes));
