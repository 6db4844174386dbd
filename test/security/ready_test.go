//go:build linux

package security

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar/test/build"
)

const readyKey = "only-for-the-tests-of-this-lane"

// kept is the number of requests for a kind of sandbox after which a pool keeps one ready.
const kept = 2

// warm makes the lane's runs use a server with a pool of ready sandboxes, and checks at the end that they came from the pool.
func (l *lane) warm(t *testing.T) {
	t.Helper()
	url := serveReady(t, built.Belljar, l.home, "SANDBOX_POOL_SIZE=8", "SANDBOX_POOL_MAX=32")
	l.env = append(l.env, "BELLJAR_SERVER="+url, "BELLJAR_API_KEY="+readyKey)
	// A busy machine makes them more slowly than the scripts use them.
	l.stock = func(t *testing.T) {
		deadline := time.Now().Add(runTime)
		for figure(t, url, `sandbox_pool_available{runtime="native"}`) < 8 && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
	}
	t.Cleanup(func() {
		hits, misses := claims(t, url, "native", "hit"), claims(t, url, "native", "miss")
		t.Logf("%d sandboxes were ready, %d were not", hits, misses)
		if hits+misses > 0 && hits <= misses { // trials with a network have servers of their own
			t.Errorf("only %d of %d sandboxes were ready, which proves little", hits, hits+misses)
		}
	})
}

// environment returns the environment of belljar run with args. On a lane with ready sandboxes, network settings are the server's,
// so that a trial with such settings gets a server of its own.
func (tr *trial) environment(args []string) []string {
	network := func(setting string) bool { return strings.HasPrefix(setting, "SANDBOX_EGRESS_") }
	if tr.lane.ready && !tr.standing && slices.ContainsFunc(tr.env, network) && tr.server == "" {
		tr.serve(slices.Contains(args, "--workspace-exec"))
	}
	env := slices.Concat(tr.lane.env, tr.env)
	if tr.server != "" {
		env = append(env, "BELLJAR_SERVER="+tr.server, "BELLJAR_API_KEY="+readyKey)
	}
	return env
}

// serve starts a server with the trial's settings, and waits until it has a ready sandbox of the kind that the trial needs.
func (tr *trial) serve(exec bool) {
	tr.t.Helper()
	// Unset settings are as without a server.
	own := []string{"SANDBOX_EGRESS_ALLOW=*", "SANDBOX_EGRESS_PRIVATE=true", "SANDBOX_POOL_SIZE=1", "SANDBOX_POOL_MAX=2"}
	tr.server = serveReady(tr.t, tr.program(), tr.dir, append(own, tr.env...)...)
	kinds := 1
	if exec {
		kinds++
		for range kept {
			tr.run(tr.t.Context(), slices.Concat([]string{"run", "--json", "--workspace-exec"}, tr.where(), []string{"--", "true"}))
		}
	}
	for deadline := time.Now().Add(runTime); figure(tr.t, tr.server, `sandbox_pool_available{runtime="native"}`) < kinds && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	before := claims(tr.t, tr.server, "native", "hit")
	tr.t.Cleanup(func() {
		if claims(tr.t, tr.server, "native", "hit") == before {
			tr.t.Error("the sandbox was not ready before, which proves little")
		}
	})
}

// serveReady starts a server of a belljar with its own folder and settings, and returns its address.
func serveReady(t *testing.T, program, dir string, settings ...string) string {
	t.Helper()
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir,
		"SANDBOX_API_KEY=" + readyKey, "SANDBOX_LOG_LEVEL=warn", "SANDBOX_END_SESSIONS=true",
	}
	cmd.Env = append(cmd.Env, settings...)
	cmd.Env = append(cmd.Env, build.Patient()...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	ended, err := run(cmd)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(r)
	ready := make(chan struct{})
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-ready
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "belljar", "native", "*", "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left when the server had gone: %v, %v", left, err)
		}
	})
	listen := func() {
		defer close(ready)
		rest, _ := io.ReadAll(lines)
		t.Logf("the log of the server:\n%s", rest)
	}
	for {
		line, err := lines.ReadString('\n')
		if _, url, ok := strings.Cut(line, "serving on "); ok {
			go listen()
			return strings.TrimSpace(url)
		}
		if err != nil {
			close(ready)
			t.Fatalf("the server does not serve: %v", err)
		}
	}
}

// run starts a command that ends with the tests, even if they are killed. The kernel ties that to the thread that starts it, so
// that thread must live on.
func run(cmd *exec.Cmd) (ended <-chan error, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, done := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	return done, <-started
}

// claims reads one of the pool's figures.
func claims(t *testing.T, url, runtime, result string) int {
	t.Helper()
	return figure(t, url, `sandbox_pool_claims_total{result="`+result+`",runtime="`+runtime+`"}`)
}

// figure reads one of the server's figures.
func figure(t *testing.T, url, name string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", readyKey)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(regexp.QuoteMeta(name) + ` (\d+)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no figure of the pool in\n%s", text)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
