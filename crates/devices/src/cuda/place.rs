//! A context of a driver, and things that are released in it.

use super::api::Api;
use crate::driver::{DeviceError, Handle};

/// Where calls go: a driver and a context of it.
#[derive(Clone, Copy)]
pub struct Place {
    /// The driver.
    pub api: &'static Api,
    /// The context.
    pub context: usize,
}

impl Place {
    /// Makes the context that of this thread.
    ///
    /// # Errors
    /// When the driver has lost it.
    pub fn enter(self) -> Result<&'static Api, DeviceError> {
        // SAFETY: the context is retained until the program ends.
        unsafe { self.api.make_current(self.context)? };
        Ok(self.api)
    }

    /// A thing that is released in this context.
    pub fn handle(
        self,
        raw: usize,
        release: unsafe fn(&Api, usize) -> Result<(), DeviceError>,
    ) -> Handle {
        Handle::new(raw, move |raw| {
            // SAFETY: the thing is the handle's own. A device that was lost has released everything.
            let _ = self.enter().and_then(|api| unsafe { release(api, raw) });
        })
    }
}
