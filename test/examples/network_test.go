//go:build linux

package examples

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/index"
	"github.com/belljar/belljar/test/peer"
)

// requests is the part of the requests package that fetch.py uses.
const requests = `import urllib.request

def get(url, timeout):
    answer = urllib.request.urlopen(url, timeout=timeout)
    answer.status_code, answer.content, answer.ok = answer.status, answer.read(), True
    return answer
`

// commands matches commands of the README that list a host.
var commands = regexp.MustCompile(`(?m)^(\$ .*?) (--allow )`)

// networked gives the hosts of the example a peer with a private address, and changes the README in the copy to allow
// it.
func networked(t *testing.T, dir string) []string {
	t.Helper()
	p := peer.Start(t, "www.example.com", "api.example.com", "git.example.com", "packages.test", "files.test")
	p.Handle("/me", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello ann, your token is", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	})
	x := index.Start(t, p, "packages.test", "files.test")
	x.Wheel("requests", "9.9", map[string]string{"requests.py": requests})

	temp := t.TempDir()
	p.ServeGit(t, temp)
	repository := peer.NewRepository(t, filepath.Join(temp, "calc.git"))
	var files []peer.Entry
	for _, name := range []string{"calc.py", "test_calc.py"} {
		text, err := os.ReadFile(filepath.Join(dir, "../ci/change/broken", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, repository.File(name, string(text)))
	}
	repository.Commit("main", files...)

	readme := filepath.Join(dir, "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	authority := filepath.Join(temp, "ca.pem")
	for path, text := range map[string]string{
		authority: string(p.CA), readme: commands.ReplaceAllString(string(text), "$1 --allow "+p.Address+" $2"),
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"SANDBOX_DATA=" + filepath.Join(temp, "data"), "SANDBOX_EGRESS_RESOLVER=" + p.Resolver, "SANDBOX_EGRESS_ALLOW=*.example.com,www.example.org," + p.Address,
		"SANDBOX_EGRESS_PRIVATE=true", "SANDBOX_EGRESS_CA_FILE=" + authority, "SSL_CERT_FILE=" + authority, "SANDBOX_PACKAGE_MIRRORS=pip=" + x.PipURL(),
	}
}
