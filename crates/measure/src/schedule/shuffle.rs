//! Random orders with a fixed seed.

/// Returns the successor of each element of a cycle that visits the elements in this order.
pub fn successors(order: &[u32]) -> Vec<u32> {
    let mut next = vec![order.first().copied().unwrap_or(0); order.len()];
    order.windows(2).for_each(|pair| next[pair[0] as usize] = pair[1]);
    next
}

/// Generator of random orders with a seed. It uses xorshift64*, whose quality is sufficient for shuffling.
#[derive(Debug, Clone)]
pub struct Shuffler(u64);

impl Shuffler {
    /// Returns a generator. The same seed produces the same orders.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.shuffle_while(items, || true);
    }

    /// Puts `items` into a random order. `goes_on` is called for each item; if it returns false,
    /// the function stops and returns false.
    pub fn shuffle_while<T>(&mut self, items: &mut [T], mut goes_on: impl FnMut() -> bool) -> bool {
        for i in (1..items.len()).rev() {
            if !goes_on() {
                return false;
            }
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let random = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
            items.swap(i, (random % (i as u64 + 1)) as usize);
        }
        true
    }
}
