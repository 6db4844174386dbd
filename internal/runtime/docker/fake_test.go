package docker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/system"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/test/sockdir"
)

// engine is a simulated engine. Its reports can be made weaker than the request.
type engine struct {
	api    string // API version
	os     string
	name   string // name of its program
	info   system.Info
	image  image.InspectResponse
	images []image.Summary
	create func(*container.InspectResponse) error // changes the reported container before it is returned; errDropped closes the connection
	pull   func(w http.ResponseWriter, r *http.Request)
	late   int // number of removals for which a container does not exist yet, although its name is taken

	mu    sync.Mutex
	made  *container.InspectResponse
	calls []string
}

// name returns an installation name that is unique to the test.
func name() string { return "t" + belljar.NewID()[24:] }

func spec(image string) runtime.Spec {
	limits := belljar.DefaultLimits()
	return runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: image, Name: image}, Limits: limits,
		Workspace: runtime.Workspace{Bytes: 16 << 20, Inodes: 4096, Exec: true, Medium: runtime.MediumMemory},
	}
}

func newEngine() *engine {
	e := &engine{api: "1.41", os: "linux", name: "Engine", info: system.Info{
		OSType: "linux", Architecture: "x86_64", MemoryLimit: true, SwapLimit: true, PidsLimit: true, CPUCfsQuota: true, CgroupVersion: "2",
		SecurityOptions: []string{"name=seccomp,profile=default"}, DefaultRuntime: "runc", ServerVersion: "20.10.24",
		Runtimes: map[string]system.RuntimeWithStatus{"runc": {Runtime: system.Runtime{Path: "runc"}}},
	}}
	e.image.ID, e.image.Os, e.image.Architecture = "sha256:1", "linux", "amd64"
	return e
}

var version = regexp.MustCompile(`^/v[0-9.]+`)

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Api-Version", e.api)
	w.Header().Set("Ostype", e.os)
	path := version.ReplaceAllString(r.URL.Path, "")
	e.calls = append(e.calls, r.Method+" "+path)
	fail := func(code int, text string) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(map[string]string{"message": text})
	}
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	switch asked := version.FindString(r.URL.Path); {
	case asked != "" && asked != "/v"+e.api:
		fail(http.StatusBadRequest, "client version "+asked[2:]+" is too old. Minimum supported API version is "+e.api)
	case path == "/_ping":
	case path == "/info":
		answer(e.info)
	case path == "/version":
		answer(map[string]any{"Version": e.info.ServerVersion, "Components": []any{map[string]string{"Name": e.name}}})
	case strings.HasPrefix(path, "/volumes/"):
		answer(map[string]string{"Name": path[len("/volumes/"):]})
	case path == "/images/create":
		e.pull(w, r)
	case path == "/images/json":
		answer(e.images)
	case strings.HasPrefix(path, "/images/") && e.image.ID == "":
		fail(http.StatusNotFound, "No such image")
	case strings.HasPrefix(path, "/images/"):
		answer(e.image)
	case path == "/containers/create" && e.made != nil:
		fail(http.StatusConflict, "the name is in use")
	case path == "/containers/create":
		var asked struct {
			*container.Config
			HostConfig *container.HostConfig
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		e.made = &container.InspectResponse{ID: "c1", Config: asked.Config, HostConfig: asked.HostConfig, State: &container.State{Status: "created"}}
		for _, m := range asked.HostConfig.Mounts {
			e.made.Mounts = append(e.made.Mounts, container.MountPoint{Type: m.Type, Name: m.Source, Destination: m.Target, RW: !m.ReadOnly})
		}
		if e.create != nil {
			if err := e.create(e.made); err == errDropped {
				panic(http.ErrAbortHandler)
			} else if err != nil {
				e.made = nil
				fail(http.StatusInternalServerError, err.Error())
				return
			}
		}
		w.WriteHeader(http.StatusCreated)
		answer(container.CreateResponse{ID: "c1"})
	case path == "/containers/json":
		answer([]container.Summary{})
	case strings.HasPrefix(path, "/containers/") && e.made == nil:
		fail(http.StatusNotFound, "No such container")
	case strings.HasSuffix(path, "/json"):
		answer(e.made)
	case r.Method == http.MethodDelete && e.late > 0:
		e.late--
		fail(http.StatusNotFound, "No such container")
	case r.Method == http.MethodDelete:
		e.made = nil
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(http.StatusTeapot, "this engine only talks")
	}
}

