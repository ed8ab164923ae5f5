//! The workers of a job whose templates bring everything: all that is missing is the image of the
//! container that attends them, and the file that tells it of the job's end. Adds nothing else.

use contract::files::{END_FILE, END_MOUNT_PATH, END_VOLUME};
use contract::labels::END_ANNOTATION;
use serde_json::{Value, json};

use super::list;
use super::pod::Draft;
use crate::job::Bootstrap;
use crate::site::Site;

/// Gives the attendant its image and its view of the end; where the user brought an image, nothing.
pub(crate) fn attend(own: &Bootstrap, site: &Site, draft: &mut Draft) {
    let Some(attendant) = &own.attendant else {
        return;
    };
    let containers = list(&mut draft.spec, "containers").iter_mut();
    for container in containers.filter(|container| container["name"] == attendant.as_str()) {
        let Some(container) = container.as_object_mut() else {
            continue;
        };
        // Not rendered without one: such a job is blocked.
        let image = site.agent_image.clone().unwrap_or_default();
        container.insert("image".to_owned(), image.into());
        let mount = json!({"name": END_VOLUME, "mountPath": END_MOUNT_PATH, "readOnly": true});
        list(container, "volumeMounts").push(mount);
    }
    draft.volume(end_volume());
}

fn end_volume() -> Value {
    let path = format!("metadata.annotations['{END_ANNOTATION}']");
    json!({
        "name": END_VOLUME,
        "downwardAPI": {"items": [{"path": END_FILE, "fieldRef": {"fieldPath": path}}]},
    })
}
