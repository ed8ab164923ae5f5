//! Entry of `muster`, and of `kubectl-mpi`, which is the same binary under another name.

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os().collect())
}
