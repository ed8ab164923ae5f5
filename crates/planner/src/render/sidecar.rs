//! The sidecar of workers whose templates bring everything else: the agent's image, and the file that
//! tells it how the job ended. Adds nothing else.

use contract::files::{END_FILE, END_MOUNT_PATH, END_VOLUME};
use contract::labels::END_ANNOTATION;
use serde_json::json;

use super::list;
use super::pod::Draft;

/// Gives the container of this name the image and the file.
pub(crate) fn complete(name: &str, image: &str, draft: &mut Draft) {
    let containers = list(&mut draft.spec, "containers").iter_mut();
    let containers = containers.filter(|container| container["name"] == name);
    for container in containers.filter_map(|container| container.as_object_mut()) {
        container.insert("image".to_owned(), image.into());
        let mount = json!({"name": END_VOLUME, "mountPath": END_MOUNT_PATH, "readOnly": true});
        list(container, "volumeMounts").push(mount);
    }
    let path = format!("metadata.annotations['{END_ANNOTATION}']");
    draft.volume(json!({
        "name": END_VOLUME,
        "downwardAPI": {"items": [{"path": END_FILE, "fieldRef": {"fieldPath": path}}]},
    }));
}
