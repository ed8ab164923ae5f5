//! Which commands are an MPI launcher's own daemon on a host. What such a session says about the
//! job is reliable; any other command (a test of Horovod's, a copy, `hostname`) says nothing.

use contract::mpi::MpiLauncher;

/// The daemon that a shell text starts, if it starts one.
pub(crate) fn in_command(command: &[u8]) -> Option<&'static str> {
    let between = |byte: &u8| b" ;\"'/()\t\n".contains(byte);
    let mut daemons = command.split(between).filter_map(|word| {
        let mut known = MpiLauncher::all().flat_map(|launcher| launcher.daemons);
        known.find(|name| name.as_bytes() == word)
    });
    daemons.next().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_are_found_in_what_launchers_write() {
        let cases: [(&str, Option<&str>); 6] = [
            (" orted -mca ess \"env\"", Some("orted")),
            ("A=/x;export A;/opt/ompi5/bin/prted --x", Some("prted")),
            ("\"/usr/bin/hydra_pmi_proxy\" --y", Some("hydra_pmi_proxy")),
            (
                "/o//hydra_bstrap_proxy --x /o//hydra_pmi_proxy",
                Some("hydra_bstrap_proxy"),
            ),
            ("hostname -I", None),
            ("echo imported", None),
        ];
        for (command, daemon) in cases {
            assert_eq!(in_command(command.as_bytes()), daemon, "{command}");
        }
    }
}
