//go:build linux

package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/image/debian"
	"github.com/belljar/belljar/test/need"
)

// fresh is how long a built image is reused by further tests.
const fresh = 7 * 24 * time.Hour

// Debian returns the tar of an image as belljar image build makes it: shell, python, node, go or java. It is made once and kept in
// the temporary folder, for all tests on the machine. BELLJAR_TEST_MIRROR names a package server for machines without Debian
// sources. It needs mmdebstrap and the packages.
func Debian(t testing.TB, name string) string {
	t.Helper()
	return built(t, name, debian.Options{Name: name})
}

// Clients returns the tar of an image with common network clients: curl, wget, git, Python with requests and pip, Node with npm,
// Go, Java with Maven, and cargo. It is made like those of [Debian], from some 400 packages.
func Clients(t testing.TB) string {
	t.Helper()
	cargo := "cargo" // Debian 12's cargo knows no sparse indexes; a newer one has another name there
	if text, err := os.ReadFile("/etc/os-release"); err == nil && strings.Contains(string(text), "VERSION_CODENAME=bookworm") {
		cargo = "cargo-web"
	}
	return built(t, "clients", debian.Options{Name: "shell", Packages: []string{
		"curl", "wget", "git", "python3", "python3-pip", "python3-requests", "nodejs", "npm", "golang-go", "default-jdk-headless", "maven", cargo,
	}})
}

// built makes an image, or returns one that was made earlier.
func built(t testing.TB, name string, o debian.Options) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("belljar-test-images-%d", os.Geteuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) || info.Mode().Perm() != 0o700 {
		t.Fatalf("%s is not a folder of ours: %v, %v", dir, info, err)
	}
	o.Mirror = os.Getenv("BELLJAR_TEST_MIRROR")
	digest, err := debian.Digest(o)
	if err != nil {
		need.Missing(t, "image %s cannot be built: %v", name, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%.16s.tar", name, digest))
	if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) < fresh {
		return path
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	making := path + ".new"
	f, err := os.Create(making)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(making)
	defer f.Close()
	begin := time.Now()
	if err := debian.Build(t.Context(), o, f); err != nil {
		need.Missing(t, "image %s cannot be built: %v", name, err)
	}
	if err := errors.Join(f.Close(), os.Rename(making, path)); err != nil {
		t.Fatal(err)
	}
	t.Logf("image %s was built in %v", name, time.Since(begin).Round(time.Second))
	return path
}
