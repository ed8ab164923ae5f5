//! What is kept of a measurement: all numbers in a JSON file, a row in the README. Decides their
//! form; must not know what was measured.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The machine, as far as it explains a number.
pub(crate) fn machine() -> Value {
    let system = rustix::system::uname();
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": system.release().to_string_lossy(),
        "load": fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
    })
}

pub(crate) fn today() -> String {
    jiff::Timestamp::now().to_string()[..10].to_owned()
}

/// The middle one; of an even number the upper of the two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// `results/NAME.json`.
pub(crate) fn write(name: &str, result: &Value) -> Result<()> {
    let file = folder().join("results").join(format!("{name}.json"));
    fs::create_dir_all(file.parent().expect("the file has a folder"))?;
    let text = serde_json::to_string_pretty(result)? + "\n";
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// What was written under this name, if anything was.
pub(crate) fn read(name: &str) -> Result<Option<Value>> {
    let file = folder().join("results").join(format!("{name}.json"));
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&file)?;
    let result = serde_json::from_str(&text);
    result.with_context(|| format!("cannot read {}", file.display()))
}

/// To a tenth.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Every number that is larger than wanted is an error: what, how much, at most how much.
pub(crate) fn judge(numbers: &[(&str, f64, f64)]) -> Result<()> {
    let large = numbers.iter().filter(|(_, number, most)| number > most);
    let large: Vec<String> = large
        .map(|(what, number, most)| format!("{number:.1} {what}; at most {most} is wanted"))
        .collect();
    ensure!(large.is_empty(), "{}", large.join("\n"));
    Ok(())
}

/// A row of any of the tables: when, where, and then its cells, the last with its line at the end.
pub(crate) fn row(machine: &Value, cells: &str) -> String {
    let (cores, kernel) = (&machine["cores"], machine["kernel"].as_str());
    let load = machine["load"].as_str().unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "| {} | {cores} cores, Linux {}, load {load} | {cells}",
        today(),
        kernel.unwrap_or_default()
    )
}

/// Puts a row below the last one of the table under the heading `## NAME`.
pub(crate) fn add_row(name: &str, row: &str) -> Result<()> {
    let file = folder().join("README.md");
    let text = fs::read_to_string(&file)?;
    let text = with_row(&text, name, row)
        .with_context(|| format!("{} has no table under ## {name}", file.display()))?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn with_row(text: &str, name: &str, row: &str) -> Option<String> {
    let heading = text.find(&format!("## {name}\n"))?;
    let table = heading + text[heading..].find("\n|")? + 1;
    let rows = text[table..].split_inclusive('\n');
    let length: usize = rows
        .take_while(|line| line.starts_with('|'))
        .map(str::len)
        .sum();
    let end = table + length;
    Some(format!("{}{row}\n{}", &text[..end], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_added_to_its_own_table() {
        let text = "# B\n\n## a\n\n| x |\n|---|\n| 1 |\n\nwords\n\n## b\n\n| y |\n|---|\n";
        let once = with_row(text, "a", "| 2 |").unwrap();
        assert!(once.contains("| 1 |\n| 2 |\n\nwords"), "{once}");
        let last = with_row(text, "b", "| 3 |").unwrap();
        assert!(last.ends_with("| y |\n|---|\n| 3 |\n"), "{last}");
        assert_eq!(with_row(text, "c", "| 4 |"), None);
    }

    #[test]
    fn the_middle_is_the_median() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 3.0).abs() < f64::EPSILON);
    }
}
