//! Context of a driver, and objects that are released in it.

use super::api::CudaApi;
use crate::driver::{DeviceError, Handle};

/// Context of a device, with its driver.
#[derive(Clone, Copy)]
pub struct Context {
    /// Driver of the context.
    pub api: &'static CudaApi,
    /// Handle of the context in the driver.
    pub raw: usize,
}

impl Context {
    /// Makes the context current in this thread and returns the driver's functions.
    ///
    /// # Errors
    /// Fails if the driver has lost the context.
    pub fn enter(self) -> Result<&'static CudaApi, DeviceError> {
        // SAFETY: the context is retained until the program ends.
        unsafe { self.api.make_current(self.raw)? };
        Ok(self.api)
    }

    /// Creates a handle of an object that is released in this context.
    pub fn handle(
        self,
        raw: usize,
        release: unsafe fn(&CudaApi, usize) -> Result<(), DeviceError>,
    ) -> Handle {
        Handle::new(raw, move |raw| {
            // SAFETY: the handle owns the object. A failure is ignored: a lost device has released all objects.
            let _ = self.enter().and_then(|api| unsafe { release(api, raw) });
        })
    }
}
