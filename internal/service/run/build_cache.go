package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"path"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/built"
	"github.com/belljar/belljar/internal/service/placement"
)

// buildKey is the cache key of the run's program; false if the request does not use the cache, or the compiler cannot be identified.
func (c *execution) buildKey() (key built.Key, ok bool) {
	p := c.plan
	if !p.request.BuildCache {
		return key, false
	}
	const place = "/"
	compilers, _ := p.build.language.Build(p.build.file, p.build.source, place, nil)
	env := p.environment()
	identity := p.Image.Digest
	if identity == "" && p.Image.Ref == runtime.HostRef {
		var programs []string
		for _, argv := range compilers {
			programs = append(programs, argv[0])
		}
		identity = placement.HostProgram(env, programs...)
	}
	if identity == "" {
		return key, false
	}
	raw, err := json.Marshal([]any{c.run.owner, p.Host.Name(), p.Image.Ref, identity, compilers, p.cwd(), env, p.files, p.Image.Layers})
	return sha256.Sum256(raw), err == nil
}

// takeBuilt writes a cached program into the sandbox. It reports whether there was one.
func (c *execution) takeBuilt(key built.Key) bool {
	kept := c.runner.built.Get(key)
	if kept == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, captureTime)
	defer cancel()
	req := c.box.File(c.plan.builtPath())
	var err error
	if c.plan.build.language.Executed() {
		req.Mode = 0o700
		_, err = c.box.Agent.WriteFile(ctx, req, bytes.NewReader(kept.Bytes))
	} else {
		req.Mode, req.Parents = 0o700, true
		if err = c.box.Agent.Mkdir(ctx, req); err == nil {
			_, err = c.box.Agent.TarIn(ctx, c.box.File(req.Path), bytes.NewReader(kept.Bytes))
		}
	}
	if err != nil {
		c.runner.log.Warn("cached program cannot be put in place", "run_id", c.run.id, "err", err)
		return false
	}
	info := kept.Build
	info.Cached, info.Usage, info.DurationSec = true, nil, 0
	c.run.built(&info, belljar.EventBuildEnd, nil)
	return true
}

// keepBuilt caches the built program, before it runs and could change itself.
func (c *execution) keepBuilt(key built.Key) {
	ctx, cancel := context.WithTimeout(c.run.ctx, captureTime)
	defer cancel()
	req := c.box.File(c.plan.builtPath())
	var r io.ReadCloser
	var err error
	if c.plan.build.language.Executed() {
		r, _, err = c.box.Agent.ReadFile(ctx, req)
	} else {
		r, err = c.box.Agent.OpenTar(ctx, req)
	}
	if err != nil {
		return // no program: its start will fail
	}
	defer r.Close()
	program, err := io.ReadAll(io.LimitReader(r, built.MaxProgram+1))
	if err != nil || len(program) > built.MaxProgram {
		return
	}
	c.run.mu.Lock()
	before := *c.run.state.Build
	c.run.mu.Unlock()
	c.runner.built.Put(&built.Program{Key: key, User: c.run.owner, Bytes: program, Build: before})
}

// builtPath is the program's path in the workspace.
func (p *plan) builtPath() string { return path.Join(placement.TmpDir, path.Base(p.build.place)) }
