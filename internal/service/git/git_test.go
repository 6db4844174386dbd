package git

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/room"
	"github.com/belljar/belljar/internal/service/placement"
)

// The protections in the documentation apply to every command of git.
func TestSettings(t *testing.T) {
	for _, want := range []string{
		"protocol.allow=never", "protocol.https.allow=always", "protocol.file.allow=never", "core.hooksPath=/dev/null", "core.symlinks=false", "core.fsmonitor=false",
		"submodule.recurse=false", "fetch.recurseSubmodules=false", "transfer.fsckObjects=true", "transfer.bundleURI=false", "core.protectNTFS=true",
		"core.protectHFS=true", "http.followRedirects=initial", "http.sslVerify=true", "credential.helper=",
	} {
		if !slices.Contains(settings(), want) {
			t.Errorf("no %s", want)
		}
	}
	for _, want := range []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https", "GIT_LFS_SKIP_SMUDGE=1", "GIT_ATTR_NOSYSTEM=1",
	} {
		if !slices.Contains(environment(false), want) {
			t.Errorf("no %s", want)
		}
	}
	if env := environment(true); !slices.Contains(env, "GIT_SSL_CAINFO=/workspace/ca.pem") || !slices.Contains(env, "GIT_SSL_CAPATH=/etc/ssl/certs") {
		t.Errorf("%q", env)
	}
}

// git before 2.28 has no option for the format of a repository.
func TestInit(t *testing.T) {
	if !slices.Contains(environment(false), "GIT_DEFAULT_HASH=sha1") {
		t.Error("git chooses the format")
	}
	for ref, want := range map[string]string{"": "", "main": "", strings.Repeat("a", 40): "", strings.Repeat("a", 64): "--object-format=sha256", strings.Repeat("x", 64): ""} {
		if got := strings.Join(initArgs(ref), " "); strings.Contains(got, "--object-format") != (want != "") || !strings.Contains(got, want) || !strings.HasSuffix(got, " /workspace/git") {
			t.Errorf("%q: %s", ref, got)
		}
	}
}

// sorted runs a sorter over entries and returns its output, as name and target or contents.
func sorted(t *testing.T, s *sorter, entries ...tar.Header) (map[string]string, error) {
	t.Helper()
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	for _, h := range entries {
		text := h.Linkname
		h.Linkname, h.Mode, h.Size = "", 0o644, int64(len(text))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.tree = &Tree{}
	dir := t.TempDir()
	if err := s.spool(t.Context(), &in, dir); err != nil {
		s.tree.Close()
		return nil, err
	}
	defer s.tree.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files have names: %v, %v", left, err)
	}
	if _, err := s.tree.spool.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(s.tree.spool); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if out[h.Name] = string(text); h.Typeflag == tar.TypeSymlink {
			out[h.Name] = "-> " + h.Linkname
		}
	}
}

func file(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: text}
}

func TestSorter(t *testing.T) {
	list, err := parseIgnore("*.log\nbuild\n.git\n")
	if err != nil {
		t.Fatal(err)
	}
	s := &sorter{
		links: map[string]bool{"src/in": true, "src/out": true, "src/root": true, "src/empty": true, "top": true}, below: "src", ignore: list, git: true, bytes: 100, files: 10,
	}
	got, err := sorted(t, s, tar.Header{Typeflag: tar.TypeDir, Name: "build/"}, file("build/x", "x"), file("a.log", "a"), file("a", "a"),
		file("in", "d/../a"), file("out", "../a"), file("root", "/a"), file("empty", ""), file("top", "text"), file(".git/HEAD", "ref"), file(".git/x.log", "l"))
	want := map[string]string{"a": "a", "in": "-> d/../a", "out": "../a", "root": "/a", "empty": "", "top": "text", ".git/HEAD": "ref", ".git/x.log": "l"}
	if err != nil || len(got) != len(want) {
		t.Errorf("%v, %v", got, err)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %q, want %q", name, got[name], text)
		}
	}
	if s.tree.Ignored != 2 || s.tree.leaving != 3 || s.tree.Files != 8 {
		t.Errorf("%+v", s.tree)
	}
	if w := s.tree.Warnings(); len(w) != 2 {
		t.Errorf("%q", w)
	}
	var none *Tree
	if none.Warnings() != nil {
		t.Error("no tree has warnings")
	}
	none.Close()
}

