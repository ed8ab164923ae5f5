//! One file per verb: reads its flags, asks the rest of the crate, prints.

pub(crate) mod cancel;
pub(crate) mod completion;
pub(crate) mod convert;
pub(crate) mod describe;
pub(crate) mod down;
pub(crate) mod fields;
pub(crate) mod generate;
pub(crate) mod get;
pub(crate) mod lint;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod submit;
pub(crate) mod up;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod why;
