package file

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// packed is the header of an archive entry.
type packed struct {
	name string
	mode int64 // permission bits
	time time.Time
}

// archiveFormat writes an archive.
type archiveFormat interface {
	// name is the last element of a path in the archive's encoding.
	name(base string) string
	dir(e packed) error
	link(e packed, target string) error
	file(e packed, size int64, r io.Reader) error
	close() error
}

func newFormat(format belljar.UploadFormat, w io.Writer) archiveFormat {
	switch format {
	case belljar.UploadZip:
		z := zip.NewWriter(w)
		z.RegisterCompressor(zip.Deflate, deflater())
		return zipFormat{z}
	case belljar.UploadTarGz:
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // cannot fail: the level is valid
		return tarFormat{tar.NewWriter(z), z}
	}
	return tarFormat{tar.NewWriter(w), nil}
}

// deflater reuses one compressor for all files: making one costs more than compressing most files.
func deflater() zip.Compressor {
	var one *flate.Writer
	return func(w io.Writer) (_ io.WriteCloser, err error) {
		if one == nil {
			one, err = flate.NewWriter(w, flate.BestSpeed)
		} else {
			one.Reset(w)
		}
		return one, err
	}
}

// tarFormat is a tar stream; below, if set, compresses it.
type tarFormat struct {
	w     *tar.Writer
	below io.Closer
}

func (tarFormat) name(base string) string { return base }

func (p tarFormat) dir(e packed) error {
	return p.w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: e.name + "/", Mode: e.mode, ModTime: e.time})
}

func (p tarFormat) link(e packed, target string) error {
	return p.w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: e.name, Linkname: target, Mode: e.mode, ModTime: e.time})
}

func (p tarFormat) file(e packed, size int64, r io.Reader) error {
	if err := p.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: size, Mode: e.mode, ModTime: e.time}); err != nil {
		return err
	}
	_, err := io.Copy(p.w, r)
	return err
}

func (p tarFormat) close() error {
	err := p.w.Close()
	if err == nil && p.below != nil {
		err = p.below.Close()
	}
	return err
}

// zipFormat is a zip archive. It must be safe on Windows, where \ separates paths as / does and C: is a drive.
type zipFormat struct{ w *zip.Writer }

func (zipFormat) name(base string) string {
	return strings.ToValidUTF8(strings.NewReplacer(`\`, "_", ":", "_").Replace(base), "_")
}

func (p zipFormat) header(e packed, mode fs.FileMode) *zip.FileHeader {
	h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: e.time}
	h.SetMode(fs.FileMode(e.mode) | mode)
	return h
}

func (p zipFormat) dir(e packed) error {
	h := p.header(e, fs.ModeDir)
	h.Name, h.Method = e.name+"/", zip.Store
	_, err := p.w.CreateHeader(h)
	return err
}

func (p zipFormat) link(e packed, target string) error {
	h := p.header(e, fs.ModeSymlink)
	h.Method = zip.Store
	w, err := p.w.CreateHeader(h)
	if err == nil {
		_, err = io.WriteString(w, target)
	}
	return err
}

func (p zipFormat) file(e packed, _ int64, r io.Reader) error {
	w, err := p.w.CreateHeader(p.header(e, 0))
	if err == nil {
		_, err = io.Copy(w, r)
	}
	return err
}

func (p zipFormat) close() error { return p.w.Close() }