func TestSorterCaps(t *testing.T) {
	for name, tt := range map[string]struct {
		sorter  sorter
		entries []tar.Header
	}{
		"bytes":   {sorter{bytes: 3, files: 9}, []tar.Header{file("a", "ab"), file("b", "cd")}},
		"files":   {sorter{bytes: 9, files: 1}, []tar.Header{file("a", ""), file("b", "")}},
		"names":   {sorter{bytes: 9, files: 9, names: maxNames - 1}, []tar.Header{file("ab", "")}},
		"folders": {sorter{bytes: 9, files: 1}, []tar.Header{{Typeflag: tar.TypeDir, Name: "a/"}, {Typeflag: tar.TypeDir, Name: "b/"}, {Typeflag: tar.TypeDir, Name: "c/"}}},
	} {
		if _, err := sorted(t, &tt.sorter, tt.entries...); belljar.CodeOf(err) != belljar.CodeTooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
	var huge bytes.Buffer
	w := tar.NewWriter(&huge)
	for _, h := range []tar.Header{{Name: "a", Size: 1}, {Name: "b", Size: math.MaxInt64, Format: tar.FormatGNU}} {
		_ = w.WriteHeader(&h)
		_, _ = w.Write([]byte("x"))
	}
	s := sorter{bytes: 1 << 20, files: 9, tree: &Tree{}}
	if err := s.spool(t.Context(), &huge, t.TempDir()); belljar.CodeOf(err) != belljar.CodeTooLarge {
		t.Errorf("sizes beyond 64 bits: %v", err)
	}
	s.tree.Close()
}

// TestSorterRoom checks that a tree stops at the watermark of the server's disk.
func TestSorterRoom(t *testing.T) {
	left := 2
	s := sorter{bytes: 1 << 30, files: 9, room: func() error {
		if left--; left < 0 {
			return &belljar.Error{Code: belljar.CodeDiskFull}
		}
		return nil
	}}
	large := strings.Repeat("x", room.Every)
	if _, err := sorted(t, &s, file("a", large), file("b", large)); belljar.CodeOf(err) != belljar.CodeDiskFull || s.tree.Files != 2 {
		t.Errorf("%d files, %v", s.tree.Files, err)
	}
}

// TestSorterHeaders checks that a header writes no more to the host's disk than a workspace keeps of it.
func TestSorterHeaders(t *testing.T) {
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	for _, name := range []string{"a", "b"} {
		h := file(name, "")
		h.PAXRecords = map[string]string{"BELLJAR.x": strings.Repeat("x", 700<<10)}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := sorter{bytes: 1 << 20, files: 9, tree: &Tree{}}
	defer func() { s.tree.Close() }()
	if err := s.spool(t.Context(), &in, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if info, err := s.tree.spool.Stat(); err != nil || info.Size() > 8<<10 || s.tree.Files != 2 {
		t.Errorf("%d bytes of %d empty files, %v", info.Size(), s.tree.Files, err)
	}
}

// git's output of text from a server or repository is short, and cannot control a terminal.
func TestLast(t *testing.T) {
	for text, want := range map[string]string{
		"": "it failed", "hint: x\n": "it failed", "error: a\nfatal: b\nerror: c\n": "b", "error: a\nerror: c\nhint: d\n": "a", "odd\nlast\n": "last",
		"fatal: \x1b[31mred\u202e\a\n": "[31mred", "remote: x\r\n": "remote: x",
	} {
		if got := (&gitError{text: text}).last(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := plain(strings.Repeat("é", 1000)); len(got) > maxLine+len("…") || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestExplain checks that the error of a clone is about the actual failure, for any address and text of the server.
func TestExplain(t *testing.T) {
	report := func(reason string) *belljar.EgressReport {
		return &belljar.EgressReport{Hosts: []belljar.EgressHost{{Host: "git.example.com", Denied: 1, Reason: reason}}}
	}
	for name, c := range map[string]struct {
		stderr string // git's messages, with % for the address
		report *belljar.EgressReport
		want   string
	}{
		"no address":              {"fatal: unable to access '%/': Could not resolve host: git.example.com\n", nil, "has no address"},
		"another error":           {"fatal: unable to access '%/': The requested URL returned error: 503\n", nil, "cannot be cloned: "},
		"the server's words":      {"remote: certificate of fsck signal 9\nfatal: unable to access '%/': The requested URL returned error: 500\n", nil, "cannot be cloned: "},
		"a certificate":           {"fatal: unable to access '%/': server certificate verification failed\n", nil, "is not trusted: "},
		"a certificate, brokered": {"fatal: unable to access '%/': The requested URL returned error: 502\n", report("certificate_unknown"), "is not trusted (certificate_unknown)"},
		"a certificate, NSS":      {"fatal: unable to access '%/': Peer's Certificate issuer is not recognized.\n", nil, "is not trusted: "},
		"a certificate, mbedTLS":  {"fatal: unable to access '%/': Cert verify failed: BADCERT_NOT_TRUSTED\n", nil, "is not trusted: "},
		"another's certificate":   {"fatal: unable to access '%/': SSL: no alternative certificate subject name matches target host name 'git.example.com'\n", nil, "is not trusted: "},
		"broken off":              {"fatal: unable to access '%/': GnuTLS recv error (-110): The TLS connection was non-properly terminated.\n", nil, "cannot be cloned: unable to access"},
		"broken off in a pack":    {"error: RPC failed; curl 56 GnuTLS recv error (-9): Error decoding the received TLS packet.\nfatal: early EOF\n", nil, "cannot be cloned: early EOF"},
		"no end of TLS":           {"fatal: unable to access '%/': OpenSSL SSL_read: SSL_ERROR_SYSCALL, errno 104\n", nil, "cannot be cloned: "},
		"too much for the gate":   {"error: RPC failed; curl 56 GnuTLS recv error (-110): The TLS connection was non-properly terminated.\n", report("limit"), "at most 1024 MiB"},
		"not found":               {"remote: x\nfatal: repository '%/' not found\n", nil, "was not found"},
	} {
		o := Order{Spec: &belljar.GitSpec{URL: "https://git.example.com/team/mbedTLS-certificate-fsck.git"}, Placement: &placement.Placement{}}
		e := &gitError{command: "fetch", text: strings.ReplaceAll(c.stderr, "%", o.Spec.URL)}
		if err := o.explainGit(e, c.report, nil); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLinks reads the links in a list of files, and buffers only one entry of it.
func TestLinks(t *testing.T) {
	links := map[string]bool{}
	read := linksInto(links)
	for _, b := range []byte("100644 ab 0\ta\x00120000 ab 0\tl\tm\x00120000 odd\x00") {
		if err := read([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if len(links) != 1 || !links["l\tm"] {
		t.Errorf("%v", links)
	}
	for _, list := range []string{strings.Repeat("x", mostEntry+1), strings.Repeat("x", mostEntry+1) + "\x00"} {
		if err := read([]byte(list)); err == nil {
			t.Errorf("an entry of %d bytes", len(list))
		}
	}
}

func TestRejects(t *testing.T) {
	stderr := "error: while searching for:\n a\n\nerror: patch failed: a b.txt:12\nApplying patch a b.txt with 1 reject...\nRejected hunk #1.\nerror: patch failed: c:3\n"
	got := rejects(stderr)
	if !slices.Equal(got, []string{"a b.txt:12", "c:3"}) {
		t.Errorf("%q", got)
	}
	e := patchError(&gitError{text: stderr}, slices.Repeat(got, 30))
	if e.Reason != belljar.ReasonPatchFailed || !strings.HasSuffix(e.Err.Message, "and 10 more") || len(e.Err.Details["rejected"].([]string)) != mostRejects {
		t.Errorf("%+v", e.Err)
	}
}
