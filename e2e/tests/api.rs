//! The operator against a real API server, with the real Job controller and garbage collector and
//! no nodes: what pods do is said by the tests. `cargo xtask test --only api` starts all of it.

mod api {
    mod admission;
    mod bad_input;
    mod bdap;
    mod clients;
    mod crash;
    mod failover;
    mod fixture;
    mod flyte;
    mod foreign_bytes;
    mod gangs;
    mod idle;
    mod install;
    mod leaders;
    mod lifecycle;
    mod looks;
    mod metrics;
    mod milestones;
    mod network_policy;
    mod openmpi;
    mod overlays;
    mod own_namespace;
    mod peer_defects;
    mod prometheus;
    mod recovery;
    mod refusals;
    mod rights;
    mod suspended_often;
    mod suspension;
    mod t9k;
    mod takeover;
    mod template_policy;
    mod thrift;
    mod versions;
}