func (e *engine) asked(call string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if strings.HasPrefix(c, call) {
			return true
		}
	}
	return false
}

// talk makes a runtime that connects to the engine over TCP.
func talk(t *testing.T, e *engine, o docker.Options) *docker.Runtime {
	t.Helper()
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	o.Host = "tcp://" + server.Listener.Addr().String()
	return offline(t, o)
}

// offline makes a runtime that is closed at the end of the test.
func offline(t *testing.T, o docker.Options) *docker.Runtime {
	t.Helper()
	o.Agent = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("agent")), nil }
	if o.Patience == 0 {
		o.Patience = 3 * time.Minute
	}
	r, err := docker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// If an engine leaves a protection out, the sandbox is refused, no weaker request is sent, and nothing is left.
func TestRefusedProtections(t *testing.T) {
	for name, c := range map[string]struct {
		create func(*container.InspectResponse) error
		step   string
	}{
		"no seccomp":      {func(c *container.InspectResponse) error { c.HostConfig.SecurityOpt = nil; return nil }, "verify"},
		"no memory limit": {func(c *container.InspectResponse) error { c.HostConfig.Memory = 0; return nil }, "verify"},
		"no pids limit":   {func(c *container.InspectResponse) error { c.HostConfig.PidsLimit = nil; return nil }, "verify"},
		"writable":        {func(c *container.InspectResponse) error { c.HostConfig.ReadonlyRootfs = false; return nil }, "verify"},
		"a network":       {func(c *container.InspectResponse) error { c.HostConfig.NetworkMode = "bridge"; return nil }, "verify"},
		"seccomp refused": {func(*container.InspectResponse) error { return errors.New("seccomp is not enabled in your kernel") }, "create"},
		"runtime refused": {func(*container.InspectResponse) error { return errors.New("unknown or invalid runtime name: runsc") }, "create"},
		"limits refused": {func(*container.InspectResponse) error {
			return errors.New("error setting rlimit type 7: operation not permitted")
		}, "create"},
		"disk full": {func(*container.InspectResponse) error { return errors.New("mkdir /x: no space left on device") }, "create"},
	} {
		t.Run(name, func(t *testing.T) {
			creates := 0
			e := newEngine()
			e.create = func(got *container.InspectResponse) error {
				creates++
				return c.create(got)
			}
			r := talk(t, e, docker.Options{})
			_, err := r.Create(t.Context(), spec("x"))
			var step *runtime.StepError
			if !errors.As(err, &step) || step.Step != c.step || step.Hint == "" {
				t.Errorf("%v, hint %q", err, step)
			}
			want := 1
			if name == "limits refused" {
				want = 3 // with fewer open files, down to what the sandbox needs
			}
			if creates != want {
				t.Errorf("asked %d times", creates)
			}
			if e.made != nil {
				t.Error("the container is left")
			}
			if e.asked("POST /containers/c1/start") {
				t.Error("it was started")
			}
		})
	}
}

// If an engine reports all settings as requested, the creation continues until the simulated engine has no answer.
func TestHonestEngineIsBelieved(t *testing.T) {
	e := newEngine()
	r := talk(t, e, docker.Options{})
	_, err := r.Create(t.Context(), spec("x"))
	var step *runtime.StepError
	if !errors.As(err, &step) || step.Step != "attach" {
		t.Errorf("%v", err)
	}
	if e.made != nil {
		t.Error("the container is left")
	}
}

