//! What tuning chose, as it is kept in a record and used again.

use super::space::Site;
use crate::arrays::Pages;
use crate::kernels::{Element, Kernel, Shape};
use crate::stream::Options;
use nodegauge_placement::Request;
use serde_json::{Map, Value, json};

/// A whole configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What asks for the threads; the plain request where one thread a core is best.
    pub request: Request,
    /// The pages.
    pub pages: Pages,
    /// Type of the elements for which the loops were chosen.
    pub element: Element,
    /// A loop for each kernel.
    pub loops: Vec<(Kernel, Shape)>,
}

impl Choice {
    /// The team, the pages and the loops together.
    pub(super) fn new(site: &Site, element: Element, loops: Vec<(Kernel, Shape)>) -> Self {
        Self { request: site.request.clone(), pages: site.pages, element, loops }
    }

    /// Puts the choice in the place of what `options` leave open. Loops are chosen together with
    /// their stores and prefetch, so they are taken only where both are open.
    pub fn fill(&self, options: &mut Options) {
        options.pages = options.pages.or(Some(self.pages));
        if options.stores.is_none() && options.prefetch.is_none() && options.element == self.element
        {
            options.loops.clone_from(&self.loops);
        }
    }

    /// As the configuration of a measurement keeps it.
    pub fn to_json(&self) -> Value {
        let loops: Map<String, Value> = self
            .loops
            .iter()
            .map(|(kernel, shape)| {
                let shape = json!({
                    "isa": shape.isa.name(),
                    "stores": shape.stores.name(),
                    "unroll": shape.unroll,
                    "prefetch": shape.prefetch.to_string(),
                });
                (kernel.name().to_owned(), shape)
            })
            .collect();
        json!({
            "threads": self.request.threads,
            "places": self.request.places.as_ref().map(ToString::to_string),
            "bind": self.request.bind.map(|bind| bind.to_string()),
            "per_cache": self.request.per_cache,
            "pages": self.pages.name(),
            "element": self.element.name(),
            "loops": loops,
        })
    }

    /// Reads what [`Choice::to_json`] wrote; `None` when it is not of this version.
    pub fn from_json(value: &Value) -> Option<Self> {
        /// An absent or null field is fine, an unreadable one is not.
        fn optional<T>(
            value: Option<&Value>,
            read: impl Fn(&Value) -> Option<T>,
        ) -> Option<Option<T>> {
            match value {
                None | Some(Value::Null) => Some(None),
                Some(value) => read(value).map(Some),
            }
        }
        let number = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
        let request = Request {
            threads: optional(value.get("threads"), number)?,
            places: optional(value.get("places"), |places| places.as_str()?.parse().ok())?,
            bind: optional(value.get("bind"), |bind| bind.as_str()?.parse().ok())?,
            per_cache: optional(value.get("per_cache"), number)?,
            kmp: None,
        };
        let loops = value.get("loops")?.as_object()?.iter().map(|(kernel, shape)| {
            let text = |key: &str| shape.get(key)?.as_str();
            let shape = Shape {
                isa: text("isa")?.parse().ok()?,
                stores: text("stores")?.parse().ok()?,
                unroll: u8::try_from(shape.get("unroll")?.as_u64()?).ok()?,
                prefetch: text("prefetch")?.parse().ok()?,
            };
            Some((kernel.parse().ok()?, shape))
        });
        Some(Self {
            request,
            pages: value.get("pages")?.as_str()?.parse().ok()?,
            element: value.get("element")?.as_str()?.parse().ok()?,
            loops: loops.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Isa, Prefetch, Stores};

    fn choice() -> Choice {
        let shape = Shape {
            isa: Isa::Portable,
            stores: Stores::Regular,
            unroll: 4,
            prefetch: Prefetch::FarNear(4096, 512),
        };
        Choice {
            request: Request {
                threads: Some(96),
                places: Some("{0}:96:2".parse().unwrap()),
                bind: Some("spread".parse().unwrap()),
                ..Request::default()
            },
            pages: Pages::Transparent,
            element: Element::F64,
            loops: vec![(Kernel::Copy, shape), (Kernel::Triad, shape)],
        }
    }

    #[test]
    fn a_choice_is_read_as_it_was_written() {
        let choice = choice();
        assert_eq!(Choice::from_json(&choice.to_json()), Some(choice.clone()));
        let plain = Choice { request: Request::default(), ..choice };
        assert_eq!(Choice::from_json(&plain.to_json()), Some(plain));
        assert_eq!(Choice::from_json(&json!({"threads": "many"})), None);
    }

    #[test]
    fn what_the_user_fixes_is_left() {
        let choice = choice();
        let mut options = Options { pages: Some(Pages::Base), ..Options::default() };
        choice.fill(&mut options);
        assert_eq!((options.pages, options.loops.len()), (Some(Pages::Base), 2));
        let mut options = Options { stores: Some(Stores::Regular), ..Options::default() };
        choice.fill(&mut options);
        assert_eq!((options.pages, options.loops.len()), (Some(Pages::Transparent), 0));
    }
}
