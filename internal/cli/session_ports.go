package cli

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/forward"
	"github.com/belljar/belljar/internal/cli/show"
)

// sessionPorts is belljar session ports.
type sessionPorts struct {
	ID   string `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	JSON bool   `name:"json" help:"Print one JSON array."`
}

// Run lists the ports that programs listen on.
func (p *sessionPorts) Run(ctx context.Context, c *console) error {
	return c.inSession(ctx, p.ID, func(s belljar.Service, id string) error {
		list, err := s.Ports().List(ctx, id)
		if err != nil {
			return err
		}
		return show.List(c.stdout, p.JSON, list, "PORT ADDRESS PROGRAM PID", func(port belljar.Port) []string {
			pid := ""
			if port.PID > 0 {
				pid = strconv.Itoa(port.PID)
			}
			return []string{strconv.Itoa(port.Port), port.Address, port.Program, pid}
		})
	})
}

// sessionForward is belljar session forward.
type sessionForward struct {
	ID    string   `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Ports []string `arg:"" name:"port[:local]" help:"Ports of the session, each with a port of this machine if it is another one; 0 is any free one."`
}

func (f *sessionForward) Help() string {
	return `The command listens on 127.0.0.1 until Ctrl-C, and connects to the program in the session. That program must listen on
127.0.0.1, on ::1 or on all addresses; it may start later. After a restart of the server, new connections work again.

Examples:
  belljar session forward 01a1fe25-cb55 3000
  belljar session forward 01a1fe25-cb55 3000:8080 5432`
}

// Run forwards ports until a signal, or a connection that finds that the session has ended.
func (f *sessionForward) Run(ctx context.Context, c *console) error {
	var pairs []forward.Pair
	for _, text := range f.Ports {
		p, err := forward.Parse(text)
		if err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.inSession(ctx, f.ID, func(s belljar.Service, id string) error {
		session, err := s.Sessions().Get(ctx, id)
		if err != nil {
			return err
		}
		if session.State.Ended() {
			return &belljar.Error{Code: belljar.CodeConflict, Message: "session " + id + " has ended (state: " + string(session.State) + ")"}
		}
		to := forward.Forward{Ports: s.Ports(), Session: id, Notice: &c.Writer}
		return to.Run(ctx, pairs)
	})
}
