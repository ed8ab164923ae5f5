//! The images that the project ships: one static program each, in an otherwise empty root. Decides
//! how a program is linked and when it must be built again; must not know what it does.
//! `deploy/images` holds the same images as Dockerfiles, for those who have a builder and a registry.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::layers::workspace;
use crate::archive::{self, Config};
use crate::{cache, command};

const USER: &str = "65532:65532";
const STATIC: &str = "-C target-feature=+crt-static";

/// A program that is shipped as an image.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    package: &'static str,
    profile: &'static str,
    /// The crates that it is made of; changes elsewhere are no reason to build it again.
    crates: &'static [&'static str],
    /// Files of this machine that it reads there too, if they are here.
    files: &'static [&'static str],
}

pub(super) const OPERATOR: Program = Program {
    name: "muster-operator",
    package: "controller",
    profile: "release",
    crates: &["planner", "dialects", "controller"],
    files: &[],
};

pub(super) const AGENT: Program = Program {
    name: "muster-agent",
    package: "agent",
    profile: "agent",
    crates: &["agent"],
    // Authorities that S3 stores are trusted by.
    files: &["/etc/ssl/certs/ca-certificates.crt"],
};

/// The cached directory of the image; the program lies in it, for those who run it without a
/// container.
pub(super) fn image(program: &Program, reference: &str) -> Result<PathBuf> {
    let name = program.name;
    let config = Config {
        entrypoint: vec![format!("/{name}")],
        user: USER.to_owned(),
        workdir: "/".to_owned(),
        ..Config::default()
    };
    let mut inputs = vec![
        reference.as_bytes().to_owned(),
        format!("{config:?} {ARCH} {STATIC} {program:?}").into_bytes(),
    ];
    inputs.extend(sources(program)?);
    for file in present(program) {
        inputs.push(fs::read(file).with_context(|| format!("cannot read {file}"))?);
    }
    cache::keyed(
        &format!("image-{}", program.package),
        &inputs,
        |directory| {
            let built = build(program)?;
            let size = fs::metadata(&built)?.len() as f64 / 1e6;
            eprintln!("{name}: {size:.1} MB, static");
            let kept = directory.join(name);
            fs::copy(&built, &kept).with_context(|| format!("cannot copy {}", built.display()))?;
            let layer = directory.join("layer.tar");
            let files = present(program);
            let files = files
                .iter()
                .map(|file| (file.trim_start_matches('/'), Path::new(file), 0o644));
            let all: Vec<_> = [(name, kept.as_path(), 0o755)]
                .into_iter()
                .chain(files)
                .collect();
            archive::write_layer(&layer, &all)?;
            let layers = std::slice::from_ref(&layer);
            archive::write(&directory.join("image.tar"), reference, layers, &config)?;
            fs::remove_file(&layer)?;
            Ok(())
        },
    )
}

fn present(program: &Program) -> Vec<&'static str> {
    let files = program.files.iter().copied();
    files.filter(|file| Path::new(file).exists()).collect()
}

/// Names and contents of everything that the program is compiled from.
fn sources(program: &Program) -> Result<Vec<Vec<u8>>> {
    let mut files = vec![
        workspace().join("Cargo.lock"),
        workspace().join("Cargo.toml"),
        workspace().join("rust-toolchain.toml"),
    ];
    for name in program.crates {
        let package = workspace().join("crates").join(name);
        files.push(package.join("Cargo.toml"));
        collect(&package.join("src"), &mut files)?;
    }
    files.sort();
    let mut inputs = Vec::new();
    for path in files {
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(workspace()).unwrap_or(&path);
        inputs.extend([name.to_string_lossy().into_owned().into_bytes(), content]);
    }
    Ok(inputs)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = || format!("cannot read {}", directory.display());
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        if entry.file_type().with_context(unreadable)?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn build(program: &Program) -> Result<PathBuf> {
    let name = program.name;
    eprintln!("building {name}: a few minutes, unless it is nearly the same as last time");
    // Named explicitly, because only then do the flags not reach build scripts and macros, which
    // cannot be linked statically.
    let target = format!("{ARCH}-unknown-linux-gnu");
    let directory = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), PathBuf::from);
    command::run(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(workspace())
            .args(["build", "--quiet", "--locked"])
            .args(["--profile", program.profile])
            .args(["--package", program.package, "--bin", name])
            .args(["--target", &target, "--target-dir"])
            .arg(&directory)
            .env("RUSTFLAGS", STATIC),
    )?;
    Ok(directory.join(target).join(program.profile).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dockerfiles_describe_the_same_images() -> Result<()> {
        for Program {
            name,
            package,
            profile,
            ..
        } in [OPERATOR, AGENT]
        {
            let path = workspace().join(format!("deploy/images/{name}/Dockerfile"));
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
