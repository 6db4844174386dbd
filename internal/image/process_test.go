//go:build linux

package image_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// Actions of this test program as a child: the arguments follow these words.
const (
	childPull  = "image-test-pull"  // PATH REGISTRY REF: pulls once
	childChurn = "image-test-churn" // PATH REGISTRY REF ROUNDS: pulls and removes that many times
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case childPull:
			os.Exit(pullChild(os.Args[2:]))
		case childChurn:
			os.Exit(churnChild(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

func pullChild(args []string) int {
	s, err := image.Open(image.Options{Path: args[0], Registries: []string{args[1]}})
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	fmt.Println("begins")
	img, err := s.Pull(context.Background(), args[2], false, nil)
	if err != nil {
		fmt.Println("pull:", err)
		return 1
	}
	fmt.Println(img.Digest)
	return 0
}

// churnChild fails on all errors except those that other processes' changes may cause.
func churnChild(args []string) int {
	s, err := image.Open(image.Options{Path: args[0], Registries: []string{args[1]}})
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	rounds, _ := strconv.Atoi(args[3])
	for range rounds {
		if _, err := s.Pull(context.Background(), args[2], false, nil); err != nil {
			fmt.Println("pull:", err)
			return 1
		}
		if root, err := s.Find(context.Background(), args[2]); err == nil {
			if data, err := os.ReadFile(filepath.Join(root.Dir, "f")); err == nil && string(data) != "second" {
				fmt.Printf("read: %q\n", data)
				return 1
			}
		}
		switch err := s.Remove(context.Background(), args[2]); belljar.CodeOf(err) {
		case "", belljar.CodeNotFound, belljar.CodeConflict:
		default:
			fmt.Println("remove:", err)
			return 1
		}
	}
	return 0
}

func child(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(exe, args...)
}

// TestManyProcesses tests that processes that pull one image simultaneously fetch each layer once, and all get it.
func TestManyProcesses(t *testing.T) {
	first, second := noise(t, 200<<10), tarOf(t, "f", "second")
	h := newHub(t)
	b := build(t, spec{layers: [][]byte{first, second}, pack: "gzip"})
	h.put("app:latest", b)
	path := filepath.Join(t.TempDir(), "images")
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			out, err := child(t, childPull, path, h.host(), h.ref("app")).CombinedOutput()
			if err != nil || !strings.Contains(string(out), b.digest()) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wait.Wait()
	for _, l := range [][]byte{first, second} {
		if n := h.count(digest(gzipped(t, l))); n != 1 {
			t.Errorf("a layer was fetched %d times", n)
		}
	}
	s := open(t, image.Options{Path: path})
	if content(t, find(t, s, h.ref("app")), "f") != "second" || len(entries(t, path, "images")) != 1 {
		t.Errorf("images: %v", entries(t, path, "images"))
	}
}

// TestChurn tests that processes that pull and remove one image simultaneously get all or nothing of it, and leave nothing.
func TestChurn(t *testing.T) {
	h := newHub(t)
	h.put("app:latest", build(t, spec{layers: [][]byte{tarOf(t, "f", "first"), tarOf(t, "f", "second")}}))
	path := filepath.Join(t.TempDir(), "images")
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			if out, err := child(t, childChurn, path, h.host(), h.ref("app"), "15").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wait.Wait()
	s := open(t, image.Options{Path: path})
	if _, err := s.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil {
		t.Fatal(err)
	}
	if left := slices.Concat(entries(t, path, "images"), entries(t, path, "layers"), leftovers(t, path)); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestPlainKilled tests that a pull that is killed at any point leaves a store that opens, has no half image, and pulls the
// missing parts.
func TestPlainKilled(t *testing.T) {
	layers := [][]byte{noise(t, 100<<10), tarOf(t, "f", "one", "d/", "", "d/g", "two"), tarOf(t, "f", "second")}
	h := newHub(t)
	b := build(t, spec{layers: layers, pack: "gzip"})
	h.put("app:latest", b)
	path := filepath.Join(t.TempDir(), "images")
	whole := 250 * time.Millisecond // a first guess of the duration of a pull
	for round := range 12 {
		cmd := child(t, childPull, path, h.host(), h.ref("app"))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "begins\n" {
			t.Fatalf("%q %v", line, err)
		}
		begin := time.Now()
		timer := time.AfterFunc(time.Duration(rand.Int64N(int64(whole))), func() { _ = cmd.Process.Kill() })
		rest, _ := io.ReadAll(lines)
		timer.Stop()
		err = cmd.Wait()
		if err == nil {
			whole = time.Since(begin)
		} else if len(rest) > 0 && !strings.Contains(string(rest), b.digest()) {
			t.Fatalf("the child failed by itself: %s", rest)
		}

		s := open(t, image.Options{Path: path}, h)
		if left := leftovers(t, path); len(left) > 0 {
			t.Fatalf("round %d: left over: %v", round, left)
		}
		known := len(names(t, s)) - 1
		if n := len(entries(t, path, "images")); n != known {
			t.Fatalf("round %d: %d folders for %d images", round, n, known)
		}
		pull(t, s, h.ref("app"))
		root := find(t, s, h.ref("app"))
		if content(t, root, "f") != "second" || content(t, root, "d/g") != "two" {
			t.Fatalf("round %d: the image is not whole", round)
		}
		if err := s.Remove(t.Context(), h.ref("app")); err != nil {
			t.Fatal(err)
		}
		if left := slices.Concat(entries(t, path, "images"), entries(t, path, "layers"), leftovers(t, path)); len(left) > 0 {
			t.Fatalf("round %d: left over: %v", round, left)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
