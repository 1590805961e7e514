//! Distinct items, and groups of items by key, in order of first appearance.

use std::collections::HashMap;
use std::hash::Hash;

/// Returns the distinct items, in the order of first appearance.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// Groups items by key, in the order of first appearance of the keys.
pub fn group_by_key<T, K: Clone + Eq + Hash>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut indices: HashMap<K, usize> = HashMap::new();
    for item in items {
        let key = key(&item);
        let index = *indices.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(index) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}
