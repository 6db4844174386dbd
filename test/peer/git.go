//go:build linux

package peer

import (
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ServeGit serves the repositories in a folder for cloning, below /git/, and returns the handler.
func (p *Peer) ServeGit(t testing.TB, dir string) http.Handler {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("git is needed: %v; make packages installs it", err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Root: "/git", Stderr: io.Discard,
		Env: []string{
			"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "PATH=" + os.Getenv("PATH"),
			"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
			"GIT_CONFIG_KEY_1=uploadpack.allowAnySHA1InWant", "GIT_CONFIG_VALUE_1=true",
		},
	}
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.count(p.hosts, r.Host)
		if proto := r.Header.Get("Git-Protocol"); proto != "" {
			own := *backend
			own.Env = append(own.Env[:len(own.Env):len(own.Env)], "GIT_PROTOCOL="+proto)
			own.ServeHTTP(w, r)
			return
		}
		backend.ServeHTTP(w, r)
	})
	p.Handle("/git/", served)
	return served
}

// A Repository is one that a test makes, commit by commit.
type Repository struct {
	Dir string // bare

	t testing.TB
}

// NewRepository makes an empty repository, whose branch is main.
func NewRepository(t testing.TB, dir string) *Repository {
	t.Helper()
	r := &Repository{Dir: dir, t: t}
	r.Git("", "init", "--quiet", "--bare", "--initial-branch=main", dir)
	return r
}

// Git runs git in the repository with an input, and returns its output.
func (r *Repository) Git(input string, args ...string) string {
	r.t.Helper()
	c := exec.Command("git", args...)
	c.Stdin = strings.NewReader(input)
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_DIR=" + r.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
	}
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// An Entry is one row of a tree.
type Entry struct{ Mode, Kind, Hash, Name string }

// Blob stores a file's contents.
func (r *Repository) Blob(text string) string {
	return r.Git(text, "hash-object", "-w", "--stdin")
}

// File returns the entry of a file.
func (r *Repository) File(name, text string) Entry {
	return Entry{"100644", "blob", r.Blob(text), name}
}

// Link returns the entry of a symbolic link.
func (r *Repository) Link(name, target string) Entry {
	return Entry{"120000", "blob", r.Blob(target), name}
}

// Folder returns the entry of a folder.
func (r *Repository) Folder(name string, entries ...Entry) Entry {
	return Entry{"040000", "tree", r.tree(entries), name}
}

// tree stores a folder, with any names in it.
func (r *Repository) tree(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Mode + " " + e.Kind + " " + e.Hash + "\t" + e.Name + "\x00")
	}
	return r.Git(b.String(), "mktree", "-z", "--missing")
}

// Commit makes a commit with these files, on top of the branch if it exists, and returns its hash.
func (r *Repository) Commit(branch string, entries ...Entry) string {
	args := []string{"commit-tree", "-m", "change", r.tree(entries)}
	if _, err := os.Stat(filepath.Join(r.Dir, "refs", "heads", branch)); err == nil {
		args = append(args, "-p", "refs/heads/"+branch)
	}
	hash := r.Git("", args...)
	r.Git("", "update-ref", "refs/heads/"+branch, hash)
	return hash
}
