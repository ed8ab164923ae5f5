//! The names of attempts: which launcher each belongs to, and which of its attempts it is. Every process of an
//! attempt carries its mark. Decides the form; must not know what is done with an attempt.

use crate::tree::new_mark;

/// The number of the attempt before the first: what an earlier launcher has left.
const BEFORE_FIRST: u32 = 0;

/// One start of a launcher, with a name that no other has and nobody can guess.
#[derive(Debug)]
pub(crate) struct LauncherStart(String);

impl LauncherStart {
    pub(crate) fn new() -> Self {
        Self(new_mark())
    }

    /// The mark of an attempt, from 1.
    pub(crate) fn attempt(&self, number: u32) -> String {
        format!("{}-{number}", self.0)
    }

    /// By ending this attempt a launcher takes its workers over from an earlier one.
    pub(crate) fn beginning(&self) -> String {
        self.attempt(BEFORE_FIRST)
    }
}

/// The launcher that an attempt with this mark belongs to.
pub(crate) fn launcher_of(mark: &str) -> &str {
    mark.split_once('-').map_or(mark, |(launcher, _)| launcher)
}

/// It is the beginning of a launcher.
pub(crate) fn is_beginning(mark: &str) -> bool {
    let number = mark.split_once('-').map(|(_, number)| number.parse());
    number == Some(Ok(BEFORE_FIRST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_launcher_and_tells_the_beginning() {
        let (one, other) = (LauncherStart::new(), LauncherStart::new());
        assert_eq!(launcher_of(&one.attempt(1)), launcher_of(&one.beginning()));
        assert_ne!(launcher_of(&one.attempt(1)), launcher_of(&other.attempt(1)));
        assert_ne!(one.attempt(1), one.attempt(2));
        assert!(is_beginning(&one.beginning()));
        assert!(!is_beginning(&one.attempt(10)) && !is_beginning("5f"));
    }
}
