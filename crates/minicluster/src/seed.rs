//! Names and UIDs out of a number. Decides nothing; the same seed gives the same names.

/// A stream of numbers that look random and are not.
#[derive(Clone, Debug)]
pub(crate) struct Seed(u64);

/// As the API server has it: no vowels, so no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Seed {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Five letters for a generated name.
    pub(crate) fn suffix(&mut self) -> String {
        let mut bits = self.next();
        let mut text = String::new();
        for _ in 0..5 {
            let index = usize::try_from(bits % 27).expect("27 fits any integer");
            text.push(char::from(LETTERS[index]));
            bits /= 27;
        }
        text
    }

    /// A UUID of version 4.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48) & 0x3fff,
            low & 0xffff_ffff_ffff
        )
    }
}
