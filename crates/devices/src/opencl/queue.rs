//! In-order queue of OpenCL, with times measured by the device's clock.

use super::NO_EVENTS;
use super::api::{Object, OpenClApi, check};
use crate::driver::{
    Arg, BufferCopy, DeviceError, DeviceKernel, Handle, LaunchGrid, Queue, QueueEvent,
};
use nodegauge_measure::Seconds;
use std::ptr::{null, null_mut};

/// Value of `CL_PROFILING_COMMAND_END`.
const COMMAND_END: u32 = 0x1283;

/// In-order queue of an OpenCL device.
pub struct OpenClQueue {
    pub api: &'static OpenClApi,
    pub queue: Handle,
}

impl OpenClQueue {
    pub fn object(&self) -> Object {
        self.queue.raw as Object
    }

    /// Returns the time of an event by the device's clock, nanoseconds.
    fn time(&self, mark: &QueueEvent) -> Result<u64, DeviceError> {
        let mut nanos = 0u64;
        // SAFETY: the event lives, and there is room for a number of 64 bits.
        let code = unsafe {
            (self.api.clGetEventProfilingInfo)(
                mark.0.raw as Object,
                COMMAND_END,
                size_of::<u64>(),
                (&raw mut nanos).cast(),
                null_mut(),
            )
        };
        check("clGetEventProfilingInfo", code).map(|()| nanos)
    }
}

impl Queue for OpenClQueue {
    unsafe fn launch(
        &mut self,
        kernel: &DeviceKernel,
        args: &[Arg<'_>],
        grid: LaunchGrid,
    ) -> Result<(), DeviceError> {
        let api = self.api;
        let kernel = kernel.0.raw as Object;
        for (number, arg) in args.iter().enumerate() {
            let (at, bytes) = arg.raw_parts();
            // SAFETY: the call copies the argument, which is `bytes` long.
            let code = unsafe { (api.clSetKernelArg)(kernel, number as u32, bytes, at) };
            check("clSetKernelArg", code)?;
        }
        let all = grid.groups * grid.items;
        let group = grid.items;
        let group: *const usize = if grid.driver_groups { null() } else { &raw const group };
        let (events, list) = NO_EVENTS;
        // SAFETY: the grid has one dimension; the caller guarantees that the arguments are valid.
        let code = unsafe {
            (api.clEnqueueNDRangeKernel)(
                self.object(),
                kernel,
                1,
                null(),
                &raw const all,
                group,
                events,
                list,
                null_mut(),
            )
        };
        check("clEnqueueNDRangeKernel", code)
    }

    unsafe fn copy(&mut self, copy: BufferCopy<'_>, bytes: usize) -> Result<(), DeviceError> {
        let api = self.api;
        let queue = self.object();
        let (events, list) = NO_EVENTS;
        // SAFETY: the buffers are long enough, and the caller guarantees that they live.
        let (call, code) = unsafe {
            match copy {
                BufferCopy::HostToDevice(from, to) => {
                    let at = from.address_for(bytes);
                    let write = api.clEnqueueWriteBuffer;
                    (
                        "clEnqueueWriteBuffer",
                        write(
                            queue,
                            to.handle_for(bytes) as Object,
                            0,
                            0,
                            bytes,
                            at,
                            events,
                            list,
                            null_mut(),
                        ),
                    )
                }
                BufferCopy::DeviceToHost(from, to) => {
                    let at = to.address_for(bytes);
                    let read = api.clEnqueueReadBuffer;
                    (
                        "clEnqueueReadBuffer",
                        read(
                            queue,
                            from.handle_for(bytes) as Object,
                            0,
                            0,
                            bytes,
                            at,
                            events,
                            list,
                            null_mut(),
                        ),
                    )
                }
                BufferCopy::DeviceToDevice(from, to) => {
                    let enqueue = api.clEnqueueCopyBuffer;
                    (
                        "clEnqueueCopyBuffer",
                        enqueue(
                            queue,
                            from.handle_for(bytes) as Object,
                            to.handle_for(bytes) as Object,
                            0,
                            0,
                            bytes,
                            events,
                            list,
                            null_mut(),
                        ),
                    )
                }
            }
        };
        check(call, code)
    }

    fn enqueue_event(&mut self) -> Result<QueueEvent, DeviceError> {
        let api = self.api;
        let mut event = null_mut();
        let (events, list) = NO_EVENTS;
        // SAFETY: there is room for an event.
        let code = unsafe {
            (api.clEnqueueMarkerWithWaitList)(self.object(), events, list, &raw mut event)
        };
        check("clEnqueueMarkerWithWaitList", code)?;
        Ok(QueueEvent(Handle::new(event as usize, |raw| {
            // SAFETY: the handle owns the event.
            unsafe { (api.clReleaseEvent)(raw as Object) };
        })))
    }

    fn submit(&mut self) -> Result<(), DeviceError> {
        // SAFETY: the queue lives.
        check("clFlush", unsafe { (self.api.clFlush)(self.object()) })
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        // SAFETY: the queue lives.
        check("clFinish", unsafe { (self.api.clFinish)(self.object()) })
    }

    fn seconds_between(&self, from: &QueueEvent, to: &QueueEvent) -> Result<Seconds, DeviceError> {
        Ok(Seconds(self.time(to)?.saturating_sub(self.time(from)?) as f64 / 1e9))
    }
}
