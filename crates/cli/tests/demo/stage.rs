//! Where `make demo` is tried: a user, a home, a directory of temporary files, a path to programs
//! that may lack an MPI, and a copy of what cargo has built. Knows nothing of what is shown.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::geteuid;

use crate::world::{Ended, World, ended_within};

/// Longer than a build takes where something was not built yet, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(1200);
const NOBODY: u32 = 65_534;
const SYSTEM: &str = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One at a time: each is a build of its own.
static TURN: Mutex<()> = Mutex::new(());

/// Takes what nobody can reach out of closed directories, in mounts of its own, and puts it back
/// where it was in open ones. Arguments: an empty directory, the places, `--`, a command.
const OPEN: &str = r#"
set -e
stash=$1; shift
as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
count=0
for place do
  [ "$place" != -- ] || break
  count=$((count + 1))
  mkdir "$stash/$count"
  mount --bind "$place" "$stash/$count"
done
count=0
while [ "$1" != -- ]; do
  place=$1; shift
  count=$((count + 1))
  $as_nobody test -x "$place" && continue
  parent=$place
  while ! $as_nobody test -x "$(dirname "$parent")"; do parent=$(dirname "$parent"); done
  [ -d "$parent" ] && [ "$parent" != "$place" ] && mount -t tmpfs -o mode=755 none "$parent"
  mkdir -p "$place"
  mount --bind "$stash/$count" "$place"
done
shift
exec $as_nobody "$@"
"#;

/// Says that no package is installed; then makes mpirun appear when that is asked for.
const APT_GET: &str = r#"#!/bin/sh
echo "$@" >>"$(dirname "$0")/../said"
case " $* " in
*" install "*" openmpi-bin "*) ln -s /usr/bin/mpirun "$(dirname "$0")/mpirun" ;;
esac
"#;
const DPKG_QUERY: &str = "#!/bin/sh\nexit 1\n";
const SUDO: &str = "#!/bin/sh\n[ \"$1\" = -n ] && shift\nexec \"$@\"\n";

/// Who runs it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    Own,
    /// Somebody who is not root.
    Nobody,
}

