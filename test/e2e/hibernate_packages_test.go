//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/index"
	"github.com/belljar/belljar/test/peer"
	"github.com/belljar/belljar/test/tier"
)

// TestHibernateWithPackages hibernates sessions with packages and a network, and kills their server. After they wake, they have everything
// again: imported modules (on gvisor), modules to import, the way to the index and no other, terminals and ports.
func TestHibernateWithPackages(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	for _, l := range lanes()[:2] {
		t.Run(l.runtime, func(t *testing.T) {
			t.Parallel()
			p := peer.Start(t, "packages.test", "files.test", "other.test")
			x := index.Start(t, p, "packages.test", "files.test")
			x.Wheel("greeter", "1.0", map[string]string{"greeter.py": "word = 'hello'\n"})
			x.Wheel("another", "1.0", map[string]string{"another.py": "print('from the index')\n"})
			data, flags := t.TempDir(), append(l.open(t), settings(t, p, x)...)
			s := serve(t, data, flags...)
			id := s.sessionOf(map[string]any{
				"packages": map[string]any{"pip": []string{"greeter"}}, "network_policy": "allowlist", "egress": map[string]any{"presets": []string{"pip"}},
				"env": map[string]string{"PIP_CERT": "/workspace/ca.pem", "PIP_RETRIES": "0"},
			})
			execute := func(code, state string) {
				t.Helper()
				status, run := s.ask(http.MethodPost, api+"/sessions/"+id+"/contexts/data/execute?wait=600s", map[string]any{
					"code": code, "language": "python", "files": []any{map[string]any{"path": "ca.pem", "content_b64": p.CA}},
				})
				of, _ := run["context"].(map[string]any)
				if status != http.StatusOK || run["stdout"] != "hello 42\n" || of["state"] != state || run["warnings"] != nil {
					t.Errorf("%s: %d %v", code, status, run)
				}
			}
			execute("import greeter; x = 41; print(greeter.word, x + 1)", "kept")
			status, session := s.ask(http.MethodPost, api+"/sessions/"+id+"/hibernate", map[string]any{"force": l.runtime == "native"})
			if status != http.StatusOK || session["state"] != "hibernated" {
				t.Fatalf("%d %v", status, session)
			}
			s.kill()
			s = serve(t, data, flags...)
			if l.runtime == "gvisor" {
				execute("print(greeter.word, x + 1)", "kept")
			} else {
				execute("import greeter; print(greeter.word, 42)", "new")
			}
			got := s.shell(id, `pip() { /usr/bin/python3 -m pip "$@" 2>/dev/null; }; pip install -q --target lib another && PYTHONPATH=lib:$PYTHONPATH python3 -c 'import another, greeter
print(greeter.word)'; pip download -q --no-deps --index-url https://other.test/pip greeter || echo refused`)
			if got != "from the index\nhello\nrefused\n" {
				t.Errorf("%q\n%s", got, s.output)
			}

			c := s.client()
			terminal, err := c.Terminals().Open(t.Context(), id, belljar.TerminalSpec{})
			if err != nil {
				t.Fatal(err)
			}
			screen := s.watch(c, terminal.ID)
			screen.typed("python3 -c 'import greeter; print(greeter.word * 2)'\n")
			screen.await("hellohello")
			s.shell(id, `(cd lib && exec python3 -m http.server --bind 127.0.0.1 8000) >/dev/null 2>&1 & until (: </dev/tcp/127.0.0.1/8000) 2>/dev/null; do :; done`)
			conn, err := c.Ports().Dial(t.Context(), id, 8000)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET /another.py HTTP/1.0\r\n\r\n")
			answer := make([]byte, 12)
			if _, err := io.ReadFull(conn, answer); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 200") {
				t.Errorf("%q, %v", answer, err)
			}
		})
	}
}
