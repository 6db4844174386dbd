package docker

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// writeTree writes an unpacked image as a tar: folders, files, and links of both kinds, all of them root's, without
// set-uid bits. Of anything else there is nothing in an unpacked image, and it is an error.
func writeTree(ctx context.Context, w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tw := tar.NewWriter(w)
	seen := map[fileID]string{} // files with several names, by the first of them
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return writeEntry(tw, root, name, entry, seen)
	})
	if err != nil {
		return fmt.Errorf("read the unpacked image: %w", err)
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, root *os.Root, name string, entry fs.DirEntry, seen map[fileID]string) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch mode := info.Mode(); {
	case mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		if mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		return tw.WriteHeader(h)
	case mode&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(name); err != nil {
			return err
		}
		return tw.WriteHeader(h)
	case !mode.IsRegular():
		return fmt.Errorf("%s is no file, folder or link", path.Clean(name))
	}
	if id, ok := identify(info); ok {
		if first, again := seen[id]; again {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return tw.WriteHeader(h)
		}
		seen[id] = name
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(tw, file)
	return err
}
