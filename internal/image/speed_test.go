//go:build linux

package image_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/test/dockerd"
)

// BenchmarkFind measures the cost of finding an existing image for a request.
func BenchmarkFind(b *testing.B) {
	s := open(b, image.Options{})
	importTree(b, s, "python:3.11-slim", "f", "x")
	for b.Loop() {
		if _, err := s.Find(b.Context(), "python:3.11-slim"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPull measures a pull of an image of five layers with programs and libraries from a registry in this process, in
// unpacked bytes.
func BenchmarkPull(b *testing.B) {
	var layers [][]byte
	var size int64
	for i := range 5 {
		l := programs(b, byte(i), 40)
		layers, size = append(layers, l), size+int64(len(l))
	}
	for name, pack := range map[string]string{"gzip": "gzip", "zstd": "zstd", "plain": ""} {
		b.Run(name, func(b *testing.B) {
			h := newHub(b)
			h.put("app:latest", build(b, spec{layers: layers, pack: pack}))
			path := filepath.Join(b.TempDir(), "images")
			s := open(b, image.Options{Path: path}, h)
			b.SetBytes(size)
			var before, after unix.Rusage
			var used time.Duration
			for b.Loop() {
				_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
				pull(b, s, h.ref("app"))
				_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
				used += cpu(after) - cpu(before)
				b.StopTimer()
				if _, err := s.Prune(b.Context(), belljar.ImagePrune{All: true}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(size)*float64(b.N)/1e6/used.Seconds(), "MB/cpu-s") // including the registry's time
		})
	}
}

func cpu(u unix.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }

// programs returns a layer that is as hard to compress as programs: that many MiB, in files of many sizes.
func programs(t testing.TB, seed byte, mib int) []byte {
	t.Helper()
	var pairs []string
	x := uint32(seed) + 1
	for left, n := mib<<20, 0; left > 0; n++ {
		size := min(left, 1<<(8+n%14))
		data := make([]byte, size)
		for i := 0; i < size; {
			x = x*1664525 + 1013904223
			run := min(size-i, int(x>>24)%24+4)
			if x&0x100 == 0 && i > 4096 { // repeat earlier bytes
				copy(data[i:i+run], data[i-int(x>>20):])
			} else {
				for j := range run {
					data[i+j] = byte(x >> (j % 4 * 8))
				}
			}
			i += run
		}
		pairs = append(pairs, strings.Repeat("d", n%20+1)+"/"+strings.Repeat("f", n%50+1)+string(rune('a'+seed))+strconv.Itoa(n), string(data))
		left -= size
	}
	return tarOf(t, pairs...)
}

// BenchmarkPullBesideDocker compares pulls of the same image from the same registry by Belljar and by docker pull, in turns.
// Belljar's folder is next to the engine's, which belongs to the benchmark.
func BenchmarkPullBesideDocker(b *testing.B) {
	engine := dockerd.New(b)
	docker := func(args ...string) {
		b.Helper()
		if out, err := exec.Command("docker", append([]string{"--host", engine.Host()}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("docker %v: %v\n%s", args, err, out)
		}
	}
	var layers [][]byte
	var size int64
	for i := range 5 {
		l := programs(b, byte(i), 40)
		layers, size = append(layers, l), size+int64(len(l))
	}
	h := newHub(b)
	h.put("app:latest", build(b, spec{layers: layers, pack: "gzip"})) // not every engine supports zstd
	s := open(b, image.Options{}, h)
	var ours, theirs []time.Duration
	for b.Loop() {
		at := time.Now()
		pull(b, s, h.ref("app"))
		ours = append(ours, time.Since(at))
		at = time.Now()
		docker("pull", "--quiet", h.ref("app"))
		theirs = append(theirs, time.Since(at))
		b.StopTimer()
		if _, err := s.Prune(b.Context(), belljar.ImagePrune{All: true}); err != nil {
			b.Fatal(err)
		}
		docker("rmi", h.ref("app"))
		b.StartTimer()
	}
	speed := func(took []time.Duration) float64 {
		slices.Sort(took)
		return float64(size) / 1e6 / took[len(took)/2].Seconds()
	}
	b.ReportMetric(speed(ours), "MB/s")
	b.ReportMetric(speed(theirs), "docker-MB/s")
	b.ReportMetric(speed(ours)/speed(theirs), "ratio")
}
