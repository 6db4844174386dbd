//go:build linux

package dockerd

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Import imports the tar of a root file system as an image. changes are lines of a Dockerfile.
func (e *Engine) Import(t testing.TB, name string, root io.Reader, changes ...string) {
	t.Helper()
	query := url.Values{"fromSrc": {"-"}, "repo": {name}, "changes": changes}
	text, err := e.call(context.Background(), http.MethodPost, "/images/create", query, root)
	if err == nil && bytes.Contains(text, []byte(`"error"`)) {
		t.Fatalf("import %s: %s", name, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Busybox returns the name of an image with Debian's static busybox: a shell and the common small programs.
func (e *Engine) Busybox(t testing.TB) string {
	t.Helper()
	const name = "belljar-test/busybox:latest"
	e.mu.Lock()
	had := e.images[name]
	e.mu.Unlock()
	if had {
		return name
	}
	e.Import(t, name, bytes.NewReader(BusyboxRoot(t)), `ENV GREETING=hello`, `CMD ["sh"]`)
	e.mu.Lock()
	e.images[name] = true
	e.mu.Unlock()
	return name
}

// BusyboxRoot returns the root file system of [Engine.Busybox], as a tar.
func BusyboxRoot(t testing.TB) []byte {
	t.Helper()
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("%v: make packages installs busybox-static", err)
	}
	applets, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	put := func(h tar.Header, content []byte) {
		t.Helper()
		h.Size, h.ModTime = int64(len(content)), time.Unix(1_700_000_000, 0)
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "etc/", "tmp/", "usr/", "usr/bin/", "root/", "home/", "var/"} {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		put(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode}, nil)
	}
	put(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, program)
	for name := range strings.FieldsSeq(string(applets)) {
		if name != "busybox" {
			put(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox"}, nil)
		}
	}
	put(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Names returns the names of the engine's containers, running or not.
func (e *Engine) Names(t testing.TB) (names []string) {
	t.Helper()
	text, err := e.call(context.Background(), http.MethodGet, "/containers/json?all=1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Names []string }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		for _, name := range c.Names {
			names = append(names, strings.TrimPrefix(name, "/"))
		}
	}
	return names
}