// Engines refuse more CPUs than they have, so a sandbox with a higher limit gets all.
func TestMoreCPUsThanTheEngine(t *testing.T) {
	e := newEngine()
	e.info.NCPU = 2
	var asked []int64
	e.create = func(c *container.InspectResponse) error {
		asked = append(asked, c.HostConfig.NanoCPUs)
		return nil
	}
	r := talk(t, e, docker.Options{})
	for _, cpu := range []float64{1.5, 4} {
		s := spec("x")
		s.Limits.CPU = cpu
		var step *runtime.StepError
		if _, err := r.Create(t.Context(), s); !errors.As(err, &step) || step.Step != "attach" {
			t.Error(err)
		}
	}
	if !slices.Equal(asked, []int64{1.5e9, 2e9}) {
		t.Error(asked)
	}
}

func TestProbeSaysWhyNot(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, c := range map[string]struct {
		engine func(*engine)
		o      docker.Options
		code   string
		hint   string
	}{
		"no socket":       {o: docker.Options{Host: "unix://" + filepath.Join(t.TempDir(), "none.sock")}, code: "host_prerequisite_missing", hint: "SANDBOX_DOCKER_HOST"},
		"no listener":     {o: docker.Options{Host: "tcp://" + closed.Listener.Addr().String()}, code: "host_prerequisite_missing", hint: "start the engine"},
		"ssh":             {o: docker.Options{Host: "ssh://somewhere"}, code: "host_prerequisite_missing", hint: "ssh -L"},
		"nonsense":        {o: docker.Options{Host: "nonsense"}, code: "host_prerequisite_missing", hint: "unix:///path"},
		"old":             {engine: func(e *engine) { e.api = "1.39" }, code: "host_prerequisite_missing", hint: "19.03"},
		"podman":          {engine: func(e *engine) { e.name = "Podman Engine" }, code: "feature_not_implemented", hint: "Docker engine"},
		"windows":         {engine: func(e *engine) { e.os = "windows" }, code: "unsupported_os", hint: "Linux containers"},
		"no such runtime": {engine: func(*engine) {}, o: docker.Options{OCIRuntime: "runsc"}, code: "host_prerequisite_missing", hint: "daemon.json"},
		"no apparmor":     {engine: func(*engine) {}, o: docker.Options{AppArmor: "belljar"}, code: "host_prerequisite_missing", hint: "SANDBOX_DOCKER_APPARMOR_PROFILE"},
		"architecture":    {engine: func(e *engine) { e.info.Architecture = "riscv64" }, code: "host_prerequisite_missing", hint: "amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			var r *docker.Runtime
			if c.engine == nil {
				r = offline(t, c.o)
			} else {
				e := newEngine()
				c.engine(e)
				r = talk(t, e, c.o)
			}
			caps, err := r.Probe(t.Context())
			if err != nil || caps.Available || len(caps.Reasons) != 1 {
				t.Fatalf("%+v, %v", caps, err)
			}
			if why := caps.Reasons[0]; why.Code != c.code || !strings.Contains(why.Hint, c.hint) || why.Detail == "" {
				t.Errorf("%+v", why)
			}
			var step *runtime.StepError
			if _, err := r.Create(t.Context(), spec("x")); !errors.As(err, &step) || step.Hint == "" {
				t.Errorf("create: %v", err)
			}
		})
	}
}

