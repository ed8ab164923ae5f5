//! T9k's acceptance list, as far as it consists of facts about a job, its pods and its status. The
//! numbers in the names are those of the list; `docs/acceptance.md` has all of it.

mod modes;
mod pods;
mod queue;
mod seed;
mod status;
