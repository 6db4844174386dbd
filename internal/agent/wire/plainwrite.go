package wire

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// writePlain returns the same JSON of v as encoding/json, unless v is not plain.
func writePlain(v any) ([]byte, bool) {
	b := plainText{raw: make([]byte, 0, 256)}
	switch v := v.(type) {
	case Hello:
		b.hello(v)
	case Reply:
		b.reply(v)
	case Request:
		b.request(v)
	default:
		return nil, false
	}
	return b.raw, !b.odd
}

// plainText is an incomplete JSON text.
type plainText struct {
	raw []byte
	odd bool // not plain; encoding/json must encode it
}

func (b *plainText) put(s string)  { b.raw = append(b.raw, s...) }
func (b *plainText) int(n int64)   { b.raw = strconv.AppendInt(b.raw, n, 10) }
func (b *plainText) uint(n uint64) { b.raw = strconv.AppendUint(b.raw, n, 10) }

func (b *plainText) text(s string) {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			b.odd = true
			return
		}
	}
	b.raw = append(append(append(b.raw, '"'), s...), '"')
}

// float writes a number that encoding/json writes without an exponent.
func (b *plainText) float(f float64) {
	if size := math.Abs(f); f != 0 && !(size >= 1e-6 && size < 1e21) {
		b.odd = true
		return
	}
	b.raw = strconv.AppendFloat(b.raw, f, 'f', -1, 64)
}

// all rejects v if it has fields other than those written.
func (b *plainText) all(are bool) { b.odd = b.odd || !are }

func (b *plainText) hello(h Hello) {
	b.put(`{"protocol":`)
	b.text(h.Protocol)
	b.put(`,"version":`)
	b.int(int64(h.Version))
	b.optional(`,"build":`, h.Build)
	b.optional(`,"boot_id":`, h.BootID)
	if len(h.Features) > 0 {
		b.put(`,"features":`)
		b.texts(h.Features)
	}
	b.put(`}`)
}

// request writes the request that starts a command.
func (b *plainText) request(r Request) {
	exec := r.Exec
	if exec == nil {
		b.odd = true
		return
	}
	b.all(r == Request{Op: r.Op, Exec: exec})
	b.put(`{"op":`)
	b.text(string(r.Op))
	b.put(`,"exec":`)
	b.exec(*exec)
	b.put(`}`)
}

func (b *plainText) exec(e Exec) {
	b.put(`{"id":`)
	b.text(e.ID)
	if len(e.Argv) > 0 {
		b.put(`,"argv":`)
		b.texts(e.Argv)
	}
	b.put(`,"env":`)
	b.texts(e.Env)
	b.optional(`,"cwd":`, e.Cwd)
	b.put(`,"uid":`)
	b.int(int64(e.UID))
	b.put(`,"gid":`)
	b.int(int64(e.GID))
	for i, name := range slices.Sorted(maps.Keys(e.Rlimits)) {
		if i == 0 {
			b.put(`,"rlimits":{`)
		} else {
			b.put(`,`)
		}
		b.text(name)
		b.put(`:`)
		b.uint(e.Rlimits[name])
	}
	if len(e.Rlimits) > 0 {
		b.put(`}`)
	}
	b.flag(`,"stdin":true`, e.Stdin)
	if e.PTY != nil {
		b.put(`,"pty":{"cols":`)
		b.uint(uint64(e.PTY.Cols))
		b.put(`,"rows":`)
		b.uint(uint64(e.PTY.Rows))
		b.put(`}`)
	}
	b.count(`,"timeout_ms":`, e.TimeoutMS)
	b.count(`,"grace_ms":`, e.GraceMS)
	b.count(`,"cpu_time_ms":`, e.CPUTimeMS)
	b.count(`,"output_limit":`, e.OutputLimit)
	b.flag(`,"kill_all":true`, e.KillAll)
	if e.Warm != nil {
		b.put(`,"warm":{`)
		if len(e.Warm.Preload) > 0 {
			b.put(`"preload":`)
			b.texts(e.Warm.Preload)
		}
		b.put(`}`)
	}
	b.optional(`,"note":`, e.Note)
	b.put(`}`)
	// After clearing the written fields, the zero value must be left.
	e.ID, e.Argv, e.Env, e.Cwd, e.UID, e.GID, e.Rlimits, e.Stdin, e.PTY = "", nil, nil, "", 0, 0, nil, false, nil
	e.TimeoutMS, e.GraceMS, e.CPUTimeMS, e.OutputLimit, e.KillAll, e.Warm, e.Note = 0, 0, 0, 0, false, nil, ""
	b.all(reflect.ValueOf(e).IsZero())
}

