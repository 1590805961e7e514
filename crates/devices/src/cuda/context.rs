//! Context of a driver, and handles of objects that are released in this context.

use super::api::CudaApi;
use crate::driver::{DeviceError, Handle};

/// Context of a device, with the driver's functions.
#[derive(Clone, Copy)]
pub struct Context {
    /// Functions of the driver.
    pub api: &'static CudaApi,
    /// Driver's handle of the context.
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

    /// Creates a handle for an object. Dropping the handle releases the object in this context.
    pub fn create_handle(
        self,
        raw: usize,
        release: unsafe fn(&CudaApi, usize) -> Result<(), DeviceError>,
    ) -> Handle {
        Handle::new(raw, move |raw| {
            // SAFETY: the handle owns the object. Errors are ignored, because a lost device has already released all
            // its objects.
            let _ = self.enter().and_then(|api| unsafe { release(api, raw) });
        })
    }
}
