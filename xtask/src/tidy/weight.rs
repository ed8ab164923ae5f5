//! How much code there is: lines of product and of tests for each crate, comments included, beside what
//! there was when it was decided that it should become less.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::tree::{File, Tree};

/// Lines of product code at commit c534564, counted in the same way.
const BEFORE: &[(&str, usize)] = &[
    ("agent", 8458),
    ("bench", 1319),
    ("cli", 9052),
    ("controller", 5955),
    ("dialects", 6493),
    ("minicluster", 11790),
    ("planner", 5879),
    ("xtask", 7794),
];

/// Lines of one crate.
#[derive(Clone, Copy, Default)]
struct Lines {
    product: usize,
    tests: usize,
}

pub(super) fn table(tree: &Tree) -> String {
    let mut crates: BTreeMap<&str, Lines> = BTreeMap::new();
    for file in tree.with_extension("rs") {
        let tests = file.test_lines().len();
        let lines = crates.entry(crate_of(file)).or_default();
        lines.tests += tests;
        lines.product += file.text.lines().count() - tests;
    }
    let mut text = "crate          product   before    change    tests\n".to_owned();
    let mut row = |name: &str, lines: Lines, before: usize| {
        let Lines { product, tests } = lines;
        let change = product.cast_signed() - before.cast_signed();
        let _ = writeln!(
            text,
            "{name:<12}{product:>10}{before:>9}{change:>+10}{tests:>9}"
        );
    };
    let mut sum = Lines::default();
    for (name, lines) in &crates {
        let before = BEFORE.iter().find(|(known, _)| known == name);
        row(name, *lines, before.map_or(0, |(_, before)| *before));
        sum.product += lines.product;
        sum.tests += lines.tests;
    }
    row("all", sum, BEFORE.iter().map(|(_, before)| before).sum());
    text
}

fn crate_of(file: &File) -> &str {
    let path = file.path.strip_prefix("crates/").unwrap_or(&file.path);
    path.split('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_and_tests_are_counted_for_each_crate_and_in_sum() {
        let tests = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n";
        let tree = Tree::of(&[
            ("crates/planner/src/lib.rs", tests),
            ("crates/planner/tests/a.rs", "//! A.\n"),
            ("xtask/src/main.rs", "fn main() {}\n"),
        ]);
        let table = table(&tree);
        let lines: Vec<_> = table.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "planner              2     5879     -5877        4",
                "xtask                1     7794     -7793        0",
                "all                  3    56740    -56737        4",
            ]
        );
    }
}
