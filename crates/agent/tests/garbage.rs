//! A short and repeatable run of the fuzz targets' properties: the recorded seeds, and changes of
//! them that a fixed number sequence chooses. Long runs: `cargo fuzz run frames` in `fuzz/`.

#[path = "garbage/frames.rs"]
mod frames;
#[path = "garbage/words.rs"]
mod words;

use std::path::Path;

const CHANGES_PER_SEED: u32 = 4000;

/// Numbers that look random and are the same in every run.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        const TELLING: [u8; 8] = [0, 1, 0xff, b'-', b'@', b'=', b'o', b' '];
        match self.below(2) {
            0 => TELLING[self.below(TELLING.len())],
            _ => u8::try_from(self.below(256)).unwrap(),
        }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(4) {
                0 => bytes.insert(at, self.byte()),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 if at < bytes.len() => bytes[at] = self.byte(),
                _ => bytes.truncate(at),
            }
        }
    }
}

fn run(seeds: &str, property: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/seeds")
        .join(seeds);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", folder.display());
    let mut sequence = Sequence(0x9e37_79b9_7f4a_7c15);
    for file in files {
        let seed = std::fs::read(&file).unwrap();
        property(&seed);
        for _ in 0..CHANGES_PER_SEED {
            let mut bytes = seed.clone();
            sequence.change(&mut bytes);
            property(&bytes);
        }
    }
}

#[test]
fn any_bytes_are_frames_or_an_error() {
    run("frames", frames::check);
}

#[test]
fn any_words_are_a_call_or_an_error() {
    run("words", words::check);
}
