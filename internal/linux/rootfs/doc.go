// Package rootfs says what the root file system of a sandbox is made of, as plain data: what of the host or of an image
// is shown, which files are written for it, which devices there are, what of /proc is hidden. It makes nothing itself.
// A runtime makes the same root of it with mount calls, another with an OCI bundle.
//
// An image is somebody else's: no path of it is resolved on the host through a link. What this package looks at it opens
// by descriptor, one name at a time, and never through a link. Whoever makes the root does the same.
//
// Used by the native and gVisor runtimes. Linux only.
package rootfs
