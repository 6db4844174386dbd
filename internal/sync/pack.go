package sync

import (
	"archive/tar"
	"io"
	"maps"
	"slices"
	"strings"
)

// Bounds are the limits of one archive. A single file may have more bytes.
type Bounds struct {
	Files int
	Bytes int64
	Depth int // folders above a file; 0 for any number
}

// Archive is a part of an upload: files below a folder.
type Archive struct {
	Dir   string // with a slash at its end; "" is the root
	Names []string
}

// Archives splits the upload.
func (p *Plan) Archives(b Bounds) (list []Archive) {
	below := map[string][]string{} // by target folder of the archive
	for _, name := range p.Upload {
		dir := b.dir(name)
		below[dir] = append(below[dir], name)
	}
	for _, dir := range slices.Sorted(maps.Keys(below)) {
		from, sum := 0, int64(0)
		for i, name := range below[dir] {
			n := p.Next[name].Size
			if i > from && (i-from >= b.Files || sum+n > b.Bytes) {
				list = append(list, Archive{dir, below[dir][from:i]})
				from, sum = i, 0
			}
			sum += n
		}
		list = append(list, Archive{dir, below[dir][from:]})
	}
	return list
}

// dir returns the target folder of an archive with a file, chosen so that the file is not too deep below it.
func (b Bounds) dir(name string) string {
	parts := strings.SplitAfter(name, "/")
	if b.Depth <= 0 || len(parts) < 2 {
		return ""
	}
	return strings.Join(parts[:(len(parts)-2)/b.Depth*b.Depth], "")
}

// Pack writes an archive of the plan to w, in tar format. It packs the current content of a file that has changed since the scan; the next
// scan checks that file again.
func (p *Plan) Pack(w io.Writer, a Archive) error {
	archive := tar.NewWriter(w)
	for _, name := range a.Names {
		content, err := p.content(name)
		if err != nil {
			return err
		}
		f := p.Next[name]
		if sum := digest(content); sum != f.SHA {
			f.SHA, f.Size, f.Mtime = sum, int64(len(content)), 0
			p.Next[name] = f
		}
		mode := int64(0o644)
		if f.Exec {
			mode = 0o755
		}
		if err := archive.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, a.Dir), Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}
