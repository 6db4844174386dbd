package runtimetest

import (
	"context"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

// testSecrets tests that a secret is a file that the sandbox's user can read, and that no file request reaches it. A
// runtime without isolation is not tested: its secrets are in another folder.
func testSecrets(t *testing.T, o Options) {
	if !o.Isolated {
		t.Skip("without isolation")
	}
	j := share(t, o)
	if out := j.must("ls -A /run"); out != "" {
		j.Errorf("/run has %q", out)
	}
	j.sub("what a program has put there", func(j *jar) {
		j.must("ln -s /workspace /run/secrets")
		j.refused("a link in place of the folder", j.agent.WriteSecret(j.ctx, j.file("TOKEN"), "correct horse"), wire.CodeExists)
		j.must("rm /run/secrets; mkdir /run/secrets; ln -s /workspace/x /run/secrets/TOKEN")
		j.refused("a link in place of the file", j.agent.WriteSecret(j.ctx, j.file("TOKEN"), "correct horse"), wire.CodeExists)
		j.must("test ! -e x; rm -r /run/secrets")
	})
	long := strings.Repeat("long secret\n", 5000)
	for name, value := range map[string]string{"TOKEN": "correct horse", "LONG": long} {
		if err := j.agent.WriteSecret(j.ctx, j.file(name), value); err != nil {
			j.Fatal(err)
		}
	}
	if out := j.must("cd /run/secrets; cat TOKEN; echo; stat -c '%a %u' . TOKEN LONG | sort -u; id -u; wc -c <LONG"); strings.Join(strings.Fields(out), " ") !=
		strings.Join(strings.Fields("correct horse 400 "+j.must("id -u")+" 700 "+j.must("id -u")+" "+j.must("id -u")+" 60000"), " ") {
		j.Errorf("%q", out)
	}
	j.sub("no request reaches it", func(j *jar) {
		j.must("ln -s /run/secrets/TOKEN link; ln -s /run/secrets folder")
		for _, path := range []string{"link", "folder/TOKEN", "/run/secrets/TOKEN", "../run/secrets/TOKEN"} {
			if r, _, err := j.agent.ReadFile(j.ctx, j.file(path)); err == nil {
				r.Close()
				j.Errorf("%s can be read", path)
			}
		}
		var tar strings.Builder
		if err := j.agent.TarOut(j.ctx, j.file("."), &tar); err != nil || strings.Contains(tar.String(), "correct horse") {
			j.Errorf("an archive has the secret, or %v", err)
		}
	})
	j.sub("names", func(j *jar) {
		j.refused("twice", j.agent.WriteSecret(j.ctx, j.file("TOKEN"), "other value"), wire.CodeExists)
		for _, name := range []string{"", ".", "..", "a/b", "/x", "a\x00b", strings.Repeat("x", 256)} {
			j.refused(name, j.agent.WriteSecret(j.ctx, j.file(name), "other value"), wire.CodeInvalid)
		}
		j.refused("too long", j.agent.WriteSecret(j.ctx, j.file("HUGE"), strings.Repeat("x", 64<<10+1)), wire.CodeTooLarge)
		j.must("test ! -e /run/secrets/HUGE; test $(ls /run/secrets | wc -l) = 2")
	})
	ended, cancel := context.WithCancel(j.ctx)
	cancel()
	if err := j.agent.WriteSecret(ended, j.file("LATE"), "correct horse"); err == nil {
		j.Error("a secret is written for a request that was given up")
	}
}
