package sync

import (
	"archive/tar"
	"io"
)

// Archives splits the upload into lists of at most so many files, and so many bytes unless one file has more.
func (p *Plan) Archives(files int, size int64) (lists [][]string) {
	var list []string
	var sum int64
	for _, name := range p.Upload {
		n := p.Next[name].Size
		if len(list) > 0 && (len(list) >= files || sum+n > size) {
			lists, list, sum = append(lists, list), nil, 0
		}
		list, sum = append(list, name), sum+n
	}
	if len(list) > 0 {
		lists = append(lists, list)
	}
	return lists
}

// Pack writes files of the plan to w as a tar archive. A file that has changed since the scan is packed as it is now, and will be
// looked at again.
func (p *Plan) Pack(w io.Writer, names []string) error {
	archive := tar.NewWriter(w)
	for _, name := range names {
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
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}
