//! Volumes as directories. Decides which files a volume holds and with which modes, and replaces
//! them all at once when they change, so that a reader never sees half of an update.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::config_source::{ConfigLookup, ConfigSource, Referenced};
use super::pod::Pod;

/// Mode of files whose volume does not say.
const MODE: u32 = 0o644;
/// The link that is switched; its name is the kubelet's, because programs watch it.
const DATA: &str = "..data";

/// A file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    bytes: Vec<u8>,
    mode: u32,
}

type Files = BTreeMap<PathBuf, File>;

/// Makes or updates every volume of a pod below `directory`. An error names what is missing and
/// may be cured by another try.
pub(crate) fn fill(pod: Pod<'_>, directory: &Path, lookup: &ConfigLookup) -> Result<()> {
    for volume in pod.volumes() {
        let name = volume["name"].as_str().unwrap_or("");
        let place = directory.join(name);
        if let Some(files) = files(pod, volume, lookup)? {
            write(&place, &files).with_context(|| format!("cannot write volume {name}"))?;
        } else if volume.get("hostPath").is_some() {
            host_path(&volume["hostPath"])?;
        } else {
            make_directory(&place).with_context(|| format!("cannot make volume {name}"))?;
        }
    }
    Ok(())
}

/// Where a volume's contents lie on this machine.
pub(crate) fn source(pod: Pod<'_>, directory: &Path, mount: &Value) -> Result<PathBuf> {
    let name = mount["name"].as_str().unwrap_or("");
    let volume = pod.volumes().find(|volume| volume["name"] == name);
    let volume = volume.with_context(|| format!("the pod has no volume {name:?}"))?;
    let base = match volume["hostPath"]["path"].as_str() {
        Some(path) => PathBuf::from(path),
        None => directory.join(name),
    };
    let Some(below) = mount["subPath"].as_str().filter(|path| !path.is_empty()) else {
        return Ok(base);
    };
    if !is_below(Path::new(below)) {
        bail!("subPath {below:?} of volume {name} leaves the volume");
    }
    let path = base.join(below);
    if !path.exists() && volume.get("emptyDir").is_some() {
        make_directory(&path)?;
    }
    let path = path
        .canonicalize()
        .with_context(|| format!("volume {name} has no {below}"))?;
    Ok(path)
}

fn is_below(path: &Path) -> bool {
    path.components()
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir))
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    // Any user of the pod may write there, as on a cluster.
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

fn host_path(volume: &Value) -> Result<()> {
    let path = volume["path"].as_str().unwrap_or("");
    match volume["type"].as_str().unwrap_or("") {
        "DirectoryOrCreate" => fs::create_dir_all(path)?,
        "FileOrCreate" if !Path::new(path).exists() => fs::write(path, "")?,
        "Directory" if !Path::new(path).is_dir() => bail!("hostPath {path} is no directory"),
        "File" if !Path::new(path).is_file() => bail!("hostPath {path} is no file"),
        _ if !Path::new(path).exists() => bail!("hostPath {path} does not exist"),
        _ => {}
    }
    Ok(())
}

/// The files of a volume that is made of objects; none for a plain directory.
fn files(pod: Pod<'_>, volume: &Value, lookup: &ConfigLookup) -> Result<Option<Files>> {
    let projected = &volume["projected"];
    if projected.is_object() {
        let mut files = Files::new();
        for source in projected["sources"].as_array().into_iter().flatten() {
            let more = from_source(pod, source, mode(projected, MODE), lookup)?;
            files.extend(more.unwrap_or_default());
        }
        return Ok(Some(files));
    }
    if let Some(files) = from_source(pod, volume, MODE, lookup)? {
        return Ok(Some(files));
    }
    let known = ["emptyDir", "hostPath", "name", "ephemeral"];
    let mut kinds = volume.as_object().into_iter().flatten();
    if let Some((kind, _)) = kinds.find(|(kind, _)| !known.contains(&kind.as_str())) {
        let name = volume["name"].as_str().unwrap_or("");
        bail!("volume {name}: local mode does not support {kind}; use hostPath or emptyDir");
    }
    Ok(None)
}

