package layer_test

import (
	"archive/tar"
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/image/layer"
)

// large and small write layers like those of real images: large ones in bytes, and in number of names.
func large(w *tar.Writer) error {
	body := make([]byte, 50<<20)
	for i := range body {
		body[i] = byte(i * i >> 7)
	}
	for i := range 10 {
		if err := add(w, fmt.Sprintf("opt/large/%d", i), body); err != nil {
			return err
		}
	}
	return nil
}

func small(w *tar.Writer) error {
	body := make([]byte, 4096)
	for i := range 20_000 {
		name := fmt.Sprintf("usr/lib/modules/m%d/n%d/file%d.py", i/500, i/50, i)
		if i%50 == 0 {
			for _, d := range []string{"usr/", "usr/lib/", "usr/lib/modules/", fmt.Sprintf("usr/lib/modules/m%d/", i/500), filepath.Dir(name) + "/"} {
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755, ModTime: time.Unix(1_700_000_000, 0)}); err != nil {
					return err
				}
			}
		}
		if err := add(w, name, body[:i*37%4096]); err != nil {
			return err
		}
	}
	return nil
}

func add(w *tar.Writer, name string, body []byte) error {
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(body)), Mode: 0o644, ModTime: time.Unix(1_700_000_000, 0)})
	if err == nil {
		_, err = w.Write(body)
	}
	return err
}

// archive writes a layer to a file, and returns its name and size.
func archive(b *testing.B, fill func(*tar.Writer) error) (string, int64) {
	b.Helper()
	f, err := os.Create(filepath.Join(folder(b), "layer.tar"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	w := tar.NewWriter(buffered)
	for _, step := range []func() error{func() error { return fill(w) }, w.Close, buffered.Flush} {
		if err := step(); err != nil {
			b.Fatal(err)
		}
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		b.Fatal(err)
	}
	return f.Name(), size
}

// BenchmarkUnpack compares Unpack with tar(1).
func BenchmarkUnpack(b *testing.B) {
	for name, fill := range map[string]func(*tar.Writer) error{"500MB": large, "20000files": small} {
		b.Run(name, func(b *testing.B) {
			from, size := archive(b, fill)
			ways := map[string]func(dir string) error{
				"belljar": func(dir string) error {
					f, err := os.Open(from)
					if err != nil {
						return err
					}
					defer f.Close()
					_, err = layer.Unpack(b.Context(), f, dir, layer.Options{})
					return err
				},
				"tar": func(dir string) error {
					return exec.CommandContext(b.Context(), "tar", "-x", "-f", from, "-C", dir).Run()
				},
			}
			for way, unpack := range ways {
				b.Run(way, func(b *testing.B) {
					b.SetBytes(size)
					b.ReportAllocs()
					for b.Loop() {
						b.StopTimer()
						dir := folder(b)
						b.StartTimer()
						if err := unpack(dir); err != nil {
							b.Fatal(err)
						}
						b.StopTimer()
						if err := layer.Remove(dir); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
				})
			}
		})
	}
}

// unpackedFrom makes a layer for benchmarks.
func unpackedFrom(b *testing.B, fill func(*tar.Writer) error) string {
	b.Helper()
	from, _ := archive(b, fill)
	f, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	dir := folder(b)
	if _, err := layer.Unpack(b.Context(), f, dir, layer.Options{}); err != nil {
		b.Fatal(err)
	}
	return dir
}

func BenchmarkMerge(b *testing.B) {
	from := unpackedFrom(b, small)
	ways := map[string]func(dir string) error{
		"belljar": func(dir string) error {
			_, err := layer.Merge(b.Context(), dir, []string{from})
			return err
		},
		"cp -al": func(dir string) error { return exec.CommandContext(b.Context(), "cp", "-al", from+"/.", dir).Run() },
	}
	for way, merge := range ways {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir := folder(b)
				b.StartTimer()
				if err := merge(dir); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := layer.Remove(dir); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkRemove(b *testing.B) {
	from := unpackedFrom(b, small)
	ways := map[string]func(dir string) error{
		"belljar": layer.Remove,
		"rm -r":   func(dir string) error { return exec.CommandContext(b.Context(), "rm", "-r", dir).Run() },
	}
	for way, remove := range ways {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir := folder(b)
				if _, err := layer.Merge(b.Context(), dir, []string{from}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := remove(dir); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
