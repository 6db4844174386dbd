//go:build linux

package service_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// forgetfulRuntime has agents that were taken over after an earlier process used them: they do not report their contexts.
type forgetfulRuntime struct{ runtime.Runtime }

func (r forgetfulRuntime) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	box, err := r.Runtime.Attach(ctx, id)
	return forgetfulBox{box}, err
}

type forgetfulBox struct{ runtime.Sandbox }

func (b forgetfulBox) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := b.Sandbox.Dial(ctx)
	return forgetfulConn{conn}, err
}

type forgetfulConn struct{ net.Conn }

func (c forgetfulConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"op":"shells"`)) {
		c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// A context is on record when it is made, and before its first code begins: the next process has it even if its agent does not report it.
func TestYoungContextsAreOnRecord(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	x := p.open()
	if _, err := p.service.As(service.Local()).Contexts().Create(p.context(), x.ID, belljar.ContextSpec{Language: "bash", Name: "made"}); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	used := p.start(bash(x.ID, "used", "one=1; echo up; while [ ! -e "+gate+" ]; do sleep 0.01; done"))
	p.waitFor(used.ID, "up\n")
	p.kill()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	p = w.boot(over(func(r runtime.Runtime) runtime.Runtime { return forgetfulRuntime{r} }))
	for name, want := range map[string]string{"made": "\n", "used": "1\n"} {
		if r := p.run(inContext(x.ID, name, "echo $one")); r.stdout != want || r.Context.State != belljar.ShellKept {
			t.Errorf("%s: %q, %+v, %s", name, r.stdout, r.Context, r.Message)
		}
	}
	p.end(x)
}
