//! The images that the project ships: one static program each, in an otherwise empty root. Decides
//! how a program is linked and when it must be built again; must not know what it does.
//! `deploy/images` holds the same images as Dockerfiles, for those who have a builder and a registry.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::archive::{self, Config};
use crate::platform::Platform;
use crate::{cache, command, root};

pub(crate) const USER: &str = "65532:65532";
const STATIC: &str = "-C target-feature=+crt-static";
/// What programs call the directory of cargo's registry.
const REGISTRY: &str = "/cargo";

/// A program that is shipped as an image.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    profile: &'static str,
    /// Files of this machine that it reads there too, if they are here.
    files: &'static [&'static str],
}

pub(super) const OPERATOR: Program = Program {
    name: "muster-operator",
    package: "controller",
    profile: "release",
    files: &[],
};

pub(super) const AGENT: Program = Program {
    name: "muster-agent",
    package: "agent",
    profile: "agent",
    // Authorities that S3 stores are trusted by.
    files: &["/etc/ssl/certs/ca-certificates.crt"],
};

/// The person's tool. No test needs its image.
const TOOL: Program = Program {
    name: "muster",
    package: "cli",
    profile: "release",
    files: &[],
};

/// What a release has.
pub(crate) const PROGRAMS: [Program; 3] = [OPERATOR, AGENT, TOOL];

/// The cached directory of the image, which may be called otherwise than its program; the program lies in it, for those who run it without a
/// container.
pub(super) fn image(called: &str, program: &Program, reference: &str) -> Result<PathBuf> {
    let name = program.name;
    let config = Config {
        user: USER.to_owned(),
        workdir: "/".to_owned(),
        ..Config::default()
    };
    let mut inputs = vec![
        reference.as_bytes().to_owned(),
        format!("{config:?} {ARCH} {STATIC} {REGISTRY} {program:?}").into_bytes(),
    ];
    inputs.extend(sources(program)?);
    for file in present(program) {
        inputs.push(fs::read(file).with_context(|| format!("cannot read {file}"))?);
    }
    let cached = format!("image-{}", called.replace(name, program.package));
    cache::keyed(&cached, &inputs, |directory| {
        let built = match called == name {
            true => {
                let cargo = command::cargo("build");
                build(cargo, program, Platform::here()?, &target_dir(), directory)?
            }
            false => super::ensure(&[name])?[0].with_file_name(name),
        };
        let size = fs::metadata(&built)?.len() as f64 / 1e6;
        eprintln!("{name}: {size:.1} MB, static");
        let kept = directory.join(name);
        fs::copy(&built, &kept).with_context(|| format!("cannot copy {}", built.display()))?;
        let mut files = vec![(name, kept.as_path(), 0o755)];
        let present = present(program);
        files.extend(
            present
                .iter()
                .map(|file| (file.trim_start_matches('/'), Path::new(file), 0o644)),
        );
        archive::write_program(directory, reference, &files, config)
    })
}

/// The files of the program's image, the program first: path in the image, file on this machine, mode. The
/// program is built by this call of cargo.
pub(crate) fn released(
    cargo: Command,
    program: &Program,
    platform: Platform,
    target_dir: &Path,
) -> Result<Vec<(String, PathBuf, u32)>> {
    let built = build(cargo, program, platform, target_dir, &std::env::temp_dir())?;
    let others = present(program).into_iter();
    let others = others.map(|file| (file.trim_start_matches('/').to_owned(), file.into(), 0o644));
    Ok([(program.name.to_owned(), built, 0o755)]
        .into_iter()
        .chain(others)
        .collect())
}

fn present(program: &Program) -> Vec<&'static str> {
    let files = program.files.iter().copied();
    files.filter(|file| Path::new(file).exists()).collect()
}

