//! Whether a worker is still there, asked once more when all that is known of it is that its shim was
//! killed. Must not know what follows from the answer.

use std::time::{Duration, Instant};

use crate::hosts::{self, HostsFile};
use crate::identity::Client;
use crate::{dial, settings};

/// One that lives answers within milliseconds, unless its node has too much to do.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether it says hello. Where it cannot be asked, nothing is held against it.
pub(super) fn answers(host: &str) -> bool {
    let list = HostsFile::of_environment().read();
    let (Ok(client), Ok(Some(host))) = (Client::new(), hosts::find(&list, host)) else {
        return true;
    };
    let Ok(address) = host.socket_address(settings::port()) else {
        return true;
    };
    dial::once(&client, &host.name, address, Instant::now() + PATIENCE).is_ok()
}
