//! The real binary against itself on this machine: keys of a made-up job, `serve` on a
//! loopback address, `rsh` as launchers call it.

#[path = "loopback/attempts.rs"]
mod attempts;
#[path = "loopback/gates.rs"]
mod gates;
#[path = "loopback/hostile.rs"]
mod hostile;
#[path = "loopback/launch_ways.rs"]
mod launch_ways;
#[path = "loopback/launches.rs"]
mod launches;
#[path = "loopback/leaving.rs"]
mod leaving;
#[path = "loopback/ranks.rs"]
mod ranks;
#[path = "loopback/raw_tls.rs"]
mod raw_tls;
#[path = "loopback/restarts.rs"]
mod restarts;
#[path = "loopback/sessions.rs"]
mod sessions;
#[path = "loopback/trees.rs"]
mod trees;
#[path = "loopback/world.rs"]
mod world;
