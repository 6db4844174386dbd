package runtimetest

import (
	"archive/tar"
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// testSave tests that a saved workspace equals the loaded one, and that no program changes it while it is frozen.
func testSave(t *testing.T, o Options) {
	j := open(t, o)
	j.sub("round trip", func(j *jar) {
		at := time.Unix(1e9, 123456789)
		long := strings.Repeat("n", 255)
		wanted := []tar.Header{
			{Typeflag: tar.TypeReg, Name: "-rf", Mode: 0o600, ModTime: at},
			{Typeflag: tar.TypeReg, Name: "a\nb\\\xff", Mode: 0o644, ModTime: at},
			{Typeflag: tar.TypeSymlink, Name: "broken", Mode: 0o777, Linkname: "nowhere", ModTime: at},
			{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o500, ModTime: at},
			{Typeflag: tar.TypeReg, Name: "closed/file", Mode: 0o400, Size: 4, ModTime: at, PAXRecords: map[string]string{"SCHILY.xattr.user.origin": "x\x00y"}},
			{Typeflag: tar.TypeLink, Name: "further", Mode: 0o400, Linkname: "closed/file", ModTime: at},
			{Typeflag: tar.TypeReg, Name: "hole", Mode: 0o644, Size: 8 << 20, ModTime: at},
			{Typeflag: tar.TypeSymlink, Name: "link", Mode: 0o777, Linkname: "/usr/bin/env", ModTime: at},
			{Typeflag: tar.TypeReg, Name: long, Mode: 0o755, Size: 4, ModTime: at, PAXRecords: map[string]string{"SCHILY.xattr.user.origin": "y"}},
		}
		var in bytes.Buffer
		w := tar.NewWriter(&in)
		for _, h := range wanted {
			h.Format = tar.FormatPAX
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			switch h.Size {
			case 0:
			case 4:
				_, _ = io.WriteString(w, "text")
			default:
				_, _ = w.Write(make([]byte, h.Size-3))
				_, _ = io.WriteString(w, "end")
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := agent.Load(j.ctx, j.agent, j.file("."), bytes.NewReader(in.Bytes())); err != nil {
			t.Fatal(err)
		}
		// gVisor also counts the blocks of holes.
		if got := j.must("cat closed/file; stat -c %h further; truncate -s 8M most; [ $(stat -c %b hole) -lt $(($(stat -c %b most) + 1000)) ] || stat hole; rm most; tail -c 3 hole"); got != "text2\nend" {
			t.Errorf("%q", got)
		}
		// The keeper of the last command may take seconds to report that it has ended. Until then the workspace counts as in use.
		var out bytes.Buffer
		for frozen := false; !frozen; {
			var err error
			out.Reset()
			if frozen, err = agent.Save(j.ctx, j.agent, j.file("."), &out); err != nil {
				t.Fatal(err)
			}
		}
		got := tar.NewReader(&out)
		kept := map[string]bool{} // by file: whether its attributes are kept
		for _, want := range wanted {
			h, err := got.Next()
			if err != nil {
				t.Fatalf("before %s: %v", want.Name, err)
			}
			if h.Name != want.Name || h.Typeflag != want.Typeflag || h.Size != want.Size || h.Linkname != want.Linkname ||
				h.Typeflag != tar.TypeSymlink && h.Mode != want.Mode || !h.ModTime.Equal(want.ModTime) {
				t.Errorf("%+v, want %+v", h, want)
			}
			for name, value := range want.PAXRecords {
				is, has := h.PAXRecords[name]
				if kept[h.Name] = has; has && is != value {
					t.Errorf("%s has the attribute %s %q", h.Name, name, is)
				}
			}
		}
		if kept[long] != kept["closed/file"] { // some file systems have no attributes
			t.Errorf("only one of two files has its attributes: %v", kept)
		}
		if _, err := got.Next(); err != io.EOF {
			t.Errorf("there is more: %v", err)
		}
		j.must("chmod 700 closed; rm -rf ./* ./-rf")
	})
	j.sub("over", func(j *jar) { // existing content, e.g. in a volume
		var in bytes.Buffer
		w := tar.NewWriter(&in)
		for _, h := range []tar.Header{
			{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o500}, {Typeflag: tar.TypeReg, Name: "closed/file", Mode: 0o400, Size: 4},
			{Typeflag: tar.TypeDir, Name: "folder/", Mode: 0o755}, {Typeflag: tar.TypeReg, Name: "folder/file", Mode: 0o644, Size: 4},
			{Typeflag: tar.TypeReg, Name: "file", Mode: 0o644, Size: 4}, {Typeflag: tar.TypeLink, Name: "other", Linkname: "file", Mode: 0o644},
			{Typeflag: tar.TypeSymlink, Name: "to", Linkname: "folder", Mode: 0o777},
		} {
			if err := w.WriteHeader(&h); err != nil {
				j.Fatal(err)
			}
			_, _ = io.WriteString(w, "text"[:h.Size])
		}
		if err := w.Close(); err != nil {
			j.Fatal(err)
		}
		load := func() error { return agent.Load(j.ctx, j.agent, j.file("."), bytes.NewReader(in.Bytes())) }
		for _, before := range []string{
			"true", "echo changed >other", "chmod 0 closed", "rm -r folder; echo x >folder", "rm -r folder; mkdir elsewhere; ln -s elsewhere folder",
			"rm to; echo x >to", "rm file other; ln -s folder/file file",
		} {
			j.must(before)
			if err := load(); err != nil {
				j.Fatalf("after %s: %v", before, err)
			}
			got := j.must("stat -c '%a %h' closed closed/file file; cat closed/file folder/file to/file other; ls -d elsewhere/* 2>/dev/null; readlink file folder; true")
			if want := "500 2\n400 1\n644 2\ntexttexttexttext"; got != want {
				j.Errorf("after %s: %q", before, got)
			}
		}
		j.must("rm file; mkdir -p file/kept")
		if err := load(); codeOf(err) != wire.CodeNotFile {
			j.Errorf("a file over a folder: %v", err)
		}
		j.must("chmod 700 closed; rm -r file other to folder closed elsewhere")
	})
	j.sub("frozen", func(j *jar) {
		info, err := j.agent.Ping(j.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w := j.watch(j.start(j.sh(`i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i >a; echo $i >b; if [ $i = 5 ]; then echo begun; fi; done`)))
		w.await("begun")
		for range 3 {
			var out bytes.Buffer
			frozen, err := agent.Save(j.ctx, j.agent, j.file("."), &out)
			if err != nil && frozen {
				t.Fatal(err)
			}
			if info.Cgroup != frozen {
				t.Errorf("with a cgroup %t, frozen %t", info.Cgroup, frozen)
			}
			if frozen {
				checkLockstep(t, &out)
			}
		}
		j.must("touch stop")
		if exit := w.end(); exit.Code != 0 {
			t.Errorf("%+v", exit)
		}
	})
}

// checkLockstep checks that the two files of the counting program are from one moment: it writes a before b.
func checkLockstep(t *testing.T, saved io.Reader) {
	t.Helper()
	numbers := map[string]int{}
	for r := tar.NewReader(saved); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		raw, _ := io.ReadAll(r)
		if text := strings.TrimSpace(string(raw)); text != "" {
			numbers[h.Name], _ = strconv.Atoi(text)
		}
	}
	a, hasA := numbers["a"]
	b, hasB := numbers["b"]
	if hasA && hasB && a != b && a != b+1 {
		t.Errorf("a is %d and b is %d: they are not from one moment", a, b)
	}
}
