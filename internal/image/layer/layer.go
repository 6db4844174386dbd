// Package layer unpacks the layers of an image, untrusted tar archives, into folders, and merges such folders into the root of an image.
// It treats everything in a layer as an attack until it is on disk.
//
// [Unpack] makes a folder for [Merge] only, never the root of a sandbox: its marks hide files of lower layers. [Merge] makes a folder
// without marks.
//
// Parts of an entry that are kept, and parts that are not:
//
//   - Files, folders, symbolic links and hard links, with their times, which are limited to 1970 to 2242.
//   - Permission bits, changed: every user may read or execute what the owner may, because in a sandbox
//     programs run as a user that the image does not know. Only the owner may write, because images are shared.
//     The owner may always read, and write to folders, and so can remove them without privileges.
//     Set-user-id, set-group-id and sticky bits are removed: a sandbox gains no rights by running a file.
//   - Of extended attributes those called user.*, if the file system supports them. security.* would give rights
//     (security.capability is another set-user-id), system.* is access control, and trusted.* and user.overlay.* speak to
//     overlay mounts; those are removed.
//   - Owners are not kept. All files belong to the unpacking user: without privileges nothing else is possible, and the ids of an
//     image would be those of other users on this machine.
//   - Devices, FIFOs and sockets are left out, but hide lower files of the same name as if they existed. A sandbox has
//     its own /dev. A character device 0/0 is a whiteout, as overlay mounts have it.
//
// Names are bytes, as they are to Linux; no letter but NUL is forbidden. Leading slashes are ignored. A name with .. in it is refused.
// If a parent is a symbolic link of the same layer, the entry goes to the link's target inside the layer: / is the layer's root and ..
// above it stays there. Between layers the rules are those of overlay mounts: links are never followed. A folder replaces any other file
// below it, and any other file replaces a folder. Of entries with one name the last counts.
//
// An entry that breaks a rule is a [belljar.CodeImageInvalid] error with details entry and rule, which is one of
//
//	name       empty, longer than 255 bytes between slashes or 4095 in all, NUL
//	traversal  .. in a name
//	whiteout   of nothing, of . or ..; or an entry below, or linked to, a name that begins with .wh.
//	depth, files, folders, bytes, stream   more than [Options] allow; details.limit is the limit
//	walks      the parents of all entries lead over too many folders and links; details.limit is the limit
//	hard_link  to a missing or later entry, or to a folder
//	symlink    no target, one of more than 4095 bytes or with a NUL; or parents that lead in a circle, or over more than a thousand names
//	type       none of the above, such as the continuation of an archive on another tape
//	cut_off, malformed   not a complete tar archive
package layer

// Options bound one layer. A zero field is its default.
type Options struct {
	MaxBytes int64 // of the files, unpacked, with holes and attributes; default 16 GiB
	MaxFiles int   // entries of any kind, and folders without an entry; default 2,000,000
	MaxDepth int   // folders above an entry; default 128
}

func (o Options) orDefault() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 16 << 30
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = 2_000_000
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = 128
	}
	return o
}

// stream is how long an archive within the limits can be: each entry has a header, padding, and perhaps a long name. A longer one has
// headers of a megabyte, or no end.
func (o Options) stream() int64 { return o.MaxBytes + int64(o.MaxFiles)*8192 + 1<<20 }

// maxFolders limits Unpack's memory: it keeps a layer's folders by name until it has set their times.
const maxFolders = 1 << 19

// Stats are the results of [Unpack] or [Merge].
type Stats struct {
	Files     int   `json:"files"`     // regular files; those that Merge linked or copied
	Folders   int   `json:"folders"`   // made, without the root
	Symlinks  int   `json:"symlinks"`  // symbolic links
	HardLinks int   `json:"hardlinks"` // additional names of files; Merge counts each as a file
	Whiteouts int   `json:"whiteouts"` // marks, including opaque folders
	Bytes     int64 `json:"bytes"`     // of the files that Unpack wrote or Merge copied
	Skipped   int   `json:"left_out"`  // devices, FIFOs and sockets, and hard links to them
	Attrs     int   `json:"attrs"`     // extended attributes that were dropped
	Copied    int   `json:"copied"`    // files that Merge had to copy, because they could not be linked
}
