//! `muster lint FILE`: everything that is wrong with it. Findings are the data of this verb.

use anyhow::Result;

use crate::args::LintArgs;
use crate::{exit, lint, manifest, out};

pub(crate) fn run(args: &LintArgs) -> Result<u8> {
    let manifest = manifest::read(args.file.name())?;
    let findings = lint::check(&manifest);
    if args.output.is_some() {
        out::data(&format!("{:#}\n", lint::as_json(&manifest, &findings)));
    } else if findings.is_empty() {
        let count = manifest.documents.iter().flatten().count();
        out::data(&format!("{}: {count} object(s), 0 errors\n", manifest.name));
    } else {
        out::data(&lint::as_text(&manifest, &findings));
    }
    let fails = lint::has_errors(&findings) || (args.strict && !findings.is_empty());
    Ok(if fails { exit::FAILED } else { 0 })
}
