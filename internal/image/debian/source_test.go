package debian

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machine returns a root folder with the given files.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestOwnSources(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		suite string
		want  []string
	}{
		"none":    {nil, "bookworm", nil},
		"another": {map[string]string{"etc/apt/sources.list": "deb http://a/ubuntu noble main\n"}, "bookworm", nil},
		"updates": {map[string]string{"etc/apt/sources.list": "deb http://m/debian bookworm-updates main\n"}, "bookworm", nil},
		"classic": {map[string]string{"etc/apt/sources.list": `
# deb http://commented/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror/debian bookworm main contrib # near
deb-src http://mirror/debian bookworm main
deb http://mirror/security bookworm-security main
deb http://backports/debian bookworm-backports main
deb http://broken bookworm
`}, "bookworm", []string{
			"deb [signed-by=/k.gpg] http://mirror/debian bookworm main contrib", "deb http://mirror/security bookworm-security main",
		}},
		"stanzas": {map[string]string{
			"etc/apt/sources.list.d/debian.sources": `Types: deb deb-src
# near
URIs: http://mirror/debian
Suites: bookworm
 bookworm-updates
Components: main
Signed-By: /k.gpg

Types: deb
URIs: http://off/debian
Suites: bookworm
Components: main
Enabled: no
`,
			"etc/apt/sources.list.d/key.sources": "Types: deb\nURIs: http://s\nSuites: bookworm-security\nComponents: main\nSigned-By: 0123456789ABCDEF\n",
			"etc/apt/sources.list.d/node.list":   "deb http://deb.nodesource.com/node nodistro main\n",
		}, "bookworm", []string{
			"deb [signed-by=/k.gpg] http://mirror/debian bookworm main", "deb [signed-by=/k.gpg] http://mirror/debian bookworm-updates main",
			"deb http://s bookworm-security main",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range ownSources(machine(t, c.files), c.suite) {
				got = append(got, s.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A key that a source contains becomes a file for the tools.
func TestKeyrings(t *testing.T) {
	const key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEY865UxYJ\n-----END PGP PUBLIC KEY BLOCK-----\n"
	text := "Types: deb\nURIs: http://m\nSuites: sid\nComponents: main\nSigned-By:\n " +
		strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(key), "\n\n", "\n.\n"), "\n", "\n ") + "\n"
	list := ownSources(machine(t, map[string]string{"etc/apt/sources.list.d/x.sources": text}), "sid")
	dir := t.TempDir()
	if err := keyrings(dir, list); err != nil || len(list) != 1 || filepath.Dir(list[0].signed) != dir {
		t.Fatalf("%+v, %v", list, err)
	}
	if got, err := os.ReadFile(list[0].signed); err != nil || string(got) != key {
		t.Errorf("%q, %v, want %q", got, err, key)
	}
	if want := "deb [signed-by=" + list[0].signed + "] http://m sid main"; list[0].String() != want {
		t.Errorf("%s, want %s", list[0], want)
	}
}

func TestOwnSuite(t *testing.T) {
	for name, c := range map[string][2]string{
		"debian":  {"NAME=\"Debian\"\nID=debian\nVERSION_CODENAME=trixie\n", "trixie"},
		"ubuntu":  {"ID=ubuntu\nVERSION_CODENAME=noble\n", "bookworm"},
		"unnamed": {"ID=debian\n", "bookworm"},
		"odd":     {"\x00\n=\n==", "bookworm"},
	} {
		if got := ownSuite(machine(t, map[string]string{"etc/os-release": c[0]})); got != c[1] {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := ownSuite(t.TempDir()); got != "bookworm" {
		t.Errorf("no os-release: %q", got)
	}
}

// Whatever a file of sources contains, each part of it becomes at most one argument, of a source that apt can read.
func FuzzSources(f *testing.F) {
	f.Add("deb [signed-by=/k] http://m s main\n")
	f.Add("Types: deb\nURIs: http://m\nSuites: s\nComponents: main\n")
	f.Add("Types: deb\nURIs: http://m\nSuites: s\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n x\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range append(parseList(strings.NewReader(text)), parseSources(strings.NewReader(text))...) {
			if line := s.String(); !strings.HasPrefix(line, "deb ") || strings.ContainsAny(line, "\n") || s.uri == "" || s.suite == "" {
				t.Errorf("%q makes %q", text, line)
			}
		}
	})
}
