//! The tables of docs/dialects.md, one for each dialect, from its list of fields. Everything else on the
//! page is written by hand and stays.

use std::fmt::Write as _;

use dialects::field::FieldType;
use dialects::{Dialect, RESOURCES, Resource};

/// Where the page is, in the repository.
pub(crate) const FILE: &str = "docs/dialects.md";

/// The page with current tables. A dialect that has no section yet gets one at the end.
pub(crate) fn text(page: &str) -> String {
    let all = RESOURCES.iter();
    let all = all.flat_map(|resource| resource.dialects.iter().map(move |row| (resource, row)));
    all.fold(page.to_owned(), |page, (resource, dialect)| {
        with_table(&page, resource, dialect)
    })
}

fn with_table(page: &str, resource: &Resource, dialect: &Dialect) -> String {
    let (group, version, kind) = (resource.group, dialect.version, resource.kind);
    let head = format!("## `{group}/{version} {kind}`\n\n");
    let table = table(dialect);
    match page.split_once(&head) {
        Some((before, after)) => {
            let old = after.split_inclusive('\n');
            let after: String = old.skip_while(|line| line.starts_with('|')).collect();
            format!("{before}{head}{table}{after}")
        }
        None => format!("{page}\n{head}{table}"),
    }
}

fn table(dialect: &Dialect) -> String {
    let fields = dialect.fields.iter().copied().flatten();
    let mut rows: Vec<_> = fields
        .filter_map(|field| {
            let kind = type_word(field.shape.field_type);
            Some((field.path, kind, field.handling?.as_str(), field.meaning))
        })
        .collect();
    rows.sort_unstable();
    let mut table = String::from("| field | type | | meaning |\n|---|---|---|---|\n");
    for (path, kind, handling, meaning) in rows {
        writeln!(table, "| `{path}` | {kind} | {handling} | {meaning} |")
            .expect("a string takes every line");
    }
    table
}

/// The word for a type, as `muster fields` and kubectl write it.
fn type_word(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Text => "string",
        FieldType::Time => "time",
        FieldType::Int32 | FieldType::Int64 => "integer",
        FieldType::IntOrText => "integer or string",
        FieldType::Boolean => "boolean",
        FieldType::Object | FieldType::AtomicObject | FieldType::AnyObject => "object",
        FieldType::Any => "any",
        FieldType::List(_) | FieldType::ListByType => "list",
        FieldType::MapOf(_) => "map",
        FieldType::Template { .. } => "pod template",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_its_prose_and_gets_every_table() {
        let written = text("# Title\n");
        assert_eq!(text(&written), written, "a second time changes nothing");
        let edited = written.replace("| honoured |", "| ignored |") + "\nProse.\n";
        assert_eq!(text(&edited), written + "\nProse.\n");
    }
}
