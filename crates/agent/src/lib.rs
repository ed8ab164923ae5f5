//! The agent inside users' pods. Decides which command the arguments name; each command is a module.
//! Must not know Kubernetes: everything it needs comes as files and variables (`contract`). Only
//! `kubexec` talks to an API server.

mod attempt_mark;
mod beneath;
mod caller;
mod children;
mod connect;
mod daemon;
mod dial;
mod exec;
mod exit_info;
pub mod frame;
mod frame_stream;
mod gate;
mod home;
mod host_lists;
mod host_name;
mod hosts;
mod http;
mod identity;
mod install;
mod kubexec;
mod output;
mod poll;
mod rank;
mod ranks;
mod relay;
mod rsh;
mod s3;
mod serve;
mod session_record;
mod settings;
mod sidecar;
mod signals;
mod socket;
mod spawn_error;
pub mod ssh_args;
mod termination_log;
mod tree;
pub mod untrusted;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use contract::{commands, exit_code, files};

const USAGE: &str = "\
usage: muster-agent install DIR
       muster-agent serve [-- COMMAND…]
       muster-agent gate [--install DIR]
       muster-agent exec -- COMMAND…
       muster-agent rank PROGRAM…   (what daemons run in place of a rank's program)
       muster-agent sidecar OPTIONS…  (sidecar of a worker that ends by itself)
       muster-agent connect HOST PORT   (ProxyCommand of a real ssh)
       muster-agent rsh [OPTIONS] [USER@]HOST COMMAND…   (also when called as ssh, rsh, kubexec.sh)
       muster-agent kubexec POD COMMAND…   (through the API server)
       muster-agent version";

/// Runs the command that the arguments name. Returns the exit code of the process.
pub fn run(words: &[OsString]) -> u8 {
    let Some((program, rest)) = words.split_first() else {
        return usage();
    };
    let called_as = Path::new(program).file_name();
    if files::SHIM_NAMES
        .iter()
        .any(|name| called_as == Some(name.as_ref()))
    {
        return rsh::run(&bytes(rest));
    }
    let Some((command, rest)) = rest.split_first() else {
        return usage();
    };
    match command.to_str().unwrap_or_default() {
        "rsh" => rsh::run(&bytes(rest)),
        commands::KUBEXEC => kubexec::run(&bytes(rest)),
        commands::SERVE => concluded(serve::run(after_dashes(rest))),
        "rank" => concluded(rank::run(rest)),
        commands::EXEC => concluded(exec::run(after_dashes(rest))),
        commands::SIDECAR => concluded(sidecar::run(rest)),
        commands::CONNECT => concluded(connect::run(rest)),
        "as" => concluded(host_name::run(rest)),
        commands::GATE => match rest {
            [] => concluded(gate::run()),
            [option, directory] if option == commands::GATE_INSTALL => {
                concluded(install::run(Path::new(directory)).and_then(|()| gate::run()))
            }
            _ => usage(),
        },
        commands::INSTALL if rest.len() == 1 => {
            concluded(install::run(Path::new(&rest[0])).map(|()| 0))
        }
        "version" | "--version" => {
            println!("muster-agent {}", env!("CARGO_PKG_VERSION"));
            0
        }
        _ => usage(),
    }
}

fn usage() -> u8 {
    eprintln!("{USAGE}");
    exit_code::USAGE
}

fn concluded(result: anyhow::Result<u8>) -> u8 {
    result.unwrap_or_else(|error| {
        eprintln!("muster-agent: {error:#}");
        exit_code::USAGE
    })
}

fn after_dashes(words: &[OsString]) -> &[OsString] {
    match words {
        [dashes, rest @ ..] if dashes == "--" => rest,
        words => words,
    }
}

fn bytes(words: &[OsString]) -> Vec<Vec<u8>> {
    words.iter().cloned().map(OsString::into_vec).collect()
}
