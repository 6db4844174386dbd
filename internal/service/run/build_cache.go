package run

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"path"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// Bounds of the cache of built programs, in bytes of memory.
const (
	maxBuiltProgram = 16 << 20
	maxBuiltAll     = 64 << 20
)

// buildKey is the hash of everything that determines a compiler's output, and of the user: users share nothing.
type buildKey [sha256.Size]byte

// builtPrograms caches the programs of requests with build_cache. The least recently used is evicted. The zero value is empty.
type builtPrograms struct {
	mu    sync.Mutex
	byKey map[buildKey]*list.Element
	order list.List // of *builtProgram, the most recently used first
	size  int64
}

type builtProgram struct {
	key     buildKey
	program []byte // the file, or a tar stream of the folder
	build   belljar.Build
}

func (b *builtPrograms) get(key buildKey) *builtProgram {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byKey[key]
	if e == nil {
		return nil
	}
	b.order.MoveToFront(e)
	return e.Value.(*builtProgram)
}

func (b *builtPrograms) put(p *builtProgram) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey[p.key] != nil {
		return // a concurrent run was faster
	}
	if b.byKey == nil {
		b.byKey = map[buildKey]*list.Element{}
	}
	b.byKey[p.key] = b.order.PushFront(p)
	for b.size += int64(len(p.program)); b.size > maxBuiltAll; {
		last := b.order.Remove(b.order.Back()).(*builtProgram)
		delete(b.byKey, last.key)
		b.size -= int64(len(last.program))
	}
}

// buildKey is the cache key of the run's program; false if the request does not use the cache, or the compiler cannot be identified.
func (c *execution) buildKey() (key buildKey, ok bool) {
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
	raw, err := json.Marshal([]any{c.run.owner, p.Host.Name(), p.Image.Ref, identity, compilers, p.cwd(), env, p.files})
	return sha256.Sum256(raw), err == nil
}

// takeBuilt writes a cached program into the sandbox. It reports whether there was one.
func (c *execution) takeBuilt(key buildKey) bool {
	kept := c.builtPrograms.get(key)
	if kept == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, captureTime)
	defer cancel()
	req := c.box.File(c.plan.builtPath())
	var err error
	if c.plan.build.language.Executed() {
		req.Mode = 0o700
		_, err = c.box.Agent.WriteFile(ctx, req, bytes.NewReader(kept.program))
	} else {
		req.Mode, req.Parents = 0o700, true
		if err = c.box.Agent.Mkdir(ctx, req); err == nil {
			_, err = c.box.Agent.TarIn(ctx, c.box.File(req.Path), bytes.NewReader(kept.program))
		}
	}
	if err != nil {
		c.log.Warn("cached program cannot be put in place", "run_id", c.run.id, "err", err)
		return false
	}
	info := kept.build
	info.Cached, info.Usage, info.DurationSec = true, nil, 0
	c.run.built(&info, belljar.EventBuildEnd, nil)
	return true
}

// keepBuilt caches the built program, before it runs and could change itself.
func (c *execution) keepBuilt(key buildKey) {
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
	program, err := io.ReadAll(io.LimitReader(r, maxBuiltProgram+1))
	if err != nil || len(program) > maxBuiltProgram {
		return
	}
	c.run.mu.Lock()
	before := *c.run.state.Build
	c.run.mu.Unlock()
	c.builtPrograms.put(&builtProgram{key: key, program: program, build: before})
}

// builtPath is the program's path in the workspace.
func (p *plan) builtPath() string { return path.Join(placement.TmpDir, path.Base(p.build.place)) }
