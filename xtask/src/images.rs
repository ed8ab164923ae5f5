//! The container images of tests and of the product, as archives in the cache: made without a
//! registry or an image builder, once for each content. Decides which images exist by name and that
//! a test image is kept only after it has run MPI jobs; must not know how a layer is made.

mod catalog;
mod layers;
mod rootfs;
mod shipped;
mod wheels;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{archive, cache, command};
use catalog::{IMAGES, Image, Recipe, Stack};
use layers::Inputs;
use rootfs::{Network, Root};
pub(crate) use shipped::{PROGRAMS, Program, USER, released};

/// Arguments of this chore.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which images; all of them when none is named
    names: Vec<String>,
    /// Print the names and references of all images, and make none
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    if args.list {
        for image in IMAGES {
            println!("{:<16} {}", image.name, image.reference());
        }
        return Ok(());
    }
    let names: Vec<_> = args.names.iter().map(String::as_str).collect();
    let archives = if names.is_empty() {
        ensure_all()?
    } else {
        ensure(&names)?
    };
    for path in archives {
        let reference = archive::identity(&path)?.reference;
        let megabytes = fs::metadata(&path)?.len() as f64 / 1e6;
        println!("{reference}  {megabytes:.1} MB  {}", path.display());
    }
    Ok(())
}

/// The archives of the named images, in that order; those not in the cache are made first.
pub(crate) fn ensure(names: &[&str]) -> Result<Vec<PathBuf>> {
    chosen(names)?.into_iter().map(make).collect()
}

/// The archives of all images; those not in the cache are made first.
pub(crate) fn ensure_all() -> Result<Vec<PathBuf>> {
    IMAGES.iter().map(make).collect()
}

/// The same for the test images alone, without those that the project ships.
pub(crate) fn ensure_stacks() -> Result<()> {
    let mut images = IMAGES.iter();
    images.try_for_each(|image| match image.recipe {
        Recipe::Stack(_) => make(image).map(drop),
        Recipe::Shipped(_) => Ok(()),
    })
}

/// The operator as it ships, as a program of this machine.
pub(crate) fn operator_program() -> Result<PathBuf> {
    let archives = ensure(&[shipped::OPERATOR.name])?;
    Ok(archives[0].with_file_name(shipped::OPERATOR.name))
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Image>> {
    let find = |name: &&str| {
        let image = IMAGES.iter().find(|image| image.name == *name);
        image.with_context(|| {
            let known: Vec<_> = IMAGES.iter().map(|image| image.name).collect();
            format!(
                "no image is called `{name}`; there are {}",
                known.join(", ")
            )
        })
    };
    names.iter().map(find).collect()
}

fn make(image: &Image) -> Result<PathBuf> {
    let start = Instant::now();
    let directory = match &image.recipe {
        Recipe::Shipped(program) => shipped::image(image.name, program, &image.reference()),
        Recipe::Stack(stack) => assemble(image, stack),
    };
    let directory = directory.with_context(|| format!("image {}", image.name))?;
    let seconds = start.elapsed().as_secs_f64();
    if seconds > 1.0 {
        eprintln!("image {} took {seconds:.1} s", image.name);
    }
    Ok(directory.join("image.tar"))
}

/// Stacks the layers of a test image, proves that the result works, and only then keeps it.
fn assemble(image: &Image, stack: &Stack) -> Result<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        bail!("test images are put together in mount namespaces, which takes root: run as root");
    }
    let layers = layers::of(stack)?;
    let config = stack.config();
    let inputs = Inputs::default()
        .value(&image.reference())
        .value(&format!("{config:?}"))
        .file("enter.sh")?
        .file("prove.sh")?
        .cached("layers", &layers)?;
    cache::keyed(&format!("image-{}", image.name), &inputs.key, |directory| {
        eprintln!("proving image {}", image.name);
        prove(stack, &layers, &inputs, directory)?;
        archive::write(
            &directory.join("image.tar"),
            &image.reference(),
            &layers,
            &config,
        )
    })
}

/// Runs `prove.sh` on the very layers of the image, with the image's own environment.
fn prove(stack: &Stack, layers: &[PathBuf], inputs: &Inputs, directory: &Path) -> Result<()> {
    let scratch = directory.join("scratch");
    let mut trees = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        let tree = scratch.join(format!("layer-{index}"));
        fs::create_dir_all(&tree)?;
        command::output(
            Command::new("tar")
                .args(["--extract", "--numeric-owner", "--file"])
                .arg(layer)
                .arg("--directory")
                .arg(&tree),
        )?;
        trees.push(tree);
    }
    let root = Root::new(&scratch, &trees, inputs)?;
    let mut words = vec!["env"];
    words.extend(stack.family.env);
    words.extend(["sh", "/mnt/in/prove.sh", stack.proved_as()]);
    root.enter(Network::Own, &words)
        .context("the image does not do what it is for")?;
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_the_names_there_are() {
        let error = chosen(&["openmpi4", "openmpi9"]).unwrap_err().to_string();
        assert!(
            error.contains("`openmpi9`") && error.contains("openmpi5"),
            "{error}"
        );
    }

    #[test]
    fn names_are_unique_and_references_are_those_that_manifests_use() {
        let mut names: Vec<_> = IMAGES.iter().map(|image| image.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), IMAGES.len());
        assert_eq!(
            chosen(&["mpich"]).expect("mpich is an image")[0].reference(),
            "muster.test/mpich:1"
        );
    }
}
