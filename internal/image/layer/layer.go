// Package layer turns the layers of an image, untrusted tar archives, into folders, and such folders
// into the root of an image. Everything in a layer is taken for an attack until it is on disk.
//
// What comes out of [Unpack] is a folder for [Merge] only, never the root of a sandbox: it has marks in it that hide
// what lies below it. What comes out of [Merge] has none.
//
// What is kept of an entry, and what not:
//
//   - Files, folders, symbolic links and hard links, with their times, which are brought between 1970 and 2242.
//   - Permission bits, made wider and narrower: what its owner may read or execute, every user may, for in a sandbox
//     programs run as a user that the image does not know; only its owner may write, for images are shared.
//     The owner may always read, and write to folders, and so can remove them again without rights.
//     Set-user-id, set-group-id and sticky bits go: a sandbox gains no rights by running a file.
//   - Of extended attributes those called user.*, where the file system takes them. security.* would give rights
//     (security.capability is another set-user-id), system.* is access control, and trusted.* and user.overlay.* speak to
//     overlay mounts; those go.
//   - Owners are not kept. All files belong to the unpacking user: without privileges nothing else is possible, and the ids of an
//     image would be those of other users on this machine.
//   - Devices, FIFOs and sockets are left out, and hide what lies below as they would if they were there. A sandbox has
//     its own /dev. A character device 0/0 is a whiteout, as overlay mounts have it.
//
// Names are bytes, as they are to Linux; no letter but NUL is forbidden. Leading slashes are ignored. A name with .. in it is refused.
// Where a parent is a symbolic link of the same layer the entry goes to where it leads, inside the layer: / is the layer's
// root and .. above it stays there. Between layers the rules are those of overlay mounts: links are never followed, a
// folder over anything else takes its place, as does anything else over a folder. Of entries with one name the last counts.
//
// An entry that breaks a rule is a [belljar.CodeImageInvalid] error with details entry and rule, which is one of
//
//	name       empty, longer than 255 bytes between slashes or 4095 in all, NUL
//	traversal  .. in a name
//	whiteout   one of nothing, of . or .., or anything else below or linked to a name that begins with .wh.
//	depth, files, folders, bytes, stream   more than [Options] allow; details.limit is how much that is
//	hard_link  to what is not there, yet or at all, or to a folder
//	symlink    no target, one of more than 4095 bytes or with a NUL; or parents that lead in a circle, or over more than a thousand names
//	type       neither of the above, such as the continuation of an archive on another tape
//	cut_off, malformed   no whole tar archive
package layer

// Options bound one layer. A zero field is its default.
type Options struct {
	MaxBytes int64 // of the files, unpacked, with holes and attributes; default 16 GiB
	MaxFiles int   // entries of any kind, and folders that none names; default 2,000,000
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

// stream is how long an archive of what is allowed can be: each entry has a header, padding, and perhaps a long name.
// What is longer has headers of a megabyte, or no end.
func (o Options) stream() int64 { return o.MaxBytes + int64(o.MaxFiles)*8192 + 1<<20 }

// maxFolders bounds what Unpack keeps in memory: it knows a layer's folders by name until their times are set.
const maxFolders = 1 << 19

// Stats is what was done.
type Stats struct {
	Files     int   `json:"files"`     // regular files; those that Merge linked or copied
	Folders   int   `json:"folders"`   // made, the root not counted
	Symlinks  int   `json:"symlinks"`  // symbolic links
	HardLinks int   `json:"hardlinks"` // further names of files; Merge counts each as a file
	Whiteouts int   `json:"whiteouts"` // marks; opaque folders too
	Bytes     int64 `json:"bytes"`     // of the files that Unpack wrote or Merge copied
	Skipped   int   `json:"left_out"`  // devices, FIFOs and sockets, and hard links to them
	Attrs     int   `json:"attrs"`     // extended attributes that were not kept
	Copied    int   `json:"copied"`    // files that Merge had to copy, because they could not be linked
}
