//! Everything that a release has, in one directory with checksums: programs, images, manifests, the chart,
//! completions, manual pages, a bill of materials. Decides which files there are and what they are called, and that
//! the same sources give the same bytes. Publishes nothing.

mod auditable;
mod oci;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::images::{self, PROGRAMS, Program};
use crate::platform::Platform;
use crate::{cache, command, root};

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to put it; what is there is removed
    #[arg(long, default_value = "dist")]
    out: PathBuf,
    /// Where the files will be served, for the manifest of kubectl's plugin manager krew; without it there is none
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The processors to build for; one must be this machine's
    #[arg(long, value_delimiter = ',', default_value = "amd64,arm64")]
    platforms: Vec<Platform>,
    /// Build all programs again, from nothing, and fail unless they are the same
    #[arg(long)]
    twice: bool,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TOOL: &str = "muster";
/// What completions are written for.
const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];
/// All of them make an archive the same, whoever makes it and when.
const SAME: [&str; 6] = [
    "--sort=name",
    "--mtime=@0",
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--mode=u+rw,go+r-w,a+X",
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let here = Platform::here()?;
    let has_here = args.platforms.contains(&here);
    ensure!(
        has_here,
        "--platforms must have {}: the command-line tool writes its own manual pages",
        here.name()
    );
    for platform in &args.platforms {
        platform.prepare()?;
    }
    let out = std::path::absolute(&args.out)?;
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    programs(&out, &args.platforms)?;
    if args.twice {
        assert_same_again(&out, &args.platforms)?;
    }
    let tools = pack_tools(&out, &args.platforms)?;
    manifests(&out)?;
    for program in &PROGRAMS {
        let bill = sbom::of(program.package, program.name)?;
        fs::write(
            out.join(format!("{}-{VERSION}.cdx.json", program.name)),
            bill,
        )?;
    }
    match &args.url {
        Some(url) => krew(&out, &tools, url)?,
        None => eprintln!("no manifest for krew: --url says where the files will be"),
    }
    checksums(&out)
}

/// Where a program lies in the release. The tool goes into an archive of its own in the end.
fn kept(out: &Path, name: &str, platform: Platform) -> PathBuf {
    let platform = platform.name();
    match name == TOOL {
        true => out.join(format!("tool-{platform}")).join(name),
        false => out.join(format!("{name}-{VERSION}-linux-{platform}")),
    }
}

fn image(name: &str) -> String {
    format!("{name}-{VERSION}.oci.tar")
}

/// Each program by itself, and as an image for all platforms.
fn programs(out: &Path, platforms: &[Platform]) -> Result<()> {
    let target_dir =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    for program in &PROGRAMS {
        let files = built(program, platforms, &target_dir)?;
        for (platform, files) in &files {
            let (name, built, _) = &files[0];
            let kept = kept(out, name, *platform);
            let folder = kept.parent().context("it lies in a folder")?;
            fs::create_dir_all(folder)?;
            fs::copy(built, &kept).with_context(|| format!("cannot copy {}", built.display()))?;
            platform.assert_runs(&kept, VERSION)?;
        }
        let name = program.name;
        let digest = oci::write(&out.join(image(name)), &format!("{name}:{VERSION}"), &files)?;
        println!("{name}:{VERSION}  {digest}");
    }
    Ok(())
}

fn built(
    program: &Program,
    platforms: &[Platform],
    target_dir: &Path,
) -> Result<Vec<(Platform, oci::Files)>> {
    let of = |platform: &Platform| {
        let files = images::released(auditable::cargo_build()?, program, *platform, target_dir)?;
        auditable::assert_has_list(&files[0].1)?;
        Ok((*platform, files))
    };
    platforms.iter().map(of).collect()
}

/// Builds everything in a directory that has nothing yet, and compares.
fn assert_same_again(out: &Path, platforms: &[Platform]) -> Result<()> {
    let again = out.join("again");
    for program in &PROGRAMS {
        let (name, copy) = (program.name, again.join("image.tar"));
        let files = built(program, platforms, &again)?;
        oci::write(&copy, &format!("{name}:{VERSION}"), &files)?;
        ensure!(
            digest(&copy)? == digest(&out.join(image(name)))?,
            "a second build of {name} differs from the first"
        );
        println!("{name}: a second build is the same");
    }
    fs::remove_dir_all(again).context("cannot remove the second build")
}

