//! Go programs of `e2e`, built from source. Decides how they are compiled and when again; which
//! versions they have is pinned in the `go.mod` and `go.sum` beside them, and nowhere else.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cache, command, root};

/// One Go module below `e2e`.
pub(crate) struct Module {
    /// Its directory, and the name of what is cached.
    pub(crate) name: &'static str,
    /// Its programs; each lies in the result under the last part of its path.
    pub(crate) programs: &'static [&'static str],
    /// Settings of variables at link time.
    pub(crate) ldflags: String,
    /// How many packages are compiled at once; the number of processors unless given.
    pub(crate) at_once: Option<&'static str>,
}

impl Module {
    pub(crate) fn directory(name: &str) -> PathBuf {
        root().join("e2e").join(name)
    }

    /// The cached directory of the programs. One build for all of them: they share most packages.
    pub(crate) fn built(&self) -> Result<PathBuf> {
        let directory = Self::directory(self.name);
        let ldflags = format!("-s -w {}", self.ldflags);
        let mut flags = vec!["-mod=readonly", "-trimpath", "-buildvcs=false"];
        flags.extend(["-ldflags", &ldflags]);
        let go = command::output(Command::new("go").arg("version"))
            .with_context(|| format!("Go 1.26 or newer builds e2e/{}", self.name))?;
        let mut inputs = vec![go.into_bytes(), flags.join(" ").into_bytes()];
        let mut sources = cache::files_below(&directory)?;
        let ends = ["go", "mod", "sum"].map(OsStr::new);
        sources.retain(|path| path.extension().is_some_and(|end| ends.contains(&end)));
        inputs.extend(cache::contents(sources)?);
        cache::keyed(self.name, &inputs, |out| {
            eprintln!("building e2e/{} from source", self.name);
            let mut build = Command::new("go");
            build.current_dir(&directory).env("CGO_ENABLED", "0");
            build.arg("build").args(&flags);
            if let Some(number) = self.at_once {
                build.args(["-p", number]);
            }
            // In the artefact's own directory, so that nothing is left elsewhere by a build that is
            // ended before its time.
            let scratch = out.join("scratch");
            fs::create_dir(&scratch)?;
            // With a slash at its end, it is a directory also for a single program.
            build.arg("-o").arg(out.join("")).args(self.programs);
            command::run(build.env("GOTMPDIR", &scratch))?;
            Ok(fs::remove_dir_all(&scratch)?)
        })
    }
}
