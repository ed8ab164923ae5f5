//! Turns the custom resource definitions that are compiled in from YAML to JSON: as YAML they would
//! take longer to read, at every start, than all else that happens before a job does.

use std::path::Path;
use std::{env, fs};

use serde_json::Value;

fn main() {
    let crates = env::var("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
    let directory = Path::new(&crates).join("../../deploy/crds");
    println!("cargo::rerun-if-changed={}", directory.display());
    let entries = fs::read_dir(&directory).expect("the definitions lie in deploy/crds");
    let paths = entries.map(|entry| entry.expect("its files can be listed").path());
    let is_definition = |path: &Path| path.file_name() != Some("kustomization.yaml".as_ref());
    let mut paths: Vec<_> = paths.filter(|path| is_definition(path)).collect();
    paths.sort();
    // The one that most people know comes first.
    paths.sort_by_key(|path| !path.ends_with("kubeflow.org_mpijobs.yaml"));
    let read = |path: &std::path::PathBuf| -> Value {
        let text = fs::read_to_string(path).expect("a definition can be read");
        serde_saphyr::from_str(&text).expect("a definition is YAML")
    };
    let definitions: Vec<Value> = paths.iter().map(read).collect();
    let to = env::var("OUT_DIR").expect("cargo says where to write");
    let text = serde_json::to_string(&definitions).expect("JSON can be written");
    fs::write(Path::new(&to).join("definitions.json"), text).expect("its directory is ours");
}
