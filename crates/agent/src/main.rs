//! `muster-agent`: see the library beside this file.

fn main() {
    std::process::exit(2);
}
