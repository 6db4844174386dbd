package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/runtime"
)

// scale measures sandboxes below the service: the memory of an idle one, and the remains of many.
type scale struct{ rt runtime.Runtime }

// measureIdle holds n idle sandboxes, each of which has run a command, and measures their memory.
func (s scale) measureIdle(ctx context.Context, n int) (*local.IdleWeight, error) {
	boxes, err := s.fill(ctx, n)
	defer s.empty(boxes)
	if err != nil {
		return nil, err
	}
	w := &local.IdleWeight{Sandboxes: n}
	for _, box := range boxes {
		usage, err := box.Usage(ctx)
		if err != nil {
			return nil, err
		}
		if usage.Memory != nil {
			w.Cgroup += *usage.Memory / int64(n)
		}
	}
	for _, pid := range children() {
		w.AgentPSS += pss(pid) / int64(n)
	}
	return w, nil
}

// measureCrowd holds n sandboxes at the same time, releases them, and counts the remains.
func (s scale) measureCrowd(ctx context.Context, n int) (*local.CrowdResult, error) {
	helpers, descriptors := len(children()), openDescriptors() // such as the warden of memory, which stays
	r := &local.CrowdResult{Sandboxes: n}
	begin := time.Now()
	boxes, err := s.fill(ctx, n)
	r.CreateMS = float64(time.Since(begin)) / float64(time.Millisecond)
	begin = time.Now()
	if emptyErr := s.empty(boxes); emptyErr != nil || err != nil {
		return nil, errors.Join(err, emptyErr)
	}
	r.DestroyMS = float64(time.Since(begin)) / float64(time.Millisecond)
	names, err := s.rt.List(ctx)
	if err != nil {
		return nil, err
	}
	processes, opened := len(children())-helpers, openDescriptors()-descriptors
	r.Left = len(names) + max(processes, 0) + max(opened, 0)
	if r.Left > 0 {
		r.LeftDetail = fmt.Sprintf(" (%d folders, %d processes, %d descriptors)", len(names), processes, opened)
	}
	return r, nil
}

// fill creates n sandboxes concurrently and checks that each of them works.
func (s scale) fill(ctx context.Context, n int) ([]runtime.Sandbox, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		boxes []runtime.Sandbox
		errs  []error
	)
	for range n {
		wg.Go(func() {
			box, err := s.rt.Create(ctx, idleSpec())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			boxes = append(boxes, box)
		})
	}
	wg.Wait()
	for _, box := range boxes {
		if _, err := agent.New(box.Dial).Ping(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return boxes, errors.Join(errs...)
}

func (s scale) empty(boxes []runtime.Sandbox) error {
	var wg sync.WaitGroup
	errs := make([]error, len(boxes))
	for i, box := range boxes {
		wg.Go(func() { errs[i] = box.Destroy(context.Background()) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func idleSpec() runtime.Spec {
	limits := belljar.DefaultLimits()
	return runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: runtime.HostRef}, Limits: limits,
		Workspace: runtime.Workspace{Bytes: int64(limits.WorkspaceMB) << 20, Inodes: int64(limits.Inodes), Medium: runtime.MediumMemory},
		Lifetime:  runtime.LifetimeCreator,
	}
}

// children returns this process's child processes: the agents of its sandboxes.
func children() []int {
	var pids []int
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		raw, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, field := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// pss returns a process's proportional share of its memory, in bytes (proc_pid_smaps(5)).
func pss(pid int) int64 {
	raw, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

func openDescriptors() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}
