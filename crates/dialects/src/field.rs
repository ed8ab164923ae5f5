//! One field of an API, and what becomes of it: the list that documentation is printed from and that
//! tests hold against the CRD and against the dialect. Decides nothing.

/// A field that users may write.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Path, with `[Launcher]` for an entry of a map and `[]` for an item of a list.
    pub path: &'static str,
    /// A value that makes a difference, as JSON.
    pub sample: &'static str,
    /// What becomes of it.
    pub answer: Answer,
    /// What it means here, for people.
    pub meaning: &'static str,
}

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It changes the job, or is refused where its value is wrong.
    Honoured,
    /// It says whose job it is, before anything else is read.
    Routes,
    /// It is refused by name, whatever its value.
    Refused,
}

impl Field {
    /// A field that is honoured.
    pub(crate) const fn honoured(
        path: &'static str,
        sample: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self {
            path,
            sample,
            answer: Answer::Honoured,
            meaning,
        }
    }

    /// A field that says whose job it is.
    pub(crate) const fn routes(
        path: &'static str,
        sample: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self {
            path,
            sample,
            answer: Answer::Routes,
            meaning,
        }
    }

    /// A field that is refused.
    pub const fn refused(path: &'static str, sample: &'static str, meaning: &'static str) -> Self {
        Self {
            path,
            sample,
            answer: Answer::Refused,
            meaning,
        }
    }
}
