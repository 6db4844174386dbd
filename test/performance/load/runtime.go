//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// peer is a runtime other than native, with its baseline.
type peer struct {
	name, image string
	budgets     [4]string // cold, from the pool, exec, destroy
	cold, exec  func() error
	of          string // what cold and exec measure
}

// runtimes measures gVisor, if belljar-runsc is in belljar's folder, and Docker, if an engine with an image with /bin/true is
// given. Each is the default runtime of its server.
func runtimes(ctx context.Context, binary, dir, dockerImage string, out *sheet) error {
	if _, err := os.Stat(filepath.Join(filepath.Dir(binary), "belljar-runsc")); err != nil {
		out.put("gvisor", "", "not measured: %v", err)
	} else if err := measureRuntime(ctx, binary, dir+"/gvisor", peer{
		name: "gvisor", image: "host", budgets: [4]string{"200 ms", "5 ms", "5 ms", "200 ms"},
	}, out); err != nil {
		return fmt.Errorf("gvisor: %w", err)
	}
	if dockerImage == "" {
		out.put("docker", "", "not measured: no -docker-image")
		return nil
	}
	p := peer{
		name: "docker", image: dockerImage, budgets: [4]string{"1.2 times docker run", "5 ms", "5 ms", ""}, of: "docker run and docker exec",
		cold: func() error { return exec.CommandContext(ctx, "docker", "run", "--rm", dockerImage, "/bin/true").Run() },
	}
	const box = "belljar-load-peer"
	if err := exec.CommandContext(ctx, "docker", "run", "-d", "--name", box, dockerImage, "/bin/busybox", "sleep", "3600").Run(); err != nil {
		return fmt.Errorf("docker run -d: %w", err)
	}
	p.exec = func() error { return exec.CommandContext(ctx, "docker", "exec", box, "/bin/true").Run() }
	err := measureRuntime(ctx, binary, dir+"/docker", p, out)
	return errors.Join(err, exec.CommandContext(ctx, "docker", "rm", "-f", box).Run())
}

func measureRuntime(ctx context.Context, binary, data string, p peer, out *sheet) (err error) {
	cold, err := start(binary, data+"-cold", "--set", "default_runtime="+p.name, "--set", "pool_size=0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cold.stop()) }()
	pooled, err := start(binary, data+"-pooled", "--set", "default_runtime="+p.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pooled.stop()) }()
	var births, theirs, opens, execs, theirExecs, ends []time.Duration
	session := map[string]any{"spec_version": "1.0", "base_image": p.image}
	oneShot := map[string]any{"spec_version": "1.0", "base_image": p.image, "command": []string{"/bin/true"}}
	const rounds = 20
	for i := range rounds + 2 {
		var took [6]time.Duration
		for k, do := range [...]func() error{
			0: func() error { return coldRun(ctx, cold, oneShot) },
			1: p.cold,
			4: p.exec,
		} {
			if do == nil {
				continue
			}
			begin := time.Now()
			if err := do(); err != nil {
				return err
			}
			took[k] = time.Since(begin)
		}
		time.Sleep(2 * time.Second) // by now the pool has made another sandbox
		begin := time.Now()
		var made struct {
			ID string `json:"session_id"`
		}
		if err := pooled.ask(ctx, http.MethodPost, prefix+"/sessions", session, &made); err != nil {
			return err
		}
		if err := execTrue(ctx, pooled, made.ID); err != nil {
			return err
		}
		took[2] = time.Since(begin)
		alone, err := timed(20, func() error { return execTrue(ctx, pooled, made.ID) })
		if err != nil {
			return err
		}
		begin = time.Now()
		if err := closeSession(ctx, pooled, made.ID); err != nil {
			return err
		}
		took[5] = time.Since(begin)
		if i < 2 { // the pool learns from requests
			continue
		}
		births, theirs, opens = append(births, took[0]), append(theirs, took[1]), append(opens, took[2])
		execs, theirExecs, ends = append(execs, alone...), append(theirExecs, took[4]), append(ends, took[5])
	}
	beside := func(list []time.Duration, name string) string {
		if p.of == "" {
			return ""
		}
		return fmt.Sprintf(" (%s: %.0f)", name, ms(quantile(list, 0.5)))
	}
	out.put(p.name+": a cold run over HTTP, p50", p.budgets[0], "%.0f ms%s", ms(quantile(births, 0.5)), beside(theirs, "docker run"))
	out.put(p.name+": the same, p95", "2 s", "%.0f ms", ms(quantile(births, 0.95)))
	out.put(p.name+": a session from the pool and its first exec, p50", p.budgets[1], "%.1f ms", ms(quantile(opens, 0.5)))
	out.put(p.name+": exec of /bin/true in a session, p50", p.budgets[2], "%.1f ms%s", ms(quantile(execs, 0.5)), beside(theirExecs, "docker exec"))
	out.put(p.name+": a session deleted, p50", p.budgets[3], "%.0f ms", ms(quantile(ends, 0.5)))
	return nil
}

func coldRun(ctx context.Context, s *daemon, request map[string]any) error {
	var run struct {
		Phase string `json:"phase"`
	}
	err := s.ask(ctx, http.MethodPost, prefix+"/runs?wait=60s", request, &run)
	if err == nil && run.Phase != "completed" {
		err = fmt.Errorf("a run is %s", run.Phase)
	}
	return err
}
