//! Enums whose variants are words that programs and people read. The word is the variant's name, so a
//! word cannot be spelled in two ways; renaming a variant changes what clients see.

/// Declares an enum with its list of words, its writer and its reader.
macro_rules! vocabulary {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $word:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $word,)+
        }

        impl $name {
            /// All variants, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$word),+];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => stringify!($word),)+
                }
            }

            /// The variant that a word stands for.
            pub fn from_text(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }
    };
}

pub(crate) use vocabulary;
