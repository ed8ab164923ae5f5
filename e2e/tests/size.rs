//! Size, and tenants who mean harm: the operator within the memory that it is shipped with, against a
//! real API server and a kubelet without containers. These tests measure time and memory, so each has
//! the cluster to itself. `cargo xtask test --only size` starts all of it.

mod size {
    mod big_job;
    mod fixture;
    mod hostile_tenant;
    mod lost_worker;
    mod witness;
}
