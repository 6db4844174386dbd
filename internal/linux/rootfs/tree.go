//go:build linux

package rootfs

import (
	"cmp"
	"fmt"
	"strings"
)

// Kind is the type of a part of the root.
type Kind int

// The kinds of parts.
const (
	Folder       Kind = iota // empty
	Link                     // a symbolic link to Target
	Text                     // a file of ours, with the text Text
	Bind                     // a file or folder of the tree's Dir, read-only: Source
	BindWritable             // the writable folder Target at another place
)

// Part is one entry of the root.
type Part struct {
	Name   string // below the root, e.g. etc/alternatives
	Kind   Kind
	Source string // of a Bind, below Dir; none of its elements is a link, unless Dir is the host's own root
	File   bool   // a Bind of a file, not of a folder
	Target string // of a Link, unchanged; of a BindWritable, one of [Writable]
	Text   string
	// Over means that Name exists, as a file or folder in another Bind, and the part covers it. Its folder is not a
	// link.
	Over bool
}

// Tree is the whole root, without the [Reserved] parts that every sandbox has of its own. Folders above a part that no
// other part makes are plain folders. A part comes after all parts that are above it in the root.
type Tree struct {
	Dir   string // contains the Sources: / or the unpacked image
	Parts []Part
}

// User is the user of a sandbox's programs. The zero value is 1000:1000.
type User struct{ UID, GID int }

// Fill replaces zeros with the default.
func (u User) Fill() User {
	const usual = 1000
	u.UID = cmp.Or(u.UID, usual)
	u.GID = cmp.Or(u.GID, usual)
	return u
}

// Check returns an error unless the ids are between 1 and last.
func (u User) Check(last int) error {
	if u.UID < 1 || u.UID > last || u.GID < 1 || u.GID > last {
		return fmt.Errorf("the image's user %d:%d is not within 1 and %d", u.UID, u.GID, last)
	}
	return nil
}

// Reserved are the names in the root at which an image's files are never visible.
func Reserved() []string { return []string{"dev", "proc", "sys", "tmp", "run", "workspace"} }

// pageBytes is the least memory of a file, or of a long link.
const pageBytes = 4096

// Room returns the most bytes and inodes that the parts need in a memory file system.
func (t *Tree) Room() (bytes, inodes int64) {
	for _, p := range t.Parts {
		inodes += 2 // and its folder's
		switch p.Kind {
		case Link:
			bytes += pageBytes
		case Text:
			bytes += int64(len(p.Text)) + pageBytes
		}
	}
	return bytes, inodes
}

// Without returns the tree without a part and the parts below it.
func (t *Tree) Without(name string) *Tree {
	rest := &Tree{Dir: t.Dir}
	for _, p := range t.Parts {
		if p.Name != name && !strings.HasPrefix(p.Name, name+"/") {
			rest.Parts = append(rest.Parts, p)
		}
	}
	return rest
}

// Find returns the part of that name, nil if there is none.
func (t *Tree) Find(name string) *Part {
	for i := range t.Parts {
		if t.Parts[i].Name == name {
			return &t.Parts[i]
		}
	}
	return nil
}
