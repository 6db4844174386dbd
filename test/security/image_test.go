//go:build linux

package security

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/test/image"
)

// shelf holds the images of one lane, imported on first use. A hostile image may be refused at import, which ends the
// attack.
type shelf struct {
	mu    sync.Mutex
	tried map[string]error
}

// stranger is a hostile image. Each has busybox too.
type stranger func(*rootTar)

// strangers returns the hostile images, by the word in a script's header.
func strangers() map[string]stranger {
	return map[string]stranger{
		"absolute-links": func(r *rootTar) {
			for _, place := range places() {
				r.link(place, elsewherePath())
			}
			r.link("etc", "/var/tmp")
		},
		"relative-links": func(r *rootTar) {
			for _, place := range places() {
				r.link(place, "../../../../../../../.."+elsewherePath())
			}
			r.link("etc", "../../../../../../../../var/tmp")
		},
		"device-links": func(r *rootTar) {
			r.dir("dev")
			r.link("dev/null", "../etc/belljar-null")
			r.link("dev/console", "/etc/belljar-console")
			r.link("dev/ptmx", "/etc/belljar-ptmx")
			r.link("dev/pts", "/etc")
			r.link("dev/shm", "../../../../etc")
			r.dir("etc")
			r.file("etc/belljar-null", 0o666, []byte("not a device\n"))
			r.put(tar.Header{Name: "etc/belljar-disk", Typeflag: tar.TypeBlock, Mode: 0o666, Devmajor: 254})
		},
		"set-user-id": func(r *rootTar) {
			probe, err := os.ReadFile(built.Probe)
			r.err = errors.Join(r.err, err)
			r.file("bin/su", 0o6755, probe)
			r.put(tar.Header{Name: "bin/capable", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(probe)), Format: tar.FormatPAX,
				// cap_setuid, cap_sys_admin and all others, effective
				PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\x01\x00\x00\x00\x00\x00\x00"},
			})
			r.write(probe)
		},
		"agent": func(r *rootTar) {
			// The image has a script at every path that a runtime uses for its agent.
			script := []byte("#!/bin/sh\necho BREACH: the agent is the image's own\n")
			r.dir(".belljar")
			for _, name := range []string{".belljar/belljar-agent", ".belljar-agent", "belljar-agent", "init", "sbin/init", "dev/init", "run/init"} {
				r.file(name, 0o755, script)
			}
		},
		"environment": func(r *rootTar) {
			r.dir("tmp")
			r.file("evil.so", 0o755, r.busybox)
			r.env = []string{
				"IMAGE_MARK=" + imageMark, "LD_PRELOAD=/evil.so", "LD_LIBRARY_PATH=/", "GODEBUG=gctrace=1", "GOTRACEBACK=crash", "GOMAXPROCS=64",
				"PATH=/bin:/" + strings.Repeat("long/", 2_400), "BELLJAR_AGENT=1", "HOME=/", "ENV=/evil.sh",
			}
		},
		"open-folders": func(r *rootTar) {
			r.dir("opt")
			r.dir("opt/open")
			r.file("opt/open/file", 0o666, []byte("as it was\n"))
			r.file("opt/open/program", 0o777, []byte("#!/bin/sh\necho as it was\n"))
			r.dir("var/open")
		},
		"working-folder": func(r *rootTar) { r.workdir = "/proc/self/fd/7" },
	}
}

// imageMark is in the environment of the image with that name.
const imageMark = "belljar-image-mark"

// places returns the paths that belong to the sandbox, whatever an image contains there.
func places() []string {
	return []string{"dev", "proc", "sys", "tmp", "run", "workspace", "var", "mnt", "home", "root", ".belljar", ".belljar-agent"}
}

// rootTar is the tar of a root file system.
type rootTar struct {
	buf     bytes.Buffer
	w       *tar.Writer
	busybox []byte
	env     []string
	workdir string
	err     error
}

func (r *rootTar) put(h tar.Header) {
	if r.err == nil {
		r.err = r.w.WriteHeader(&h)
	}
}

func (r *rootTar) write(content []byte) {
	if r.err == nil {
		_, r.err = r.w.Write(content)
	}
}

func (r *rootTar) dir(name string) {
	r.put(tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o777})
}

func (r *rootTar) link(name, target string) {
	r.put(tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777})
}

func (r *rootTar) file(name string, mode int64, content []byte) {
	r.put(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(content))})
	r.write(content)
}

// finish adds the stranger's files to busybox's.
func finish(t *testing.T, make stranger) *rootTar {
	t.Helper()
	base, err := os.ReadFile(image.Busybox(t))
	if err != nil {
		t.Fatal(err)
	}
	r := &rootTar{}
	r.w = tar.NewWriter(&r.buf)
	for in := tar.NewReader(bytes.NewReader(base)); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "bin/busybox" {
			r.busybox = content
		}
		r.put(*h)
		r.write(content)
	}
	make(r)
	if r.err == nil {
		r.err = r.w.Close()
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r
}

// saved packs one layer as docker save would, with metadata that a bare root file system lacks: environment and entry
// point.
func saved(t *testing.T, name string, root *rootTar) []byte {
	t.Helper()
	layer := root.buf.Bytes()
	sum := sha256.Sum256(layer)
	digest := hex.EncodeToString(sum[:])
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Env": root.env, "WorkingDir": root.workdir},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest}},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name + ":latest"}, "Layers": []string{digest + ".tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rootTar{}
	r.w = tar.NewWriter(&r.buf)
	r.file(digest+".tar", 0o644, layer)
	r.file("config.json", 0o644, config)
	r.file("manifest.json", 0o644, manifest)
	if r.err == nil {
		r.err = r.w.Close()
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.buf.Bytes()
}

func imageName(word string) string { return "belljar-test/" + word }

// imageFile writes an image into the trial's folder, in a form for belljar image import.
func (tr *trial) imageFile(word string) (path string) {
	t := tr.t
	t.Helper()
	path = filepath.Join(tr.dir, word+".tar")
	make := strangers()[word]
	var err error
	switch {
	case word == "clients":
		err = os.Link(clientPrograms(t), path)
	case word == "busybox":
		err = os.WriteFile(path, saved(t, imageName(word), finish(t, func(*rootTar) {})), 0o644)
	case make == nil:
		t.Fatalf("no such image: %s", word)
	default:
		err = os.WriteFile(path, saved(t, imageName(word), finish(t, make)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// bring imports an image for the lane's runs and returns its name, or the reason why belljar refused it.
func (l *lane) bring(t *testing.T, word string) (string, error) {
	t.Helper()
	name := imageName(word)
	l.images.mu.Lock()
	defer l.images.mu.Unlock()
	if err, tried := l.images.tried[word]; tried {
		return name, err
	}
	tr := l.trial(t)
	path := tr.imageFile(word)
	var reply struct {
		Digest string `json:"digest"`
		Error  struct{ Code, Message string }
	}
	raw := tr.output(t.Context(), []string{"image", "import", "--json", "--name", name, path})
	if err := json.Unmarshal(raw, &reply); err != nil {
		t.Fatalf("belljar image import: %v\n%s", err, raw)
	}
	var err error
	switch {
	case reply.Error.Code == "image_invalid":
		err = fmt.Errorf("refused: %s", reply.Error.Message)
	case reply.Error.Code != "" || reply.Digest == "":
		t.Fatalf("belljar image import: %s", raw)
	}
	if l.images.tried == nil {
		l.images.tried = map[string]error{}
	}
	l.images.tried[word] = err
	return name, err
}
