//! The address by which a daemon connects back to its launcher. Hydra and Intel MPI pass the launcher's
//! host name, which workers may not be able to resolve. We pass the address of the connection that
//! carries the command instead. Must not know what else is in a command.

use std::net::IpAddr;

use contract::mpi::MpiLauncher;

/// The command with the address in place of the launcher's own name.
pub(super) fn by_address(command: &[u8], name: &str, address: IpAddr) -> Vec<u8> {
    // The colons of an IPv6 address could not be told from the one before the port.
    if name.is_empty() || !address.is_ipv4() {
        return command.to_vec();
    }
    let address = address.to_string().into_bytes();
    let mut words: Vec<Vec<u8>> = command
        .split(|byte| *byte == b' ')
        .map(<[u8]>::to_vec)
        .collect();
    for at in 1..words.len() {
        let port = words[at].strip_prefix(name.as_bytes());
        let port = port.filter(|rest| rest.is_empty() || rest.starts_with(b":"));
        let mut options = MpiLauncher::all().flat_map(|launcher| launcher.callback_options);
        if let Some(port) = port
            && options.any(|option| option.as_bytes() == words[at - 1])
        {
            words[at] = [&address[..], port].concat();
        }
    }
    words.join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(command: &str) -> String {
        let address = "10.0.0.7".parse().expect("an address");
        String::from_utf8(by_address(command.as_bytes(), "pi-launcher", address)).expect("text")
    }

    #[test]
    fn the_launcher_is_called_by_its_address() {
        assert_eq!(
            said("\"/usr/bin/hydra_pmi_proxy\" --control-port pi-launcher:40593 --rmk user"),
            "\"/usr/bin/hydra_pmi_proxy\" --control-port 10.0.0.7:40593 --rmk user"
        );
        assert_eq!(
            said("/i//hydra_bstrap_proxy --upstream-host pi-launcher --upstream-port 1"),
            "/i//hydra_bstrap_proxy --upstream-host 10.0.0.7 --upstream-port 1"
        );
    }

    #[test]
    fn whatever_else_a_command_says_stays() {
        for command in [
            "hostname",
            "echo  pi-launcher  two blanks ",
            "hydra_pmi_proxy --control-port pi-launcher-2:1",
            "hydra_pmi_proxy --control-port 10.1.1.1:1",
        ] {
            assert_eq!(said(command), command);
        }
        let v6 = "fd00::1".parse().expect("an address");
        let command = b"x --upstream-host pi-launcher";
        assert_eq!(by_address(command, "pi-launcher", v6), command);
    }
}