/// Names and contents of everything that the program is compiled from; changes elsewhere are no
/// reason to build it again.
fn sources(program: &Program) -> Result<Vec<Vec<u8>>> {
    let mut files = ["Cargo.lock", "Cargo.toml", "rust-toolchain.toml"]
        .map(|name| root().join(name))
        .to_vec();
    let mut crates = vec![program.package.to_owned()];
    let mut seen = 0;
    while let Some(name) = crates.get(seen).cloned() {
        seen += 1;
        let package = root().join("crates").join(name);
        let manifest = package.join("Cargo.toml");
        for used in ours_used_by(&fs::read_to_string(&manifest)?) {
            if !crates.contains(&used) {
                crates.push(used);
            }
        }
        files.push(manifest);
        files.extend(cache::files_below(&package.join("src"))?);
    }
    cache::contents(files)
}

/// The crates of this repository that a manifest names as dependencies of the product.
fn ours_used_by(manifest: &str) -> Vec<String> {
    let (_, rest) = manifest.split_once("[dependencies]\n").unwrap_or_default();
    let section = rest.split("\n[").next().unwrap_or_default();
    let names = section
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next());
    let is_ours = |name: &&str| !name.is_empty() && root().join("crates").join(name).is_dir();
    names.filter(is_ours).map(str::to_owned).collect()
}

/// Where cargo keeps what it built.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn build(
    mut cargo: Command,
    program: &Program,
    platform: Platform,
    directory: &Path,
    scratch: &Path,
) -> Result<PathBuf> {
    let name = program.name;
    eprintln!(
        "building {name} for {}: a few minutes, unless it is nearly the same as last time",
        platform.name()
    );
    // Named explicitly, because only then do the flags not reach build scripts and macros, which
    // cannot be linked statically.
    let target = platform.target();
    command::run(
        cargo
            .args(["--quiet", "--locked"])
            .args(["--profile", program.profile])
            .args(["--package", program.package, "--bin", name])
            .args(["--target", &target, "--target-dir"])
            .arg(directory)
            .env("CARGO_ENCODED_RUSTFLAGS", flags()?)
            .envs(platform.build_environment()?)
            .env("TMPDIR", scratch),
    )?;
    Ok(directory.join(target).join(program.profile).join(name))
}

/// For rustc. Programs name the sources of what they link, in messages of panics: without the home directory of
/// whoever builds them, they are the same everywhere.
fn flags() -> Result<String> {
    let home = std::env::home_dir().context("nobody's home: HOME is not set")?;
    let home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let remap = format!("--remap-path-prefix={}={REGISTRY}", home.display());
    let flags = STATIC.split(' ').chain([remap.as_str()]);
    Ok(flags.collect::<Vec<_>>().join("\x1f"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_is_made_of_the_crates_that_its_manifest_names() -> Result<()> {
        let inputs = sources(&OPERATOR)?;
        let has = |name: &str| inputs.iter().any(|input| input == name.as_bytes());
        assert!(has("crates/planner/src/lib.rs") && has("crates/dialects/src/lib.rs"));
        assert!(!has("crates/agent/src/lib.rs") && !has("crates/minicluster/src/lib.rs"));
        Ok(())
    }

    #[test]
    fn the_dockerfiles_describe_the_same_images() -> Result<()> {
        for Program {
            name,
            package,
            profile,
            ..
        } in PROGRAMS
        {
            let path = root().join(format!("deploy/images/{name}/Dockerfile"));
            let text = fs::read_to_string(path)?;
            let (_, last_stage) = text.rsplit_once("\nFROM ").context("no FROM")?;
            for line in [
                "scratch".to_owned(),
                format!("USER {USER}"),
                format!("ENTRYPOINT [\"/{name}\"]"),
            ] {
                assert!(last_stage.lines().any(|found| found == line), "{line}");
            }
            assert!(text.contains(&format!("RUSTFLAGS=\"{STATIC}\"")));
            assert!(text.contains(&format!("--profile {profile} --package {package}")));
        }
        Ok(())
    }
}
