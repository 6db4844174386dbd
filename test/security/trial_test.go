//go:build linux

package security

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// trial is one run on a lane, with its own folders.
type trial struct {
	t        *testing.T
	lane     *lane
	dir      string   // of the lane's user; out of reach for the sandbox
	ref      string   // the image's name, "" for the host's
	root     string   // describes the image in one word
	flags    []string // more flags of belljar run
	env      []string // more of belljar's own environment
	forged   bool     // its agent obeys programs
	standing bool     // it is itself a server
	server   string   // the trial's own, or the one for all sessions; "" is the lane's, if any
	extra    []string // more flags of the run, also in a session

	session string // session in which it runs; "" for a sandbox of its own

	account  account
	messages bytes.Buffer // stderr of a held sandbox; complete after its end
}

func (l *lane) trial(t *testing.T) *trial {
	t.Helper()
	dir, err := os.MkdirTemp(l.home, "trial-")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{t: t, lane: l, dir: dir, ref: l.ref, root: l.root()}
	for _, sub := range []string{"", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
		if l.uid != 0 {
			if err := os.Chown(filepath.Join(dir, sub), l.uid, l.uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	return tr
}

// where returns the flags about the place of a run.
func (tr *trial) where() []string {
	flags := slices.Clone(tr.lane.flags)
	if tr.ref != "" {
		flags = append(flags, "--image", tr.ref)
	}
	return flags
}

// copy puts a file where the lane's user can read it.
func (tr *trial) copy(path string) string {
	tr.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tr.t.Fatal(err)
	}
	to := filepath.Join(tr.dir, filepath.Base(path))
	if err := os.WriteFile(to, raw, 0o644); err != nil {
		tr.t.Fatal(err)
	}
	return to
}

// outcome is the output of belljar run --json.
type outcome struct {
	belljar.Run
	Stdout    string             `json:"stdout"`
	Stderr    string             `json:"stderr"`
	Artifacts []belljar.Artifact `json:"artifacts"`
}

func (o outcome) exit() string {
	if o.ExitCode == nil {
		return "none"
	}
	return strconv.Itoa(*o.ExitCode)
}

// own returns the processor time that the sandbox itself has used.
func (o outcome) own() string {
	if o.ResourceUsage == nil || o.ResourceUsage.CPUTimeSec == nil {
		return "an unknown time inside"
	}
	return fmt.Sprintf("%.2f s inside", *o.ResourceUsage.CPUTimeSec)
}

// run runs belljar run --json with args and returns its output.
func (tr *trial) run(ctx context.Context, args []string) outcome {
	tr.t.Helper()
	raw := tr.output(ctx, args)
	var got outcome
	if err := json.Unmarshal(raw, &got); err != nil || got.Phase == "" {
		tr.t.Fatalf("belljar %q: %v\n%s", args, err, tail(string(raw)))
	}
	return got
}

// output runs belljar under a supervisor to its end and returns its standard output.
func (tr *trial) output(ctx context.Context, args []string) []byte {
	tr.t.Helper()
	var stdout, stderr bytes.Buffer
	p := tr.start(ctx, args, nil, &stdout, &stderr)
	if err := p.wait(); err != nil {
		tr.t.Fatal(err)
	}
	if stdout.Len() == 0 {
		tr.t.Fatalf("belljar %q printed nothing\n%s", args, stderr.String())
	}
	return stdout.Bytes()
}

// program returns the trial's belljar.
func (tr *trial) program() string {
	if tr.forged {
		return built.Forged
	}
	return built.Belljar
}

// process is a supervised belljar.
type process struct {
	trial    *trial
	cmd      *exec.Cmd
	accounts *os.File
}

func (tr *trial) start(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) *process {
	tr.t.Helper()
	o := order{
		Argv: append([]string{tr.program()}, args...), Dir: tr.dir, UID: tr.lane.uid, Etc: tr.lane.etc,
		Env: append([]string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + tr.dir,
			"TMPDIR=" + filepath.Join(tr.dir, "tmp"), "XDG_RUNTIME_DIR=" + tr.lane.home,
		}, tr.environment(args)...),
	}
	raw, err := json.Marshal(o)
	if err != nil {
		tr.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		tr.t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		tr.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), superviseEnv+"="+string(raw), "GORACE=atexit_sleep_ms=0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = stdin, stdout, stderr, []*os.File{w}
	if len(o.Etc) > 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	}
	err = cmd.Start()
	w.Close()
	if err != nil {
		tr.t.Fatalf("start a supervisor: %v", err)
	}
	return &process{trial: tr, cmd: cmd, accounts: r}
}

// end ends a server, and waits for its end.
func (p *process) end() error {
	for _, pid := range descendants(p.cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGTERM) // the server, which ends its own processes
	}
	return p.wait()
}

// wait waits for the end and keeps the supervisor's report.
func (p *process) wait() error {
	defer p.accounts.Close()
	decoded := json.NewDecoder(p.accounts).Decode(&p.trial.account)
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	if decoded != nil {
		return fmt.Errorf("supervisor's account: %w", decoded)
	}
	if p.trial.account.Error != "" {
		return fmt.Errorf("supervisor: %s", p.trial.account.Error)
	}
	return nil
}

// nothingLeft checks that belljar and everything that it made for a run are gone from the host.
func (tr *trial) nothingLeft(got outcome) {
	tr.t.Helper()
	for _, s := range tr.account.Survivors {
		tr.t.Errorf("process left: %s", s)
	}
	for _, path := range tr.traces(got.ID) {
		tr.t.Errorf("left: %s", path)
	}
	if tr.lane.engine != nil {
		for begin := time.Now(); tr.server != "" && len(tr.lane.engine.left(tr.t, got.ID)) > 0 && time.Since(begin) < runTime; {
			time.Sleep(10 * time.Millisecond)
		}
		for _, name := range tr.lane.engine.left(tr.t, got.ID) {
			tr.t.Errorf("left: %s", name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		tr.t.Error(err)
	}
	if bytes.Contains(mounts, []byte(got.ID)) {
		tr.t.Errorf("mount left:\n%s", mounts)
	}
	left, err := os.ReadDir(filepath.Join(tr.dir, "tmp"))
	if err != nil {
		tr.t.Error(err)
	}
	for _, e := range left {
		tr.t.Errorf("temporary file left: %s", e.Name())
	}
}

const cgroups = "/sys/fs/cgroup"

// leaf reports whether a cgroup has no child. Its files have no names of ours, and there are dozens.
func leaf(d fs.DirEntry) bool {
	if !d.IsDir() {
		return false
	}
	info, err := d.Info()
	return err == nil && info.Sys().(*syscall.Stat_t).Nlink == 2
}

// traces returns the host's files and folders with a run's name. A server removes a sandbox after its response, so they may remain
// for a moment.
func (tr *trial) traces(id string) []string {
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var found []string
		for _, root := range []string{cgroups, "/run/belljar", "/dev/shm/belljar", tr.lane.home, "/var/lib/belljar"} {
			filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if strings.Contains(filepath.Base(path), id) {
					found = append(found, path)
				}
				if err == nil && root == cgroups && leaf(d) {
					return fs.SkipDir
				}
				return nil // removed by another process
			})
		}
		if len(found) == 0 || !tr.lane.ready && tr.server == "" || time.Since(begin) > runTime {
			return found
		}
	}
}