pub(crate) struct Stage {
    world: World,
    user: User,
    path: String,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    pub(crate) fn new(name: &str, user: User) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let world = World::new(name);
        for directory in ["home", "tmp", "stash", "bin"] {
            fs::create_dir(world.directory.join(directory)).unwrap();
        }
        copy_target(&world.directory.join("target"));
        if is_other(user) {
            let owned = ["chown", "65534:65534", "{}", "+"];
            run(Command::new("find")
                .arg(&world.directory)
                .args(["-type", "d", "-exec"])
                .args(owned));
            let files = [".fingerprint", "build"].map(|part| format!("target/debug/{part}"));
            run(Command::new("chown")
                .args(["-R", "65534:65534"])
                .args(files)
                .current_dir(&world.directory));
            chown(
                world.directory.join("target/debug/.cargo-lock"),
                Some(NOBODY),
                Some(NOBODY),
            )
            .unwrap();
        }
        let cargo = std::env::var("CARGO").expect("cargo runs its tests with this");
        let toolchain = Path::new(&cargo).parent().unwrap();
        Self {
            world,
            user,
            path: format!("{}:{SYSTEM}", toolchain.display()),
            _turn: turn,
        }
    }

    /// As on a machine without any MPI, and without rights.
    pub(crate) fn without_mpi(mut self) -> Self {
        let bin = self.world.directory.join("bin");
        for entry in fs::read_dir("/usr/bin").unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let hidden = ["mpirun", "mpiexec", "apt-get", "dpkg-query", "sudo"];
            if !hidden.iter().any(|hidden| name.starts_with(hidden)) {
                symlink(entry.path(), bin.join(name)).unwrap();
            }
        }
        let toolchain = self.path.split(':').next().unwrap();
        self.path = format!("{toolchain}:{}:/usr/sbin", bin.display());
        self
    }

    /// With tools that pretend to install packages, and write down what they were asked for.
    pub(crate) fn with_package_tools(self) -> Self {
        for (name, text) in [
            ("apt-get", APT_GET),
            ("dpkg-query", DPKG_QUERY),
            ("sudo", SUDO),
        ] {
            let path = self.world.directory.join("bin").join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        self
    }

    pub(crate) fn said_to_apt(&self) -> String {
        fs::read_to_string(self.world.directory.join("said")).unwrap_or_default()
    }

    /// Runs it to its end.
    pub(crate) fn make_demo(&self) -> Ended {
        ended_within(PATIENCE, self.command())
    }

    /// Starts it in a process group of its own.
    pub(crate) fn start_demo(&self) -> Child {
        let mut command = self.command();
        command.stderr(Stdio::null()).process_group(0);
        command.spawn().unwrap()
    }

    fn command(&self) -> Command {
        let repository = repository();
        let (cargo_home, rustup_home) =
            (home("CARGO_HOME", ".cargo"), home("RUSTUP_HOME", ".rustup"));
        let mut command = if is_other(self.user) {
            let mut command = Command::new("unshare");
            command
                .args(["--mount", "sh", "-c", OPEN, "sh"])
                .arg(self.world.directory.join("stash"))
                .args([&repository, &cargo_home, &rustup_home])
                .args(["--", "make"]);
            command
        } else {
            Command::new("make")
        };
        command
            .arg("--no-print-directory")
            .arg("-C")
            .arg(&repository)
            .arg("demo");
        self.world.surround(&mut command);
        command
            .env_remove("MUSTER_STATE_DIR")
            .env("PATH", &self.path)
            .env("HOME", self.world.directory.join("home"))
            .env("TMPDIR", self.world.directory.join("tmp"))
            .env("CARGO_TARGET_DIR", self.world.directory.join("target"))
            .env("CARGO_HOME", cargo_home)
            .env("RUSTUP_HOME", rustup_home)
            .env("CARGO_NET_OFFLINE", "true");
        command
    }

    /// No process, no file and no mount is left.
    pub(crate) fn is_tidy(&self) {
        let processes = self.world.processes();
        assert!(processes.is_empty(), "{processes:?}");
        for place in ["home", "tmp"] {
            let left = fs::read_dir(self.world.directory.join(place)).unwrap();
            let left: Vec<PathBuf> = left.map(|entry| entry.unwrap().path()).collect();
            assert!(left.is_empty(), "{left:?}");
        }
        assert_eq!(crate::world::mounts_below(&self.world.directory), 0);
    }
}

/// Whether it takes root to be this user.
fn is_other(user: User) -> bool {
    user == User::Nobody && geteuid().is_root()
}

fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    own.canonicalize().unwrap()
}

fn home(variable: &str, name: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(path) => path.into(),
        None => std::env::home_dir().unwrap().join(name),
    }
}

/// What cargo built, so that it finds nothing to do. What it writes to in place is copied; the rest
/// is large, and linked.
fn copy_target(to: &Path) {
    let profile = Path::new(env!("CARGO_BIN_EXE_muster")).parent().unwrap();
    let debug = to.join("debug");
    fs::create_dir_all(&debug).unwrap();
    for part in [".fingerprint", "build"] {
        run(Command::new("cp")
            .arg("-a")
            .arg(profile.join(part))
            .arg(&debug));
    }
    let linked = |from: &Path| {
        let links = Command::new("cp")
            .arg("-al")
            .arg(from)
            .arg(&debug)
            .output()
            .unwrap();
        // Another file system has no links to this one.
        if !links.status.success() {
            run(Command::new("cp").arg("-a").arg(from).arg(&debug));
        }
    };
    linked(&profile.join("deps"));
    for program in ["muster", "muster-agent", "xtask"] {
        if profile.join(program).exists() {
            linked(&profile.join(program));
        }
    }
    // Compilers write these in place, and cargo has notes of its own of what they say.
    let notes = ["-name", "*.d", "-delete"];
    run(Command::new("find").arg(debug.join("deps")).args(notes));
    fs::write(debug.join(".cargo-lock"), "").unwrap();
    // As the Makefile notes whose it is.
    fs::write(to.join("clone"), format!("{}\n", repository().display())).unwrap();
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
