//! Images as archives of OCI layouts, which `skopeo copy oci-archive:FILE docker://…` and others push as they are.
//! Decides the layout inside; equal files give equal bytes, so the digest of an image is known before it is pushed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use crate::archive::{self, Config};
use crate::cache;
use crate::images::USER;

/// What Kubernetes and registries call the processor of this machine.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Writes an image of these files, which starts the first of them. Returns its digest, by which it can be pulled.
pub(super) fn write(
    out: &Path,
    reference: &str,
    files: &[(String, PathBuf, u32)],
) -> Result<String> {
    let scratch = out.with_extension("parts");
    let blobs = scratch.join("blobs");
    fs::create_dir_all(&blobs).with_context(|| format!("cannot make {}", blobs.display()))?;
    let layer = scratch.join("layer");
    let listed: Vec<_> = files
        .iter()
        .map(|(name, file, mode)| (name.as_str(), file.as_path(), *mode))
        .collect();
    archive::write_layer(&layer, &listed)?;
    let (layer_digest, layer_size) = (digest(&layer)?, fs::metadata(&layer)?.len());
    fs::rename(&layer, blobs.join(&layer_digest))?;
    let config = Config {
        entrypoint: vec![format!("/{}", files[0].0)],
        user: USER.to_owned(),
        workdir: "/".to_owned(),
        ..Config::default()
    };
    let config = archive::image_config(&config, std::slice::from_ref(&layer_digest));
    let config_digest = store(&blobs, &config)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": format!("sha256:{config_digest}"),
            "size": config.len(),
        },
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": format!("sha256:{layer_digest}"),
            "size": layer_size,
        }],
    })
    .to_string();
    let manifest_digest = store(&blobs, manifest.as_bytes())?;
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{manifest_digest}"),
            "size": manifest.len(),
            "platform": {"architecture": architecture(), "os": "linux"},
            "annotations": {"org.opencontainers.image.ref.name": reference},
        }],
    });
    let (index_file, version) = (scratch.join("index.json"), scratch.join("oci-layout"));
    fs::write(&index_file, index.to_string())?;
    fs::write(&version, json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    let blob = |digest: &str| (format!("blobs/sha256/{digest}"), blobs.join(digest), 0o644);
    let mut parts = vec![
        ("oci-layout".to_owned(), version, 0o644),
        ("index.json".to_owned(), index_file, 0o644),
    ];
    parts.extend([&manifest_digest, &config_digest, &layer_digest].map(|digest| blob(digest)));
    let parts: Vec<_> = parts
        .iter()
        .map(|(name, file, mode)| (name.as_str(), file.as_path(), *mode))
        .collect();
    archive::write_layer(out, &parts)?;
    fs::remove_dir_all(&scratch)?;
    Ok(format!("sha256:{manifest_digest}"))
}

fn store(blobs: &Path, content: &[u8]) -> Result<String> {
    let digest = cache::sha256(content)?;
    fs::write(blobs.join(&digest), content)?;
    Ok(digest)
}

fn digest(path: &Path) -> Result<String> {
    let unreadable = || format!("cannot read {}", path.display());
    let file = fs::File::open(path).with_context(unreadable)?;
    cache::sha256(file).with_context(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn equal_files_give_equal_images_whose_parts_have_the_digests_that_name_them() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let program = directory.path().join("program");
        fs::write(&program, "hello")?;
        let files = [("program".to_owned(), program, 0o755)];
        let (one, two) = (
            directory.path().join("one.tar"),
            directory.path().join("two.tar"),
        );
        let digest = write(&one, "program:1", &files)?;
        assert_eq!(write(&two, "program:1", &files)?, digest);
        assert_eq!(fs::read(&one)?, fs::read(&two)?);

        let mut found = Vec::new();
        for entry in tar::Archive::new(fs::File::open(&one)?).entries()? {
            let mut entry = entry?;
            let name = entry.path()?.display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            if let Some(named) = name
                .strip_prefix("blobs/sha256/")
                .filter(|name| !name.is_empty())
            {
                assert_eq!(cache::sha256(content.as_slice())?, named);
            }
            if name == "index.json" {
                let index: serde_json::Value = serde_json::from_slice(&content)?;
                assert_eq!(index["manifests"][0]["digest"], digest.as_str());
            }
            found.push(name);
        }
        assert_eq!(found[..2], ["oci-layout", "index.json"]);
        Ok(())
    }
}
