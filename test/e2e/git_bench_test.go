//go:build linux

package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar/test/peer"
)

// BenchmarkClone clones a repository of 10 MB with git alone and for a run, in turns. added-ms is the time that Belljar adds to git's
// own, without that of a run without a repository.
func BenchmarkClone(b *testing.B) {
	p := peer.Start(b, "git.test")
	dir := b.TempDir()
	p.ServeGit(b, dir)
	r := peer.NewRepository(b, filepath.Join(dir, "app.git"))
	var files []peer.Entry
	for i := range 200 {
		raw := make([]byte, 50<<10)
		_, _ = rand.Read(raw)
		files = append(files, r.File(fmt.Sprintf("f%03d", i), base64.StdEncoding.EncodeToString(raw)))
	}
	r.Commit("main", files...)
	r.Git("", "repack", "-a", "-d", "-q")
	ca := filepath.Join(b.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, p.CA, 0o644); err != nil {
		b.Fatal(err)
	}
	env := append(os.Environ(), "SANDBOX_DATA="+b.TempDir(), "SANDBOX_EGRESS_RESOLVER="+p.Resolver, "SANDBOX_EGRESS_CA_FILE="+ca,
		"SANDBOX_EGRESS_ALLOW=git.test,"+p.Address, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_SSL_CAINFO="+ca)
	const url = "https://git.test/git/app.git"
	took := func(argv ...string) time.Duration {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = env
		begun := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v\n%s", argv, err, out)
		}
		return time.Since(begun)
	}
	var alone, plain, with time.Duration
	to := b.TempDir()
	for b.Loop() {
		copied := filepath.Join(to, "copy")
		alone += took("git", "-c", "http.curloptResolve=git.test:443:"+p.Address, "-c", "transfer.fsckObjects=true",
			"clone", "--quiet", "--depth=1", url, copied)
		if err := os.RemoveAll(copied); err != nil {
			b.Fatal(err)
		}
		plain += took(built.Belljar, "run", "-q", "--", "/bin/true")
		with += took(built.Belljar, "run", "-q", "--git", url, "--", "/bin/true")
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(b.N) }
	b.ReportMetric(ms(alone), "git-ms")
	b.ReportMetric(ms(with-plain), "clone-ms")
	b.ReportMetric(ms(with-plain-alone), "added-ms")
}
