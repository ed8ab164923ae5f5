//! The coverage-guided fuzzer: any bytes against the target that the variable names.
#![no_main]

use std::sync::LazyLock;

use fuzz::Target;

/// Which target runs.
static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var(fuzz::TARGET_VARIABLE).unwrap_or_default();
    fuzz::target_of(&name).unwrap_or_else(|| panic!("there is no target {name:?}"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.check)(bytes));