/// The files of a volume, or of a part of a projected one.
fn from_source(
    pod: Pod<'_>,
    source: &Value,
    default_mode: u32,
    lookup: &ConfigLookup,
) -> Result<Option<Files>> {
    for (field, kind) in [
        ("configMap", ConfigSource::ConfigMap),
        ("secret", ConfigSource::Secret),
    ] {
        if source[field].is_object() {
            let found = Referenced::find(kind, pod, &source[field], lookup)?;
            return from_config(&source[field], &found, default_mode).map(Some);
        }
    }
    match &source["downwardAPI"] {
        Value::Object(_) => from_pod(pod, &source["downwardAPI"], default_mode).map(Some),
        _ => Ok(None),
    }
}

fn mode(source: &Value, otherwise: u32) -> u32 {
    let given = source["defaultMode"].as_u64().or(source["mode"].as_u64());
    given
        .and_then(|mode| u32::try_from(mode).ok())
        .map_or(otherwise, |mode| mode & 0o777)
}

fn from_config(source: &Value, found: &Referenced, default_mode: u32) -> Result<Files> {
    let default_mode = mode(source, default_mode);
    let file = |bytes: &Vec<u8>, mode: u32| File {
        bytes: bytes.clone(),
        mode,
    };
    let Some(items) = source["items"].as_array() else {
        let all = found.data.iter();
        let files = all.map(|(key, bytes)| (PathBuf::from(key), file(bytes, default_mode)));
        return Ok(files.collect());
    };
    let mut files = Files::new();
    for item in items {
        let key = item["key"].as_str().unwrap_or("");
        let path = PathBuf::from(item["path"].as_str().unwrap_or(key));
        if !is_below(&path) {
            bail!("path {} leaves its volume", path.display());
        }
        if let Some(bytes) = found.get(key)? {
            files.insert(path, file(bytes, mode(item, default_mode)));
        }
    }
    Ok(files)
}

fn from_pod(pod: Pod<'_>, source: &Value, default_mode: u32) -> Result<Files> {
    let default_mode = mode(source, default_mode);
    let mut files = Files::new();
    for item in source["items"].as_array().into_iter().flatten() {
        let path = PathBuf::from(item["path"].as_str().unwrap_or(""));
        if !is_below(&path) || path.as_os_str().is_empty() {
            bail!("path {:?} leaves its volume", path.display().to_string());
        }
        let text = match item["fieldRef"]["fieldPath"].as_str() {
            Some(field) => super::environment::field(pod, field, "")?,
            None => super::environment::resource(pod, None, &item["resourceFieldRef"]),
        };
        let file = File {
            bytes: text.into_bytes(),
            mode: mode(item, default_mode),
        };
        files.insert(path, file);
    }
    Ok(files)
}

/// All files at once: a new directory, then one switch of a link.
fn write(place: &Path, files: &Files) -> Result<()> {
    fs::create_dir_all(place)?;
    let link = place.join(DATA);
    let old = fs::read_link(&link).ok();
    if let Some(old) = &old
        && holds(&place.join(old), files)
    {
        return Ok(());
    }
    let number = old
        .as_ref()
        .and_then(|old| old.to_str()?.trim_start_matches('.').parse::<u64>().ok())
        .map_or(0, |number| number + 1);
    let new = format!("..{number}");
    let _ = fs::remove_dir_all(place.join(&new));
    fs::create_dir(place.join(&new))?;
    for (path, file) in files {
        let path = place.join(&new).join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    let draft = place.join("..data_tmp");
    let _ = fs::remove_file(&draft);
    symlink(&new, &draft)?;
    fs::rename(&draft, &link)?;
    for path in files.keys() {
        if let Some(top) = path.components().next() {
            let entry = place.join(top);
            if fs::symlink_metadata(&entry).is_err() {
                symlink(Path::new(DATA).join(top), &entry)?;
            }
        }
    }
    if let Some(old) = old {
        let _ = fs::remove_dir_all(place.join(old));
    }
    for entry in fs::read_dir(place)?.flatten() {
        // A link whose file went away with the update.
        if fs::metadata(entry.path()).is_err() {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

fn holds(directory: &Path, files: &Files) -> bool {
    let same = files.iter().all(|(path, file)| {
        let path = directory.join(path);
        fs::read(&path).is_ok_and(|bytes| bytes == file.bytes)
            && fs::metadata(&path).is_ok_and(|meta| meta.permissions().mode() & 0o777 == file.mode)
    });
    same && count(directory) == files.len()
}

fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => count(&entry.path()),
            _ => 1,
        })
        .sum()
}
