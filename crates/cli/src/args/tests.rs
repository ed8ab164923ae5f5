//! What must hold for the grammar as a whole.

mod page;