// texts writes a non-nil list of strings, which may be empty.
func (b *plainText) texts(list []string) {
	b.all(list != nil)
	for i, s := range list {
		if i == 0 {
			b.put(`[`)
		} else {
			b.put(`,`)
		}
		b.text(s)
	}
	if len(list) == 0 {
		b.put(`[`)
	}
	b.put(`]`)
}

// optional, count and flag omit a zero value.
func (b *plainText) optional(key, s string) {
	if s != "" {
		b.put(key)
		b.text(s)
	}
}

func (b *plainText) count(key string, n int64) {
	if n != 0 {
		b.put(key)
		b.int(n)
	}
}

func (b *plainText) flag(what string, set bool) {
	if set {
		b.put(what)
	}
}

// reply writes the replies of a command's stream, Started, Exit and Done, and those of a relay.
func (b *plainText) reply(r Reply) {
	started, exit, done, ask := r.Started, r.Exit, r.Done, r.Ask
	r.Started, r.Exit, r.Done, r.Ask = nil, nil, false, nil
	switch {
	case !reflect.ValueOf(r).IsZero():
		b.odd = true
	case ask != nil && started == nil && exit == nil && !done:
		b.put(`{"ask":`)
		b.ask(ask)
		b.put(`}`)
	case ask != nil:
		b.odd = true
	case started != nil && exit == nil && !done:
		b.put(`{"started":`)
		b.started(started)
		b.put(`}`)
	case started == nil && exit != nil && !done:
		b.put(`{"exit":`)
		b.exit(exit)
		b.put(`}`)
	case started == nil && exit == nil && done:
		b.put(`{"done":true}`)
	default:
		b.odd = true
	}
}

func (b *plainText) ask(a *Ask) {
	b.put(`{"id":`)
	b.uint(a.ID)
	b.optional(`,"name":`, a.Name)
	if a.Open != nil {
		b.put(`,"open":{"host":`)
		b.text(a.Open.Host)
		b.put(`,"port":`)
		b.uint(uint64(a.Open.Port))
		b.put(`,"via":`)
		b.text(string(a.Open.Via))
		b.put(`}`)
	}
	b.put(`}`)
}

func (b *plainText) started(s *Started) {
	b.all(*s == Started{
		ID: s.ID, Attached: s.Attached, Pid: s.Pid, From: s.From, Stdin: s.Stdin, StdinLimit: s.StdinLimit,
		StdinClosed: s.StdinClosed, Warm: s.Warm, AgeMS: s.AgeMS,
	})
	b.put(`{"id":`)
	b.text(s.ID)
	b.flag(`,"attached":true`, s.Attached)
	b.count(`,"pid":`, int64(s.Pid))
	b.put(`,"from":`)
	b.int(s.From)
	b.count(`,"stdin":`, s.Stdin)
	b.count(`,"stdin_limit":`, s.StdinLimit)
	b.flag(`,"stdin_closed":true`, s.StdinClosed)
	b.flag(`,"warm":true`, s.Warm)
	b.count(`,"age_ms":`, s.AgeMS)
	b.put(`}`)
}

func (b *plainText) exit(e *Exit) {
	b.all(*e == Exit{Code: e.Code, Signal: e.Signal, Cause: e.Cause, Position: e.Position, Dropped: e.Dropped, Cwd: e.Cwd, WallMS: e.WallMS, Usage: e.Usage})
	b.all(e.Usage == Usage{e.Usage.UserMicros, e.Usage.SystemMicros, e.Usage.MaxRSS, e.Usage.Source})
	b.put(`{"code":`)
	b.int(int64(e.Code))
	b.count(`,"signal":`, int64(e.Signal))
	b.put(`,"cause":`)
	b.text(string(e.Cause))
	b.put(`,"position":`)
	b.int(e.Position)
	b.count(`,"dropped":`, e.Dropped)
	b.optional(`,"cwd":`, e.Cwd)
	b.put(`,"wall_ms":`)
	b.float(e.WallMS)
	b.put(`,"usage":{"user_us":`)
	b.uint(e.Usage.UserMicros)
	b.put(`,"system_us":`)
	b.uint(e.Usage.SystemMicros)
	b.put(`,"max_rss":`)
	b.uint(e.Usage.MaxRSS)
	b.put(`,"source":`)
	b.text(e.Usage.Source)
	b.put(`}}`)
}
