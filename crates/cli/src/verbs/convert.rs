//! `muster convert FILE`: the file with the jobs of old versions written anew. Other objects stay as they are.

use anyhow::Result;

use crate::args::ConvertArgs;
use crate::exit::{self, Failure};
use crate::{convert, lint, manifest, out, yaml};

pub(crate) fn run(args: &ConvertArgs) -> Result<u8> {
    let manifest = manifest::read(args.file.name())?;
    if manifest.documents.is_err() {
        out::note(&lint::as_text(&manifest, &lint::check(&manifest)));
        return Err(Failure::new(exit::FAILED, ""));
    }
    let mut texts = Vec::new();
    let mut count = 0;
    for object in manifest.objects() {
        if !convert::is_old(&object) {
            texts.push(yaml::text(&object));
            continue;
        }
        let name = manifest::name(&object);
        let converted = convert::convert(&object).map_err(|why| {
            let text = format!("{name} in {} cannot be converted: {why}", manifest.name);
            Failure::new(exit::FAILED, text)
        })?;
        for note in &converted.notes {
            out::note(&format!("{name}: {note}\n"));
        }
        texts.push(yaml::text(&converted.object));
        count += 1;
    }
    out::note(&format!(
        "{}: {count} job(s) converted; comments are lost\n",
        manifest.name
    ));
    out::data(&texts.join("---\n"));
    Ok(0)
}
