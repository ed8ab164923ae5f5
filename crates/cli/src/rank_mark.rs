//! Which rank printed a line, as launchers mark it. Must not know where the line comes from.

use std::collections::BTreeSet;

/// Whether one of these ranks printed the line, as far as its mark says.
pub(crate) fn is_of_any(line: &str, ranks: &BTreeSet<usize>) -> bool {
    of(line).is_some_and(|rank| ranks.contains(&rank))
}

/// The rank in the mark: `[1,3]<stdout>:` of Open MPI with --tag-output, `[3] ` of Hydra with -l.
pub(crate) fn of(line: &str) -> Option<usize> {
    let (mark, _) = line.strip_prefix('[')?.split_once(']')?;
    mark.rsplit(',').next().unwrap_or(mark).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_both_families_are_read() {
        let ranks = BTreeSet::from([3]);
        assert!(is_of_any("[1,3]<stdout>: hello", &ranks));
        assert!(is_of_any("[3] hello", &ranks));
        assert!(!is_of_any("[1,2]<stdout>: hello", &ranks));
        assert!(!is_of_any("hello", &ranks));
    }
}
