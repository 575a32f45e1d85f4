//! `rmq-launcher`: starts the watcher, then becomes the scheduler. See [`rmq_watcher::process::launch`].
//!
//! C's `main` instead of Rust's: std's start would set SIGPIPE to ignored and reopen closed standard descriptors, and the
//! scheduler has to find both as the caller left them.

#![cfg_attr(not(test), no_main)]

/// The program's entry.
///
/// # Safety
/// Called by the C runtime only, with the arguments of the process.
#[cfg(not(test))]
#[expect(unsafe_code, reason = "C's main is the entry of a program without std's start")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(argc: std::ffi::c_int, argv: *const *const std::ffi::c_char) -> std::ffi::c_int {
    // SAFETY: these are the values that the C runtime gives to main.
    let arguments = unsafe { rmq_watcher::process::launch::arguments(argc, argv) };
    rmq_watcher::process::launch::run(&arguments)
}
