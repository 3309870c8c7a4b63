//! Which patterns were found.

/// A set of pattern numbers: asked in one step, emptied in as many steps as it has members.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    words: Vec<u64>,
    numbers: Vec<u32>,
}

impl Hits {
    /// Room for hits of this number of patterns.
    pub fn new(patterns: usize) -> Hits {
        Hits { words: vec![0; patterns.div_ceil(64)], numbers: Vec::with_capacity(patterns) }
    }

    /// True if the pattern with this number was found.
    pub fn contains(&self, number: u32) -> bool {
        let word = self.words.get(number as usize / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The numbers, each once, in the order in which they were found.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Clears all hits.
    pub fn clear(&mut self) {
        for number in self.numbers.drain(..) {
            self.words[number as usize / 64] = 0;
        }
    }

    /// Forgets all, and makes room for numbers below `patterns`.
    pub(super) fn begin(&mut self, patterns: usize) {
        self.clear();
        self.words.resize(patterns.div_ceil(64), 0);
    }

    /// Notes a pattern; true if it is new.
    pub(super) fn add(&mut self, number: u32) -> bool {
        let word = &mut self.words[number as usize / 64];
        let is_new = *word >> (number % 64) & 1 == 0;
        if is_new {
            *word |= 1 << (number % 64);
            self.numbers.push(number);
        }
        is_new
    }
}
