//! Texts that are not UTF-8. The API server stores them when they come in protobuf, so anybody who may create
//! pods can put them where the operator reads them. They must hide nothing from it.

use anyhow::{Result, ensure};
use e2e::api::collection;
use e2e::jobs::MpiJob;

use super::fixture::new_fixture;

/// A field of a message: its number and its bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("the message is short");
    match length {
        0..128 => [&[number << 3 | 2, length][..], bytes].concat(),
        _ => [&[number << 3 | 2, length, 1][..], bytes].concat(),
    }
}

/// A pod that the operator's watch selects, with an annotation that is not UTF-8.
fn pod(name: &str) -> Vec<u8> {
    let entry = |key: &[u8], value: &[u8]| [field(1, key), field(2, value)].concat();
    let label = entry(b"training.kubeflow.org/operator-name", b"mpi-operator");
    let metadata = [
        field(1, name.as_bytes()),
        field(11, &label),
        field(12, &entry(b"note", b"\xff\xfe")),
    ];
    let container = [field(1, b"none"), field(2, b"nowhere.invalid/none:0")];
    let spec = field(2, &container.concat());
    let pod = [field(1, &metadata.concat()), field(2, &spec)];
    let kind = [field(1, b"v1"), field(2, b"Pod")];
    let unknown = [field(1, &kind.concat()), field(2, &pod.concat())];
    [b"k8s\0", &unknown.concat()[..]].concat()
}

#[test]
fn s01c_texts_that_are_not_utf8_hide_nothing() -> Result<()> {
    let fixture = new_fixture("bytes")?;
    let pods = collection(&fixture.namespace, "pods");
    let code = fixture.api.create_protobuf(&pods, &pod("listed"))?;
    ensure!(code == 201, "the pod was refused: {code}");
    let _operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.await_pods("pi", "worker", 2)?;

    let code = fixture.api.create_protobuf(&pods, &pod("watched"))?;
    ensure!(code == 201, "the pod was refused: {code}");
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    fixture.api.delete(&format!("{pods}/watched"))?;
    fixture.finish("pi")?;
    fixture.await_condition("pi", "Succeeded")?;
    Ok(())
}