// An engine that accepts a connection and hangs is detected within a short time.
func TestProbeOfAMuteEngine(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(sockdir.New(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := offline(t, docker.Options{Host: "unix://" + l.Addr().String(), Patience: 50 * time.Millisecond})
	caps, err := r.Probe(t.Context())
	if err != nil || caps.Available || len(caps.Reasons) == 0 || !strings.Contains(caps.Reasons[0].Detail, "does not answer") || caps.Reasons[0].Hint == "" {
		t.Errorf("%+v, %v", caps, err)
	}
}

func TestProbe(t *testing.T) {
	e := newEngine()
	e.info.Runtimes["runsc"] = system.RuntimeWithStatus{Runtime: system.Runtime{Path: "/usr/bin/runsc"}}
	e.info.SecurityOptions = append(e.info.SecurityOptions, "name=rootless", "name=cgroupns")
	e.info.CPUCfsQuota = false
	r := talk(t, e, docker.Options{OCIRuntime: "runsc"})
	for range 2 {
		c, err := r.Probe(t.Context())
		if err != nil || !c.Available || c.Isolation != runtime.IsolationUserKernel || c.OCIRuntime != "runsc" || c.Version != "20.10.24" || !c.Rootless ||
			c.AgentUID != "shared" || c.HostImage || !c.Unpacked {
			t.Errorf("%+v, %v", c, err)
		}
		if p := c.Protection(runtime.ProtectCPU); p.Enforced || p.Hint == "" {
			t.Errorf("%+v", p)
		}
	}
	count := 0
	for _, call := range e.calls {
		if call == "GET /info" {
			count++
		}
	}
	if count != 1 {
		t.Errorf("the engine was asked about itself %d times", count)
	}
	s := spec("x")
	s.Require = []string{runtime.ProtectCPU}
	var step *runtime.StepError
	if _, err := r.Create(t.Context(), s); !errors.As(err, &step) || step.Step != runtime.ProtectCPU || e.asked("POST") {
		t.Errorf("%v", err)
	}
}

func TestOptions(t *testing.T) {
	agent := func(string) (io.ReadCloser, error) { return nil, errors.New("none") }
	for name, o := range map[string]docker.Options{
		"no agent":     {},
		"installation": {Agent: agent, Installation: "../x"},
		"seccomp":      {Agent: agent, Seccomp: filepath.Join(t.TempDir(), "missing.json")},
		"seccomp text": {Agent: agent, Seccomp: "fake_test.go"},
	} {
		if r, err := docker.New(o); err == nil {
			r.Close()
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestWrongImages(t *testing.T) {
	e := newEngine()
	e.image.Architecture = "arm64"
	r := talk(t, e, docker.Options{})
	var step *runtime.StepError
	if _, err := r.Create(t.Context(), spec("x")); !errors.As(err, &step) || step.Step != "image" || step.Hint == "" {
		t.Errorf("another architecture: %v", err)
	}
	e.image.ID = ""
	if _, err := r.Create(t.Context(), spec("y")); !errors.Is(err, runtime.ErrNoImage) {
		t.Errorf("no image: %v", err)
	}
	s := spec("")
	s.Root = runtime.Root{Ref: runtime.HostRef}
	if _, err := r.Create(t.Context(), s); !errors.As(err, &step) || step.Step != "image" || step.Hint == "" {
		t.Errorf("the host's programs: %v", err)
	}
	if _, err := r.Image(t.Context(), "x"); !errors.Is(err, runtime.ErrNoImage) {
		t.Errorf("%v", err)
	}
}

// An image without a registry digest is identified by its id.
func TestDigestOfBuilt(t *testing.T) {
	e := newEngine()
	e.image.RepoTags = []string{"built:1"}
	r := talk(t, e, docker.Options{})
	root, err := r.Image(t.Context(), "built:1")
	if err != nil || root.Digest == "" || root.Digest != root.Name {
		t.Errorf("%+v, %v", root, err)
	}
}

func TestPull(t *testing.T) {
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	e := newEngine()
	e.image.RepoTags, e.image.RepoDigests = []string{"python:3.11-slim"}, []string{"other/python@sha256:1", "python@" + digest}
	var auth string
	e.pull = func(w http.ResponseWriter, r *http.Request) {
		auth = r.Header.Get("X-Registry-Auth")
		if got := r.URL.Query(); got.Get("fromImage") != "docker.io/library/python" && got.Get("fromImage") != "index.docker.io/library/python" || got.Get("tag") != "3.11-slim" {
			t.Errorf("pulls %v", got)
		}
		for _, m := range []jsonstream.Message{
			{Status: "Pulling from library/python"},
			{ID: "aaa", Status: "Already exists"},
			{ID: "bbb", Status: "Downloading", Progress: &jsonstream.Progress{Current: 5, Total: 10}},
			{ID: "bbb", Status: "Extracting", Progress: &jsonstream.Progress{Current: 10, Total: 10}},
			{Status: "Status: Downloaded newer image"},
		} {
			json.NewEncoder(w).Encode(m)
		}
	}
	r := talk(t, e, docker.Options{})
	var progress []belljar.ImageProgress
	root, err := r.Pull(t.Context(), "python:3.11-slim", func(p belljar.ImageProgress) { progress = append(progress, p) })
	if err != nil || root.Name != "sha256:1" || root.Digest != digest || root.Ref != "python:3.11-slim" || auth != "" {
		t.Errorf("%+v, %v", root, err)
	}
	want := []belljar.ImageProgress{
		{Phase: belljar.ImageResolving}, {Phase: belljar.ImagePulling, Layer: "aaa", Shared: true}, {Phase: belljar.ImagePulling, Layer: "bbb", Done: 5, Total: 10},
		{Phase: belljar.ImageUnpacking, Layer: "bbb", Done: 10, Total: 10}, {Phase: belljar.ImageDone},
	}
	if fmt.Sprint(progress) != fmt.Sprint(want) {
		t.Errorf("progress %v", progress)
	}
	for name, pull := range map[string]func(http.ResponseWriter, *http.Request){
		"refused": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"message":"pull access denied"}`)
		},
		"in the stream": func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(map[string]any{"errorDetail": map[string]string{"message": "manifest unknown"}})
		},
		"nonsense": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "}{") },
	} {
		e.pull = pull
		if _, err := r.Pull(t.Context(), "python:3.11-slim", nil); belljar.CodeOf(err) != belljar.CodeImageUnavailable || belljar.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.pull = func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"errorDetail": map[string]string{"message": "write /x: no space left on device"}})
	}
	if _, err := r.Pull(t.Context(), "python:3.11-slim", nil); belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Errorf("disk full: %v", err)
	}
	if _, err := r.Pull(t.Context(), "Not An Image", nil); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("bad name: %v", err)
	}
}

// A wrong use of TLS, missing TLS and an untrusted certificate return a hint. If TLS is required, nothing is sent in clear
// text.
func TestProbeSaysWhyNotTLS(t *testing.T) {
	e := newEngine()
	plain, secure := httptest.NewUnstartedServer(e), httptest.NewUnstartedServer(e)
	plain.Config.ErrorLog, secure.Config.ErrorLog = log.New(io.Discard, "", 0), log.New(io.Discard, "", 0)
	plain.Start()
	defer plain.Close()
	secure.StartTLS()
	defer secure.Close()
	for name, c := range map[string]struct {
		server *httptest.Server
		verify string
		hint   string
	}{
		"TLS is wanted there":     {secure, "", "the engine requires TLS"},
		"it is wanted here":       {plain, "1", "the engine has no TLS"},
		"its certificate is none": {secure, "1", "ca.pem of DOCKER_CERT_PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("DOCKER_CERT_PATH", "")
			t.Setenv("DOCKER_TLS_VERIFY", c.verify)
			r := offline(t, docker.Options{Host: "tcp://" + c.server.Listener.Addr().String()})
			caps, err := r.Probe(t.Context())
			if err != nil || caps.Available || len(caps.Reasons) != 1 || !strings.Contains(caps.Reasons[0].Hint, c.hint) {
				t.Errorf("%+v, %v", caps.Reasons, err)
			}
		})
	}
	if len(e.calls) > 0 {
		t.Errorf("calls %v", e.calls)
	}
}
