//! Images as archives of OCI layouts, which `skopeo copy oci-archive:FILE docker://…` and others push as they are.
//! Decides the layout inside; equal files give equal bytes, so the digest of an image is known before it is pushed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::archive::{self, Config};
use crate::cache;
use crate::images::USER;
use crate::platform::Platform;

/// The files of an image for one processor, the one that it starts first: path in the image, file here, mode.
pub(super) type Files = Vec<(String, PathBuf, u32)>;

/// Writes an image of these files for each processor, under one name. Returns its digest, by which it can be pulled
/// for all of them.
pub(super) fn write(out: &Path, reference: &str, images: &[(Platform, Files)]) -> Result<String> {
    let layout = Layout::begin(out)?;
    let mut manifests = Vec::new();
    for (platform, files) in images {
        let mut manifest = layout.image(*platform, files)?;
        manifest["platform"] = json!({"architecture": platform.name(), "os": "linux"});
        manifests.push(manifest);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": manifests,
    });
    let index = layout.store(index.to_string().as_bytes(), INDEX)?;
    layout.end(out, index, reference)
}

/// Writes a packed Helm chart as registries keep it, for `helm pull oci://…`. Returns its digest.
pub(super) fn write_chart(
    out: &Path,
    reference: &str,
    chart: &Value,
    packed: &Path,
) -> Result<String> {
    let layout = Layout::begin(out)?;
    let content = fs::read(packed).with_context(|| format!("cannot read {}", packed.display()))?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.store(
            chart.to_string().as_bytes(),
            "application/vnd.cncf.helm.config.v1+json",
        )?,
        "layers": [layout.store(&content, "application/vnd.cncf.helm.chart.content.v1.tar+gzip")?],
    });
    let manifest = layout.store(manifest.to_string().as_bytes(), MANIFEST)?;
    layout.end(out, manifest, reference)
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A layout that is being written: blobs by their digest.
struct Layout {
    scratch: PathBuf,
    blobs: PathBuf,
}

impl Layout {
    fn begin(out: &Path) -> Result<Self> {
        let scratch = out.with_extension("parts");
        let blobs = scratch.join("blobs/sha256");
        fs::create_dir_all(&blobs).with_context(|| format!("cannot make {}", blobs.display()))?;
        Ok(Self { scratch, blobs })
    }

    /// Keeps a blob; returns its descriptor.
    fn store(&self, content: &[u8], media_type: &str) -> Result<Value> {
        let digest = cache::sha256(content)?;
        fs::write(self.blobs.join(&digest), content)?;
        let digest = format!("sha256:{digest}");
        Ok(json!({"mediaType": media_type, "digest": digest, "size": content.len()}))
    }

    /// Keeps an image; returns the descriptor of its manifest.
    fn image(&self, platform: Platform, files: &Files) -> Result<Value> {
        let layer = self.scratch.join("layer");
        let listed: Vec<_> = files
            .iter()
            .map(|(name, file, mode)| (name.as_str(), file.as_path(), *mode))
            .collect();
        archive::write_layer(&layer, &listed)?;
        let layer = self.store(&fs::read(&layer)?, "application/vnd.oci.image.layer.v1.tar")?;
        let config = Config {
            entrypoint: vec![format!("/{}", files[0].0)],
            user: USER.to_owned(),
            workdir: "/".to_owned(),
            ..Config::default()
        };
        let digest = layer["digest"].as_str().unwrap_or_default();
        let digest = digest.trim_start_matches("sha256:").to_owned();
        let config = archive::image_config(&config, platform.name(), &[digest]);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.store(&config, "application/vnd.oci.image.config.v1+json")?,
            "layers": [layer],
        });
        self.store(manifest.to_string().as_bytes(), MANIFEST)
    }

    /// Packs all blobs, and what of them has this name.
    fn end(self, out: &Path, mut named: Value, reference: &str) -> Result<String> {
        let digest = named["digest"].as_str().unwrap_or_default().to_owned();
        named["annotations"] = json!({"org.opencontainers.image.ref.name": reference});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]});
        let index_file = self.scratch.join("index.json");
        let version = self.scratch.join("oci-layout");
        fs::write(&index_file, index.to_string())?;
        fs::write(&version, json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
        let mut parts = vec![
            ("oci-layout".to_owned(), version, 0o644),
            ("index.json".to_owned(), index_file, 0o644),
        ];
        let mut blobs = cache::files_below(&self.blobs)?;
        blobs.sort();
        for blob in blobs {
            let name = blob
                .strip_prefix(&self.scratch)?
                .to_string_lossy()
                .into_owned();
            parts.push((name, blob, 0o644));
        }
        let parts: Vec<_> = parts
            .iter()
            .map(|(name, file, mode)| (name.as_str(), file.as_path(), *mode))
            .collect();
        archive::write_layer(out, &parts)?;
        fs::remove_dir_all(&self.scratch)?;
        Ok(digest)
    }
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
        let files = vec![("program".to_owned(), program, 0o755)];
        let images = [(Platform::Amd64, files.clone()), (Platform::Arm64, files)];
        let (one, two) = (
            directory.path().join("one.tar"),
            directory.path().join("two.tar"),
        );
        let digest = write(&one, "program:1", &images)?;
        assert_eq!(write(&two, "program:1", &images)?, digest);
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
            if let Ok(index) = serde_json::from_slice::<Value>(&content)
                && index["mediaType"] == INDEX
                && name != "index.json"
            {
                let of = |at: usize| index["manifests"][at]["platform"]["architecture"].clone();
                assert_eq!([of(0), of(1)], ["amd64", "arm64"]);
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
