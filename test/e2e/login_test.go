//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar/client"
)

// as returns the status of GET /me with a credential.
func (s *server) as(credential string) int {
	s.t.Helper()
	status, _ := s.ask(http.MethodGet, api+"/me", nil, "X-API-KEY: "+credential)
	return status
}

// TestLogin signs in to a server that is killed and restarted: tokens stay valid, spent codes and ended tokens stay invalid, and the data
// folder and the log contain none of the secrets.
func TestLogin(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data)
	open := func(s *server) *client.Client {
		t.Helper()
		c, err := client.New(client.Options{URL: s.URL, APIKey: s.Key})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := open(s)
	code, err := c.LoginLink(t.Context())
	if err != nil || code.URL != s.URL+"/webui/#k="+code.Code {
		t.Fatalf("%+v, %v", code, err)
	}
	kept, err := c.Login(t.Context(), client.Credential{Code: code.Code})
	if err != nil || kept.Role != "admin" || s.as(kept.Token) != http.StatusOK {
		t.Fatalf("%+v, %v", kept, err)
	}
	ended, err := c.Login(t.Context(), client.Credential{Key: s.Key})
	if err != nil {
		t.Fatal(err)
	}
	page, err := client.New(client.Options{URL: s.URL, Bearer: ended.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	if err := page.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := s.output.String()
	s.kill()

	s = serve(t, data)
	if s.as(kept.Token) != http.StatusOK || s.as(ended.Token) != http.StatusUnauthorized {
		t.Errorf("after a restart: %d, %d", s.as(kept.Token), s.as(ended.Token))
	}
	if again, err := open(s).Login(t.Context(), client.Credential{Code: code.Code}); err == nil {
		t.Errorf("a spent code signs in: %+v", again)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	log += s.output.String()
	err = filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range []string{code.Code, kept.Token, ended.Token} {
			if bytes.Contains(text, []byte(secret)) || strings.Contains(log, secret) {
				t.Errorf("%s, or the log, has a secret", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestServePage reads the address that serve prints, and signs in with it. Under a service manager, which keeps the output, the address
// has no code, and no key is printed.
func TestServePage(t *testing.T) {
	start := func(more ...string) (line, key string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), built.Belljar, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--set", "log_level=warn")
		cmd.Env = slices.DeleteFunc(os.Environ(), func(set string) bool { return strings.HasPrefix(set, "JOURNAL_STREAM=") })
		cmd.Env = append(cmd.Env, more...)
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		})
		for in := bufio.NewScanner(out); in.Scan(); {
			if words, ok := strings.CutPrefix(in.Text(), "belljar: API key "); ok {
				key, _, _ = strings.Cut(words, " ")
			}
			if strings.HasPrefix(in.Text(), "belljar: web page ") {
				return in.Text(), key
			}
		}
		t.Fatal("no address of the page")
		return "", ""
	}
	line, key := start()
	found := regexp.MustCompile(`^belljar: web page (http://127\.0\.0\.1:\d+)/webui/#k=([\w-]{22}) \(signs in once, within 5 minutes\)$`).FindStringSubmatch(line)
	if found == nil || key == "" {
		t.Fatal(line)
	}
	c, err := client.New(client.Options{URL: found[1]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if login, err := c.Login(t.Context(), client.Credential{Code: found[2]}); err != nil || login.UserID != "operator" {
		t.Errorf("%+v, %v", login, err)
	}
	if line, key := start("JOURNAL_STREAM=8:1"); strings.Contains(line, "#") || key != "" || !strings.HasSuffix(line, "/webui/, where the API key signs in") {
		t.Errorf("%s", line)
	}
}
