// Package overlay makes the file system of a workspace that begins with the files of a folder of the host, without copying them.
//
// The mounts need the rights of the host's root: only such an overlay can rename folders of the lower files (redirect_dir), and keep the
// names of one file together when it is written to (index). An overlay that a user namespace mounts can do neither. The folder's files are
// shown with the sandbox's ids by an idmapped mount (Linux 5.19).
package overlay
