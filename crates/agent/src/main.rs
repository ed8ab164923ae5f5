//! `muster-agent`: see the library beside this file.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    ExitCode::from(agent::run(&words))
}
