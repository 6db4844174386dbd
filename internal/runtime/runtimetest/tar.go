package runtimetest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// archive makes a tar stream of entries; the body of a regular file is its name.
func archive(entries ...tar.Header) *bytes.Buffer {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range entries {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
		if h.Typeflag == tar.TypeReg {
			io.WriteString(w, h.Name)
		}
	}
	w.Close()
	return &buf
}

func testTar(t *testing.T, o Options) {
	j := share(t, o)
	j.sub("round trip", func(j *jar) {
		in := archive(
			tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o750},
			tar.Header{Name: "d/run", Typeflag: tar.TypeReg, Mode: 0o755},
			tar.Header{Name: "./d/data", Typeflag: tar.TypeReg, Mode: 0o600},
			tar.Header{Name: "implied/folder/f", Typeflag: tar.TypeReg},
			tar.Header{Name: "d/link", Typeflag: tar.TypeSymlink, Linkname: "data"},
			tar.Header{Name: "empty/", Typeflag: tar.TypeDir, Mode: 0o755},
		)
		mk := j.file("box")
		if err := j.agent.Mkdir(j.ctx, mk); err != nil {
			j.Fatal(err)
		}
		n, err := j.agent.TarIn(j.ctx, j.file("box"), in)
		if want := int64(len("d/run./d/dataimplied/folder/f")); err != nil || n != want {
			j.Fatalf("%d bytes of %d, %v", n, want, err)
		}
		if got := j.read("box/d/link"); got != "./d/data" {
			j.Errorf("through the link: %q", got)
		}
		if info, err := j.agent.Stat(j.ctx, j.file("box/d/run")); err != nil || info.Mode != 0o755 {
			j.Errorf("%+v, %v", info, err)
		}
		var out bytes.Buffer
		if err := j.agent.TarOut(j.ctx, j.file("box"), &out); err != nil {
			j.Fatal(err)
		}
		got := map[string]string{}
		for r := tar.NewReader(&out); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				j.Fatal(err)
			}
			body, err := io.ReadAll(r)
			if err != nil {
				j.Fatal(err)
			}
			got[trim(h.Name)] = string(body) + h.Linkname
		}
		delete(got, "")
		want := map[string]string{
			"d": "", "d/run": "d/run", "d/data": "./d/data", "d/link": "data", "empty": "",
			"implied": "", "implied/folder": "", "implied/folder/f": "implied/folder/f",
		}
		if !maps.Equal(got, want) {
			j.Errorf("%v", got)
		}
	})
	j.sub("some paths", func(j *jar) {
		j.must("mkdir pick; echo 1 >pick/one; echo 2 >pick/two; mkfifo pick/fifo")
		req := j.file("pick")
		req.Paths = []string{"two"}
		var out bytes.Buffer
		if err := j.agent.TarOut(j.ctx, req, &out); err != nil {
			j.Fatal(err)
		}
		r := tar.NewReader(&out)
		h, err := r.Next()
		if err != nil || trim(h.Name) != "two" {
			j.Errorf("%+v, %v", h, err)
		}
		if _, err := r.Next(); err != io.EOF {
			j.Errorf("more: %v", err)
		}
		req.Paths = []string{"../../etc/passwd"}
		j.refused("a path outside", j.agent.TarOut(j.ctx, req, io.Discard), wire.CodeInvalid, wire.CodePathEscapes)
	})
	j.sub("hostile entries", func(j *jar) {
		j.must("ln -s /tmp trap; mkdir pit")
		evil := "evil-" + belljar.NewID() // without isolation, /tmp is shared
		for name, entries := range map[string][]tar.Header{
			"up":                 {{Name: "../" + evil, Typeflag: tar.TypeReg}},
			"up in the midst":    {{Name: "a/../../" + evil, Typeflag: tar.TypeReg}},
			"absolute":           {{Name: "/" + evil, Typeflag: tar.TypeReg}},
			"hard link":          {{Name: evil, Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
			"device":             {{Name: evil, Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
			"block device":       {{Name: evil, Typeflag: tar.TypeBlock, Devmajor: 8}},
			"FIFO":               {{Name: evil, Typeflag: tar.TypeFifo}},
			"link up":            {{Name: evil, Typeflag: tar.TypeSymlink, Linkname: "../../etc"}},
			"absolute link":      {{Name: evil, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
			"through a link out": {{Name: "trap/" + evil, Typeflag: tar.TypeReg}},
			"through its own link": {
				{Name: "pit/gate", Typeflag: tar.TypeSymlink, Linkname: "../.."},
				{Name: "pit/gate/" + evil, Typeflag: tar.TypeReg},
			},
		} {
			_, err := j.agent.TarIn(j.ctx, j.file("."), archive(entries...))
			j.refused(name, err, wire.CodeInvalid, wire.CodePathEscapes, wire.CodeDenied)
		}
		if got := j.must(`ls -d "$1" pit/* "../$1" "/tmp/$1" "/$1" 2>/dev/null || true`, evil); got != "" {
			j.Errorf("they left %q", got)
		}
	})
	j.sub("no setuid", func(j *jar) {
		in := archive(tar.Header{Name: "suid", Typeflag: tar.TypeReg, Mode: 0o6755})
		if _, err := j.agent.TarIn(j.ctx, j.file("."), in); err != nil {
			j.Fatal(err)
		}
		if got := j.must("stat -c %a suid"); got != "755" {
			j.Errorf("mode %s", got)
		}
	})
	j.sub("not a tar", func(j *jar) {
		_, err := j.agent.TarIn(j.ctx, j.file("."), bytes.NewReader(bytes.Repeat([]byte("junk"), 1000)))
		j.refused("junk", err, wire.CodeInvalid)
		whole := archive(tar.Header{Name: "cut", Typeflag: tar.TypeReg}).Bytes()
		_, err = j.agent.TarIn(j.ctx, j.file("."), bytes.NewReader(whole[:514]))
		j.refused("a cut one", err, wire.CodeInvalid)
	})
	j.sub("a source that fails", func(j *jar) {
		mishap := errors.New("the source fails")
		r, w := io.Pipe()
		go func() {
			w.Write(slices.Repeat([]byte{'x'}, 100))
			w.CloseWithError(mishap)
		}()
		if _, err := j.agent.TarIn(j.ctx, j.file("."), r); !errors.Is(err, mishap) {
			j.Error(err)
		}
	})
}

// trim returns an entry's name without a leading ./ or trailing slash.
func trim(name string) string {
	return string(bytes.TrimPrefix(bytes.TrimSuffix([]byte(name), []byte("/")), []byte("./")))
}