/// The tool with what goes with it, packed for each platform; the names of the archives.
fn pack_tools(out: &Path, platforms: &[Platform]) -> Result<Vec<(Platform, String)>> {
    let here = kept(out, TOOL, Platform::here()?);
    let mut archives = Vec::new();
    let folder = |platform: Platform| format!("tool-{}", platform.name());
    for platform in platforms {
        let tool = out.join(folder(*platform));
        extras(&here, &tool)?;
        let archive = format!("muster-{VERSION}-linux-{}.tar.gz", platform.name());
        let renamed = format!("--transform=s,^{},muster,", folder(*platform));
        pack(&out.join(&archive), out, &folder(*platform), &[&renamed])?;
        archives.push((*platform, archive));
    }
    for platform in platforms {
        fs::remove_dir_all(out.join(folder(*platform)))?;
    }
    Ok(archives)
}

/// What goes with the tool: its licence, completions and manual pages, which this program writes.
fn extras(program: &Path, tool: &Path) -> Result<()> {
    let completions = tool.join("completions");
    fs::create_dir(&completions)?;
    for shell in SHELLS {
        let script = command::output(Command::new(program).args(["completion", shell]))?;
        fs::write(completions.join(format!("muster.{shell}")), script + "\n")?;
    }
    let pages = tool.join("man");
    fs::create_dir(&pages)?;
    command::output(Command::new(program).arg("man").arg(&pages))?;
    fs::copy(root().join("LICENSE"), tool.join("LICENSE"))?;
    Ok(())
}

/// The one file, all of deploy/ for kustomize, and the chart, which has files where the repository has links.
fn manifests(out: &Path) -> Result<()> {
    let deploy = root().join("deploy");
    fs::copy(deploy.join("muster.yaml"), out.join("muster.yaml"))?;
    let archive = out.join(format!("deploy-{VERSION}.tar.gz"));
    pack(
        &archive,
        root(),
        "deploy",
        &["--exclude=deploy/chart", "--exclude=deploy/images"],
    )?;
    let chart = out.join(format!("muster-{VERSION}.tgz"));
    let only_files = [
        "--dereference",
        "--exclude=kustomization.yaml",
        "--exclude=definition",
    ];
    pack(&chart, &deploy.join("chart"), "muster", &only_files)?;
    let about = fs::read_to_string(deploy.join("chart/muster/Chart.yaml"))?;
    let about = serde_saphyr::from_str(&about).context("cannot read Chart.yaml")?;
    let image = out.join(format!("muster-chart-{VERSION}.oci.tar"));
    let digest = oci::write_chart(&image, &format!("muster:{VERSION}"), &about, &chart)?;
    println!("chart muster:{VERSION}  {digest}");
    Ok(())
}

/// Packs a folder of a directory.
fn pack(archive: &Path, directory: &Path, folder: &str, words: &[&str]) -> Result<()> {
    command::output(
        Command::new("tar")
            .args(SAME)
            .args(words)
            // Without the time at which it was packed.
            .args(["--use-compress-program=gzip -n -9", "--create", "--file"])
            .arg(archive)
            .arg("--directory")
            .arg(directory)
            .arg(folder),
    )?;
    Ok(())
}

/// `kubectl mpi`, for https://krew.sigs.k8s.io.
fn krew(out: &Path, archives: &[(Platform, String)], url: &str) -> Result<()> {
    let url = url.trim_end_matches('/');
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: mpi
spec:
  version: v{VERSION}
  shortDescription: Run MPI jobs and see why they failed
  description: |
    Submits MPI jobs to a cluster, follows them, prints the output of their programs, and explains why a job
    waits or how it failed. Checks files before they are submitted. Needs muster, or another operator of MPIJobs,
    in the cluster.
  platforms:
"
    );
    for (platform, archive) in archives {
        let (platform, sha256) = (platform.name(), digest(&out.join(archive))?);
        text.push_str(&format!(
            "    - selector:
        matchLabels:
          os: linux
          arch: {platform}
      uri: {url}/{archive}
      sha256: {sha256}
      files:
        - from: muster/muster
          to: kubectl-mpi
        - from: muster/LICENSE
          to: .
      bin: kubectl-mpi
"
        ));
    }
    fs::write(out.join("mpi.yaml"), text).context("cannot write the manifest for krew")
}

/// One line for each file, as `sha256sum --check` reads them.
fn checksums(out: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for path in cache::files_below(out)? {
        let name = path.strip_prefix(out)?.to_string_lossy().into_owned();
        lines.push((name, digest(&path)?));
    }
    lines.sort();
    let lines: String = lines
        .iter()
        .map(|(name, digest)| format!("{digest}  {name}\n"))
        .collect();
    print!("{lines}");
    fs::write(out.join("SHA256SUMS"), lines).context("cannot write SHA256SUMS")
}

fn digest(path: &Path) -> Result<String> {
    let unreadable = || format!("cannot read {}", path.display());
    let file = fs::File::open(path).with_context(unreadable)?;
    cache::sha256(file).with_context(unreadable)
}
