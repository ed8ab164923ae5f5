//! Enums whose variants are words that programs and people read. A word is the variant's name unless
//! another is given, and is spelled nowhere else; renaming a variant changes what clients see.

/// Declares an enum with the list of its variants, its writer and its reader.
macro_rules! vocabulary {
    ($(#[$about:meta])* pub enum $name:ident {
        $($(#[doc = $doc:literal])+ $variant:ident $(= $word:literal)?,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            /// All variants, in the order of their declaration.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => vocabulary!(@word $variant $($word)?),)+
                }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                let text = match self {
                    $(Self::$variant => concat!($($doc),+),)+
                };
                text.trim()
            }

            /// The variant that a word stands for.
            pub fn from_text(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.as_str() == word)
            }
        }
    };
    (@word $variant:ident) => { stringify!($variant) };
    (@word $variant:ident $word:literal) => { $word };
}

pub(crate) use vocabulary;
