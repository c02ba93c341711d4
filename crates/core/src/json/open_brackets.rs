//! The brackets that are open at a place of a JSON text, a bit each.

use smallvec::SmallVec;

/// Open brackets, however many; the first 128 take no memory of the heap.
#[derive(Debug, Default)]
pub struct OpenBrackets {
    words: SmallVec<[u64; 2]>,
    count: usize,
}

impl OpenBrackets {
    /// Open one more: that of an object or of a list.
    pub fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.count / 64, self.count % 64);
        if word == self.words.len() {
            self.words.push(0);
        }
        self.words[word] = self.words[word] & !(1 << bit) | u64::from(is_object) << bit;
        self.count += 1;
    }

    /// Close the innermost.
    pub fn pop(&mut self) {
        self.count -= 1;
    }

    /// Whether the innermost is that of an object; None when all are closed.
    pub fn innermost(&self) -> Option<bool> {
        let index = self.count.checked_sub(1)?;
        Some(self.words[index / 64] >> (index % 64) & 1 == 1)
    }
}
