// Package rootfs describes the root file system of a sandbox as plain data: the visible parts of the host or of an image,
// the written files, the devices, and the hidden parts of /proc. A [Builder] makes the parts that every root shares; each
// runtime makes the writable ones.
//
// An image is untrusted: no path of it is resolved on the host through a link. This package opens files by descriptor,
// one name at a time, and never through a link. Runtimes that make the root do the same.
//
// Used by the native and gVisor runtimes. Linux only.
package rootfs
