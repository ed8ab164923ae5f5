//! Container images as docker-archive files, written and named without any image tool. Decides the
//! layout inside the archive and that equal inputs give equal bytes; must not know what an image is
//! for. `ctr images import`, `docker load` and `podman load` all read the result.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;
use tar::{Builder, EntryType, Header};

use crate::cache;
use crate::platform::Platform;

/// How a container of the image starts.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) env: Vec<String>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) cmd: Vec<String>,
    pub(crate) user: String,
    pub(crate) workdir: String,
}

/// What an archive says it holds: the image's reference, and its configuration's digest, which
/// names the whole content because the configuration lists the digests of all layers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) reference: String,
    pub(crate) digest: String,
}

/// Writes an image of uncompressed layer tars, bottom first, under the given reference.
pub(crate) fn write(
    out: &Path,
    reference: &str,
    layers: &[PathBuf],
    config: &Config,
) -> Result<()> {
    let digests = layers
        .iter()
        .map(|layer| file_digest(layer))
        .collect::<Result<Vec<_>>>()?;
    let image = image_config(config, Platform::here()?.name(), &digests);
    let config_name = format!("{}.json", cache::sha256(image.as_slice())?);
    let layer_names: Vec<_> = digests
        .iter()
        .map(|digest| format!("{digest}/layer.tar"))
        .collect();
    let manifest = json!([{"Config": config_name, "RepoTags": [reference], "Layers": layer_names}])
        .to_string();

    let file = File::create(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut archive = Builder::new(BufWriter::new(file));
    // The manifest comes first so that `identity` reads a few hundred bytes, not the whole file.
    append(
        &mut archive,
        "manifest.json",
        manifest.as_bytes(),
        manifest.len() as u64,
        0o644,
    )?;
    append(
        &mut archive,
        &config_name,
        image.as_slice(),
        image.len() as u64,
        0o644,
    )?;
    let mut written = Vec::new();
    for (name, layer) in layer_names.iter().zip(layers) {
        if written.contains(&name) {
            continue; // two equal layers are one file
        }
        append_file(&mut archive, name, layer, 0o644)?;
        written.push(name);
    }
    archive
        .into_inner()?
        .flush()
        .with_context(|| format!("cannot write {}", out.display()))
}

/// Writes `image.tar` into a directory: an image that has nothing but these files and starts the first of
/// them. Files are given as for `write_layer`.
pub(crate) fn write_program(
    directory: &Path,
    reference: &str,
    files: &[(&str, &Path, u32)],
    config: Config,
) -> Result<()> {
    let layer = directory.join("layer.tar");
    write_layer(&layer, files)?;
    let config = Config {
        entrypoint: vec![format!("/{}", files[0].0)],
        ..config
    };
    let layers = std::slice::from_ref(&layer);
    write(&directory.join("image.tar"), reference, layers, &config)?;
    fs::remove_file(&layer).context("cannot remove the layer that is in the archive now")
}

/// Writes a layer of plain files that root owns: (path in the image without the leading slash, file
/// on this machine, mode). Directories on the way are made.
pub(crate) fn write_layer(out: &Path, files: &[(&str, &Path, u32)]) -> Result<()> {
    let file = File::create(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut layer = Builder::new(BufWriter::new(file));
    let mut directories = Vec::new();
    for (name, source, mode) in files {
        let parents: Vec<_> = Path::new(name).ancestors().skip(1).collect();
        for directory in parents
            .into_iter()
            .rev()
            .filter(|path| !path.as_os_str().is_empty())
        {
            if !directories.contains(&directory) {
                directories.push(directory);
                let mut header = header(0, 0o755);
                header.set_entry_type(EntryType::Directory);
                layer.append_data(&mut header, directory, io::empty())?;
            }
        }
        append_file(&mut layer, name, source, *mode)?;
    }
    layer
        .into_inner()?
        .flush()
        .with_context(|| format!("cannot write {}", out.display()))
}

/// Reads which image an archive that `write` made holds.
pub(crate) fn identity(archive: &Path) -> Result<Identity> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Manifest {
        config: String,
        repo_tags: Vec<String>,
    }
    let unreadable = || format!("{} is not an archive of ours", archive.display());
    let file = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
    let mut tar = tar::Archive::new(BufReader::new(file));
    let first = tar
        .entries()?
        .next()
        .with_context(unreadable)?
        .with_context(unreadable)?;
    let mut text = String::new();
    first
        .take(1 << 20)
        .read_to_string(&mut text)
        .with_context(unreadable)?;
    let manifests: Vec<Manifest> = serde_json::from_str(&text).with_context(unreadable)?;
    ensure!(
        manifests.len() == 1 && manifests[0].repo_tags.len() == 1,
        "{} holds more than one image",
        archive.display()
    );
    Ok(Identity {
        reference: manifests[0].repo_tags[0].clone(),
        digest: manifests[0].config.trim_end_matches(".json").to_owned(),
    })
}

/// The configuration of an image for a processor, which is called as registries call it.
pub(crate) fn image_config(
    config: &Config,
    architecture: &str,
    layer_digests: &[String],
) -> Vec<u8> {
    const EPOCH: &str = "1970-01-01T00:00:00Z"; // a real date would make every build differ
    let diff_ids: Vec<_> = layer_digests
        .iter()
        .map(|digest| format!("sha256:{digest}"))
        .collect();
    let history: Vec<_> = layer_digests
        .iter()
        .map(|_| json!({"created": EPOCH}))
        .collect();
    let mut env = config.env.clone();
    if !env.iter().any(|variable| variable.starts_with("PATH=")) {
        env.push("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
    }
    json!({
        "architecture": architecture,
        "os": "linux",
        "created": EPOCH,
        "config": {
            "Env": env,
            "Entrypoint": config.entrypoint,
            "Cmd": config.cmd,
            "User": config.user,
            "WorkingDir": config.workdir,
        },
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": history,
    })
    .to_string()
    .into_bytes()
}

fn append_file(tar: &mut Builder<impl Write>, name: &str, source: &Path, mode: u32) -> Result<()> {
    let unreadable = || format!("cannot read {}", source.display());
    let size = fs::metadata(source).with_context(unreadable)?.len();
    let file = File::open(source).with_context(unreadable)?;
    append(tar, name, file, size, mode)
}

fn append(
    tar: &mut Builder<impl Write>,
    name: &str,
    content: impl Read,
    size: u64,
    mode: u32,
) -> Result<()> {
    tar.append_data(&mut header(size, mode), name, content)
        .with_context(|| format!("cannot add {name} to the archive"))
}

fn header(size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn file_digest(path: &Path) -> Result<String> {
    let unreadable = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(unreadable)?;
    cache::sha256(file).with_context(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_tells_its_reference_and_equal_inputs_give_equal_bytes() -> Result<()> {
        let dir = std::env::temp_dir().join(format!("muster-archive-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let (content, layer) = (dir.join("content"), dir.join("layer.tar"));
        fs::write(&content, "hello")?;
        write_layer(&layer, &[("usr/bin/hello", &content, 0o755)])?;
        let config = Config {
            cmd: vec!["/usr/bin/hello".to_owned()],
            ..Config::default()
        };
        let (one, two) = (dir.join("one.tar"), dir.join("two.tar"));
        write(
            &one,
            "muster.test/hello:1",
            std::slice::from_ref(&layer),
            &config,
        )?;
        write(
            &two,
            "muster.test/hello:1",
            std::slice::from_ref(&layer),
            &config,
        )?;
        assert_eq!(fs::read(&one)?, fs::read(&two)?);
        assert_eq!(identity(&one)?.reference, "muster.test/hello:1");
        let names: Vec<_> = tar::Archive::new(File::open(&layer)?)
            .entries()?
            .map(|entry| Ok(entry?.path()?.display().to_string()))
            .collect::<Result<_>>()?;
        assert_eq!(names, ["usr", "usr/bin", "usr/bin/hello"]);
        fs::remove_dir_all(&dir)?;
        Ok(())
    }
}
