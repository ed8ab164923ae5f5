//! The workers' names in /etc/hosts, for launchers that call a real ssh: no name is asked of DNS, and
//! none leads to the address of a worker that was replaced. `gate` writes the file, `hosts` renews
//! it when a container starts. Decides which lines are ours; must not know who reads them.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::hosts::{Host, HostsFile};
use crate::{contract, host_lists};

const BEGIN: &str = "# Workers of this MPI job, written by muster-agent";
const END: &str = "# End of the workers of this MPI job";
/// Another user rewrites it when the launcher's container starts.
const MODE: u32 = 0o666;

/// A file with the workers' lines in place of those that it had; all others stay.
fn with_workers(text: &str, workers: &[Host]) -> String {
    let mut lines = String::new();
    let mut ours = false;
    for line in text.lines() {
        match line {
            BEGIN => ours = true,
            END if ours => ours = false,
            _ if ours => {}
            line => {
                lines += line;
                lines.push('\n');
            }
        }
    }
    lines += &format!("{BEGIN}\n");
    for worker in workers {
        if let Ok(ip) = worker.ip() {
            let (name, short) = (&worker.name, worker.short_name());
            let short = if short == name { "" } else { short };
            lines += format!("{ip} {name} {short}").trim_end();
            lines.push('\n');
        }
    }
    lines + END + "\n"
}

/// For the gate: this container's file and the workers, where the operator wants it.
pub(crate) fn write_as_asked(workers: &[Host]) -> Result<()> {
    let Some(file) = contract::variable(contract::ETC_HOSTS) else {
        return Ok(());
    };
    let own = std::fs::read_to_string(contract::ETC_HOSTS_DEFAULT).unwrap_or_default();
    host_lists::write_whole(Path::new(&file), &with_workers(&own, workers), MODE)
}

/// `hosts -- COMMAND…`: renews the file, then becomes the command. Returns only if it cannot.
pub(crate) fn run(words: &[OsString]) -> Result<u8> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("hosts needs a command after --");
    };
    let file = contract::variable(contract::ETC_HOSTS);
    let file = file.unwrap_or_else(|| contract::ETC_HOSTS_DEFAULT.into());
    let workers = HostsFile::of_environment().read();
    if let Err(error) = renew(Path::new(&file), &workers) {
        eprintln!(
            "muster-agent: cannot write the workers' names to {file}: {error}; \
             they are looked up as they were before, or by DNS"
        );
    }
    let error = Command::new(program).args(arguments).exec();
    Ok(cannot_run(program, &error))
}

/// In place: the file is a mount of its own, which nothing can be renamed onto.
fn renew(file: &Path, workers: &[Host]) -> io::Result<()> {
    if workers.is_empty() {
        return Err(io::Error::other("no worker is listed"));
    }
    let mut open = OpenOptions::new().read(true).write(true).open(file)?;
    let mut text = String::new();
    open.read_to_string(&mut text)?;
    let renewed = with_workers(&text, workers);
    if renewed != text {
        open.rewind()?;
        open.write_all(renewed.as_bytes())?;
        let length = u64::try_from(renewed.len()).expect("a file in memory has a 64 bit length");
        open.set_len(length)?;
    }
    Ok(())
}

/// As a shell says it.
fn cannot_run(program: &OsStr, error: &io::Error) -> u8 {
    let program = program.to_string_lossy();
    let (exit, hint) = match error.kind() {
        io::ErrorKind::NotFound => (127, "is it in the image and on PATH?"),
        _ => (126, "is it a program that this user may run?"),
    };
    eprintln!("muster-agent: cannot run {program}: {error}; {hint}");
    exit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::parse;

    const OWN: &str = "127.0.0.1 localhost\n10.0.0.9 pi-launcher\n";

    #[test]
    fn the_workers_lines_are_replaced_and_all_others_stay() {
        let before = parse("w0.pi.ns.svc 10.0.0.1\nw1 10.0.0.2:7077\nw2 nowhere\n");
        let first = with_workers(OWN, &before);
        assert_eq!(
            first,
            format!("{OWN}{BEGIN}\n10.0.0.1 w0.pi.ns.svc w0\n10.0.0.2 w1\n{END}\n")
        );
        let added = format!("{first}10.0.0.8 added-by-the-user\n");
        let second = with_workers(&added, &parse("w0.pi.ns.svc 10.0.0.7\n"));
        assert_eq!(
            second,
            format!("{OWN}10.0.0.8 added-by-the-user\n{BEGIN}\n10.0.0.7 w0.pi.ns.svc w0\n{END}\n")
        );
        assert_eq!(
            with_workers(&second, &parse("w0.pi.ns.svc 10.0.0.7\n")),
            second
        );
    }

    #[test]
    fn the_file_stays_the_same_file() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hosts");
        std::fs::write(
            &file,
            with_workers(OWN, &parse("w0 10.0.0.1\nw1 10.0.0.2\n")),
        )
        .unwrap();
        let number = || std::fs::metadata(&file).unwrap().ino();
        let before = number();
        renew(&file, &parse("w0 10.0.0.3\n")).unwrap();
        assert_eq!(number(), before);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{OWN}{BEGIN}\n10.0.0.3 w0\n{END}\n"));
        assert!(renew(&file, &[]).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}
