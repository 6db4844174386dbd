package wire

import (
	"math"
	"reflect"
	"strconv"
)

// What an agent reads and writes in the life of one command, without encoding/json. Each function reports false for
// what it leaves to that. A field that is not known here is left to it, too; TestPlainKnowsEveryField tells of one.

// plainly decodes text into v, unless either is anything special; v is then as it was.
func plainly(text []byte, v any) bool {
	switch v := v.(type) {
	case *Hello:
		return readPlain(text, v, (*Plain).hello)
	case *Request:
		return readPlain(text, v, (*Plain).request)
	case *Control:
		return readPlain(text, v, (*Plain).control)
	}
	return false
}

func readPlain[T any](text []byte, v *T, read func(*Plain) T) bool {
	p := NewPlain(text)
	got := read(p)
	if !p.Done() || !reflect.ValueOf(v).Elem().IsZero() { // encoding/json adds to what is there
		return false
	}
	*v = got
	return true
}

// once reads a value that stands once: of one that stands twice, encoding/json joins the parts.
func once[T any](p *Plain, at **T, read func(*Plain) T) {
	if *at != nil {
		p.Odd()
	}
	v := read(p)
	*at = &v
}

func (p *Plain) hello() (h Hello) {
	p.Object(func(key string) {
		switch key {
		case "protocol":
			h.Protocol = p.Text()
		case "version":
			h.Version = int(p.Int())
		case "build":
			h.Build = p.Text()
		case "boot_id":
			h.BootID = p.Text()
		case "features":
			h.Features = p.Texts()
		default:
			p.Odd()
		}
	})
	return h
}

func (p *Plain) request() (r Request) {
	p.Object(func(key string) {
		switch key {
		case "op":
			r.Op = Op(p.Text())
		case "exec":
			once(p, &r.Exec, (*Plain).exec)
		case "id":
			r.ID = p.Text()
		case "from":
			r.From = p.Int()
		case "lease_ms":
			r.Lease = p.Int()
		default:
			p.Odd()
		}
	})
	return r
}

func (p *Plain) exec() (e Exec) {
	p.Object(func(key string) {
		switch key {
		case "id":
			e.ID = p.Text()
		case "argv":
			e.Argv = p.Texts()
		case "env":
			e.Env = p.Texts()
		case "cwd":
			e.Cwd = p.Text()
		case "uid":
			e.UID = int(p.Int())
		case "gid":
			e.GID = int(p.Int())
		case "rlimits":
			if e.Rlimits != nil {
				p.Odd()
			}
			e.Rlimits = p.rlimits()
		case "stdin":
			e.Stdin = p.Bool()
		case "pty":
			once(p, &e.PTY, (*Plain).size)
		case "timeout_ms":
			e.TimeoutMS = p.Int()
		case "grace_ms":
			e.GraceMS = p.Int()
		case "output_limit":
			e.OutputLimit = p.Int()
		case "kill_all":
			e.KillAll = p.Bool()
		case "note":
			e.Note = p.Text()
		default:
			p.Odd()
		}
	})
	return e
}

func (p *Plain) rlimits() map[string]uint64 {
	limits := map[string]uint64{}
	p.Object(func(name string) { limits[name] = p.uint() })
	return limits
}

func (p *Plain) size() (s Size) {
	p.Object(func(key string) {
		switch key {
		case "cols":
			s.Cols = p.small()
		case "rows":
			s.Rows = p.small()
		default:
			p.Odd()
		}
	})
	return s
}

func (p *Plain) control() (c Control) {
	p.Object(func(key string) {
		switch key {
		case "ack":
			once(p, &c.Ack, (*Plain).Int)
		case "resize":
			once(p, &c.Resize, (*Plain).size)
		case "close_stdin":
			c.CloseStdin = p.Bool()
		case "forget":
			c.Forget = p.Bool()
		default:
			p.Odd()
		}
	})
	return c
}

// writePlain is the JSON of v, the same as that of encoding/json, unless anything is special about v.
func writePlain(v any) ([]byte, bool) {
	b := plainText{raw: make([]byte, 0, 256)}
	switch v := v.(type) {
	case Hello:
		b.hello(v)
	case Reply:
		b.reply(v)
	default:
		return nil, false
	}
	return b.raw, !b.odd
}

// plainText is JSON in the making.
type plainText struct {
	raw []byte
	odd bool // something is special, and encoding/json is to do it
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

// float writes a number of the size that encoding/json writes without an exponent.
func (b *plainText) float(f float64) {
	if size := math.Abs(f); f != 0 && !(size >= 1e-6 && size < 1e21) {
		b.odd = true
		return
	}
	b.raw = strconv.AppendFloat(b.raw, f, 'f', -1, 64)
}

// all gives up where the fields written are not all that there are.
func (b *plainText) all(are bool) { b.odd = b.odd || !are }

func (b *plainText) hello(h Hello) {
	b.put(`{"protocol":`)
	b.text(h.Protocol)
	b.put(`,"version":`)
	b.int(int64(h.Version))
	if h.Build != "" {
		b.put(`,"build":`)
		b.text(h.Build)
	}
	if h.BootID != "" {
		b.put(`,"boot_id":`)
		b.text(h.BootID)
	}
	for i, f := range h.Features {
		if i == 0 {
			b.put(`,"features":[`)
		} else {
			b.put(`,`)
		}
		b.text(f)
	}
	if len(h.Features) > 0 {
		b.put(`]`)
	}
	b.put(`}`)
}

// reply writes the answers of a command's stream: that it has started, that it has ended, and that it is forgotten.
func (b *plainText) reply(r Reply) {
	started, exit, done := r.Started, r.Exit, r.Done
	r.Started, r.Exit, r.Done = nil, nil, false
	switch {
	case !reflect.ValueOf(r).IsZero():
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

func (b *plainText) started(s *Started) {
	b.all(*s == Started{ID: s.ID, Attached: s.Attached, Pid: s.Pid, From: s.From, Stdin: s.Stdin, StdinLimit: s.StdinLimit})
	b.put(`{"id":`)
	b.text(s.ID)
	if s.Attached {
		b.put(`,"attached":true`)
	}
	if s.Pid != 0 {
		b.put(`,"pid":`)
		b.int(int64(s.Pid))
	}
	b.put(`,"from":`)
	b.int(s.From)
	if s.Stdin != 0 {
		b.put(`,"stdin":`)
		b.int(s.Stdin)
	}
	if s.StdinLimit != 0 {
		b.put(`,"stdin_limit":`)
		b.int(s.StdinLimit)
	}
	b.put(`}`)
}

func (b *plainText) exit(e *Exit) {
	b.all(*e == Exit{Code: e.Code, Signal: e.Signal, Cause: e.Cause, Position: e.Position, Dropped: e.Dropped, Cwd: e.Cwd, WallMS: e.WallMS, Usage: e.Usage})
	b.all(e.Usage == Usage{e.Usage.UserMicros, e.Usage.SystemMicros, e.Usage.MaxRSS, e.Usage.Source})
	b.put(`{"code":`)
	b.int(int64(e.Code))
	if e.Signal != 0 {
		b.put(`,"signal":`)
		b.int(int64(e.Signal))
	}
	b.put(`,"cause":`)
	b.text(string(e.Cause))
	b.put(`,"position":`)
	b.int(e.Position)
	if e.Dropped != 0 {
		b.put(`,"dropped":`)
		b.int(e.Dropped)
	}
	if e.Cwd != "" {
		b.put(`,"cwd":`)
		b.text(e.Cwd)
	}
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
