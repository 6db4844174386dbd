package service

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

// packed is what an entry of an archive says of itself.
type packed struct {
	name string
	mode int64 // permission bits
	time time.Time
}

// packing is an archive in the making.
type packing interface {
	// name is what the last part of a path is called in it.
	name(base string) string
	dir(e packed) error
	link(e packed, target string) error
	file(e packed, size int64, r io.Reader) error
	close() error
}

func newPacking(format belljar.UploadFormat, w io.Writer) packing {
	switch format {
	case belljar.UploadZip:
		z := zip.NewWriter(w)
		z.RegisterCompressor(zip.Deflate, squeezer())
		return zipPacking{z}
	case belljar.UploadTarGz:
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // which is a level that it knows
		return tarPacking{tar.NewWriter(z), z}
	}
	return tarPacking{tar.NewWriter(w), nil}
}

// squeezer compresses one file after the other with one compressor: making one costs more than most files.
func squeezer() zip.Compressor {
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

// tarPacking is a tar stream, compressed if there is something below it.
type tarPacking struct {
	w     *tar.Writer
	below io.Closer
}

func (tarPacking) name(base string) string { return base }

func (p tarPacking) dir(e packed) error {
	return p.w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: e.name + "/", Mode: e.mode, ModTime: e.time})
}

func (p tarPacking) link(e packed, target string) error {
	return p.w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: e.name, Linkname: target, Mode: e.mode, ModTime: e.time})
}

func (p tarPacking) file(e packed, size int64, r io.Reader) error {
	if err := p.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: size, Mode: e.mode, ModTime: e.time}); err != nil {
		return err
	}
	_, err := io.Copy(p.w, r)
	return err
}

func (p tarPacking) close() error {
	err := p.w.Close()
	if err == nil && p.below != nil {
		err = p.below.Close()
	}
	return err
}

// zipPacking is a zip archive. It may be unpacked on Windows, where \ parts a path as / does, and C: is a disk.
type zipPacking struct{ w *zip.Writer }

func (zipPacking) name(base string) string {
	return strings.ToValidUTF8(strings.NewReplacer(`\`, "_", ":", "_").Replace(base), "_")
}

func (p zipPacking) header(e packed, mode fs.FileMode) *zip.FileHeader {
	h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: e.time}
	h.SetMode(fs.FileMode(e.mode) | mode)
	return h
}

func (p zipPacking) dir(e packed) error {
	h := p.header(e, fs.ModeDir)
	h.Name, h.Method = e.name+"/", zip.Store
	_, err := p.w.CreateHeader(h)
	return err
}

func (p zipPacking) link(e packed, target string) error {
	h := p.header(e, fs.ModeSymlink)
	h.Method = zip.Store
	w, err := p.w.CreateHeader(h)
	if err == nil {
		_, err = io.WriteString(w, target)
	}
	return err
}

func (p zipPacking) file(e packed, _ int64, r io.Reader) error {
	w, err := p.w.CreateHeader(p.header(e, 0))
	if err == nil {
		_, err = io.Copy(w, r)
	}
	return err
}

func (p zipPacking) close() error { return p.w.Close() }
