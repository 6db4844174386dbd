package wire

import "reflect"

// The messages in the life of one command, parsed without encoding/json. Each function returns false for text that it leaves to
// encoding/json. Unknown fields are left to it, too; TestPlainKnowsEveryField reports them.

// plainly decodes text into v. It returns false, with v unchanged, if either is not plain.
func plainly(text []byte, v any) bool {
	switch v := v.(type) {
	case *Hello:
		return readPlain(text, v, (*Plain).hello)
	case *Request:
		return readPlain(text, v, (*Plain).request)
	case *Control:
		return readPlain(text, v, (*Plain).control)
	case *Reply:
		return readPlain(text, v, (*Plain).reply)
	}
	return false
}

func readPlain[T any](text []byte, v *T, read func(*Plain) T) bool {
	p := NewPlain(text)
	got := read(p)
	if !p.Done() || !reflect.ValueOf(v).Elem().IsZero() { // encoding/json merges into existing values
		return false
	}
	*v = got
	return true
}

// once parses a value that must not repeat: encoding/json merges repeated values.
func once[T any](p *Plain, at **T, read func(*Plain) T) {
	if *at != nil {
		p.Reject()
	}
	*at = new(read(p))
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
			p.Reject()
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
		case "conn":
			r.Conn = p.uint()
		case "port":
			r.Port = p.small()
		default:
			p.Reject()
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
				p.Reject()
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
		case "cpu_time_ms":
			e.CPUTimeMS = p.Int()
		case "output_limit":
			e.OutputLimit = p.Int()
		case "kill_all":
			e.KillAll = p.Bool()
		case "warm":
			once(p, &e.Warm, (*Plain).warm)
		case "note":
			e.Note = p.Text()
		default:
			p.Reject()
		}
	})
	return e
}

func (p *Plain) warm() (w Warm) {
	p.Object(func(key string) {
		if key != "preload" {
			p.Reject()
			return
		}
		w.Preload = p.Texts()
	})
	return w
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
			p.Reject()
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
		case "answer":
			once(p, &c.Answer, (*Plain).answer)
		default:
			p.Reject()
		}
	})
	return c
}

func (p *Plain) answer() (a Answer) {
	p.Object(func(key string) {
		switch key {
		case "id":
			a.ID = p.uint()
		case "ok":
			a.OK = p.Bool()
		case "reason":
			a.Reason = p.Text()
		case "missing":
			a.Missing = p.Bool()
		default:
			p.Reject()
		}
	})
	return a
}

func (p *Plain) reply() (r Reply) {
	p.Object(func(key string) {
		switch key {
		case "started":
			once(p, &r.Started, (*Plain).started)
		case "exit":
			once(p, &r.Exit, (*Plain).exit)
		case "done":
			r.Done = p.Bool()
		default:
			p.Reject()
		}
	})
	return r
}

func (p *Plain) started() (s Started) {
	p.Object(func(key string) {
		switch key {
		case "id":
			s.ID = p.Text()
		case "attached":
			s.Attached = p.Bool()
		case "pid":
			s.Pid = int(p.Int())
		case "from":
			s.From = p.Int()
		case "stdin":
			s.Stdin = p.Int()
		case "stdin_limit":
			s.StdinLimit = p.Int()
		case "stdin_closed":
			s.StdinClosed = p.Bool()
		case "warm":
			s.Warm = p.Bool()
		case "age_ms":
			s.AgeMS = p.Int()
		default:
			p.Reject()
		}
	})
	return s
}

func (p *Plain) exit() (e Exit) {
	var used bool
	p.Object(func(key string) {
		switch key {
		case "code":
			e.Code = int(p.Int())
		case "signal":
			e.Signal = int(p.Int())
		case "cause":
			e.Cause = Cause(p.Text())
		case "position":
			e.Position = p.Int()
		case "dropped":
			e.Dropped = p.Int()
		case "cwd":
			e.Cwd = p.Text()
		case "wall_ms":
			e.WallMS = p.float()
		case "usage":
			if used {
				p.Reject()
			}
			e.Usage, used = p.usage(), true
		default:
			p.Reject()
		}
	})
	return e
}

func (p *Plain) usage() (u Usage) {
	p.Object(func(key string) {
		switch key {
		case "user_us":
			u.UserMicros = p.uint()
		case "system_us":
			u.SystemMicros = p.uint()
		case "max_rss":
			u.MaxRSS = p.uint()
		case "source":
			u.Source = p.Text()
		default:
			p.Reject()
		}
	})
	return u
}
