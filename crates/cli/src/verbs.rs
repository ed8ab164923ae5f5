//! One file per verb: reads its flags, asks the rest of the crate, prints.

pub(crate) mod completion;
pub(crate) mod fields;
pub(crate) mod generate;
pub(crate) mod lint;
pub(crate) mod render;
pub(crate) mod version;
