//go:build linux

package native_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
)

// BenchmarkImage alternates cold starts with the host's programs and with an image of 500 MB, 25 names in its root and
// 5,000 files. It measures the time until the agent answers, and until everything is gone again. Compare the medians.
func BenchmarkImage(b *testing.B) {
	r := open(b, b.TempDir())
	roots := []runtime.Root{{Ref: runtime.HostRef}, large(b)}
	var start, whole [2][]float64
	one := func(i int) {
		s := spec()
		s.Root = roots[i]
		begin := time.Now()
		box, err := r.Create(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := agent.New(box.Dial).Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
		start[i] = append(start[i], time.Since(begin).Seconds()*1000)
		if err := box.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
		whole[i] = append(whole[i], time.Since(begin).Seconds()*1000)
	}
	for b.Loop() {
		one(0)
		one(1)
	}
	for i, name := range []string{"host", "image"} {
		b.ReportMetric(median(start[i]), "ms/start-"+name)
		b.ReportMetric(median(whole[i]), "ms/whole-"+name)
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// large makes an image of 500 MB.
func large(b *testing.B) runtime.Root {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "root")
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	put := func(name string, bytes int64) {
		check(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		f, err := os.Create(filepath.Join(dir, name))
		check(err)
		check(f.Truncate(bytes))
		check(f.Close())
	}
	for i := range 5000 {
		put(fmt.Sprintf("usr/lib/%d/%d", i/50, i), 100<<10)
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		check(os.Symlink("usr/"+name, filepath.Join(dir, name)))
	}
	for _, name := range []string{
		"boot", "home", "media", "mnt", "opt", "root", "srv", "app", "data", "var/tmp", "var/run", "var/lib", "a", "b", "c", "d", "e", "f", "g",
	} {
		check(os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for _, name := range []string{"passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf"} {
		put("etc/"+name, 0)
	}
	lock := dir + ".lock"
	check(os.WriteFile(lock, nil, 0o600))
	return runtime.Root{Ref: "test/large", Dir: dir, Lock: lock, Digest: belljar.NewID()}
}
