//! A Kubernetes small enough to hold in a value: an API with watches, patches and garbage
//! collection, a Job controller, a scheduler, and a kubelet as a state machine.
//!
//! Pure: no clock, no runtime, no randomness. Time and a seed are passed in; requests and answers
//! are HTTP messages as data; what must happen in the world is returned as [`kubelet::Order`]s.
//! It keeps nothing on disk, authenticates nobody, and routes no packets.
//!
//! ```
//! use minicluster::{Answer, Cluster, Config};
//!
//! let mut cluster = Cluster::new(Config::default());
//! let now = jiff::Timestamp::UNIX_EPOCH;
//! let request = http::Request::get("/api/v1/namespaces/default").body(Vec::new()).unwrap();
//! let Answer::Whole(answer) = cluster.handle(now, request) else { unreachable!() };
//! assert_eq!(answer.status(), 200);
//! ```

mod api;
mod apply;
mod builtin;
mod cluster;
mod conditions;
mod garbage;
mod jobs;
mod kinds;
pub mod kubelet;
mod names;
mod patch;
mod pod_ref;
mod resource;
mod scheduler;
mod schema;
mod seed;
mod server;
#[cfg(feature = "service")]
pub mod service;
mod status;
mod store;
mod value;

pub use api::watch::{Next, Watch};
pub use api::{Answer, LogQuery};
pub use cluster::Cluster;
pub use server::{Config, NodeConfig};
