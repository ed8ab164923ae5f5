//! Compares secrets without telling by the time it takes how much of a guess is right.

/// Takes the same time wherever the two differ.
pub(crate) fn is_equal_constant_time(given: &[u8], expected: &[u8]) -> bool {
    given.len() == expected.len()
        && given
            .iter()
            .zip(expected)
            .fold(0, |differences, (one, other)| differences | (one ^ other))
            == 0
}
