//! Any bytes against the property of the same name.
#![no_main]

#[path = "../../tests/garbage/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::words(bytes));
