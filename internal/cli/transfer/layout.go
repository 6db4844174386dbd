package transfer

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

// layout reads an OCI layout in a folder, as skopeo and buildah write it, as a tar archive.
type layout struct {
	root *os.Root
	out  *io.PipeReader
}

// OpenLayout packs the layout in a folder and returns its approximate size in bytes. It returns [fs.ErrNotExist] if there is none.
func OpenLayout(dir string) (packed io.ReadCloser, size int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	names := []string{"oci-layout", "index.json"}
	for _, name := range names {
		if _, err := root.Stat(name); err != nil {
			return nil, 0, errors.Join(err, root.Close())
		}
	}
	if _, err := root.Stat("manifest.json"); err == nil { // also the format of docker save
		names = append(names, "manifest.json")
	}
	err = fs.WalkDir(root.FS(), "blobs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := root.Stat(name) // the target of a link, inside the folder
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, 0, errors.Join(err, root.Close())
	}
	out, in := io.Pipe()
	l := &layout{root: root, out: out}
	go func() { in.CloseWithError(l.pack(in, names)) }()
	return l, size, nil
}

// pack writes files to an archive.
func (l *layout) pack(to io.Writer, names []string) error {
	w := tar.NewWriter(to)
	for _, name := range names {
		if err := l.file(w, name); err != nil {
			return err
		}
	}
	return w.Close()
}

func (l *layout) file(w *tar.Writer, name string) error {
	f, err := l.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: path.Clean(name), Typeflag: tar.TypeReg, Mode: 0o644, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, info.Size())
	return err
}

// Read reads the archive.
func (l *layout) Read(p []byte) (int, error) { return l.out.Read(p) }

// Close ends the packing.
func (l *layout) Close() error { return errors.Join(l.out.Close(), l.root.Close()) }
