// Package rootfs states what the root file system of a sandbox is made of, as plain data: what of the host or of an image
// is shown, which files are written for it, which devices there are, what of /proc is hidden. A [Builder] makes of that what
// is the same in every root; what a sandbox can write to is each runtime's to make.
//
// An image is untrusted: no path of it is resolved on the host through a link. What this package looks at it opens
// by descriptor, one name at a time, and never through a link. Runtimes that make the root do the same.
//
// Used by the native and gVisor runtimes. Linux only.
package rootfs
