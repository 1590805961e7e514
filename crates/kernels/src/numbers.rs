//! Pseudorandom numbers for the verification of copies and matrix products on a device. Each number is computed from
//! its position. This crate contains the functions, because only crates with timed loops are compiled with full
//! optimisation.

/// Odd number near 2^64 divided by the golden ratio, by which positions are multiplied.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the word at position `at` of a copy. Each copy has different words, so that data of an earlier copy are
/// detected.
fn word(copy: u64, at: usize) -> u64 {
    (copy << 40 | at as u64).wrapping_mul(GOLDEN)
}

/// Fills `words` with the words of copy `copy`.
pub fn fill_words(words: &mut [u64], copy: u64) {
    words.iter_mut().enumerate().for_each(|(at, each)| *each = word(copy, at));
}

/// Returns the position of the first word that differs from the word of copy `copy`; `None` if all words are correct.
pub fn first_wrong_word(words: &[u64], copy: u64) -> Option<usize> {
    words.iter().enumerate().position(|(at, each)| *each != word(copy, at))
}

/// Returns element `i` of the first (0) or second (1) factor of a product, between -1/2 and 1/2. The bits are
/// pseudorandom, because the power consumption of multipliers depends on the data.
pub fn factor_element(factor: usize, i: usize) -> f64 {
    let mixed = ((2 * i + factor) as u64 + 1).wrapping_mul(GOLDEN);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// Writes the elements of a factor.
pub fn fill_factor(numbers: &mut [f64], factor: usize) {
    numbers.iter_mut().enumerate().for_each(|(i, x)| *x = factor_element(factor, i));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_wrong_word_is_found() {
        let mut words = vec![0; 1000];
        fill_words(&mut words, 3);
        assert_eq!(first_wrong_word(&words, 3), None);
        assert_eq!(first_wrong_word(&words, 2), Some(0));
        words[700] += 1;
        assert_eq!(first_wrong_word(&words, 3), Some(700));
    }

    #[test]
    fn factor_elements_are_at_most_one_half() {
        let mut numbers = vec![0.0; 1000];
        fill_factor(&mut numbers, 1);
        assert!(numbers.iter().all(|x| (-0.5..0.5).contains(x)));
        assert_eq!(numbers[7], factor_element(1, 7));
        assert_ne!(numbers[7], factor_element(0, 7));
    }
}
