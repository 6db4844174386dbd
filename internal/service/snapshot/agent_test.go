package snapshot

import (
	"context"
	"net"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
)

// takenOver is a box whose agent obeys a program: serve answers each request.
func takenOver(serve func(req wire.Request, r *wire.Reader, w *wire.Writer)) *box.Box {
	answer := func(conn net.Conn) {
		defer conn.Close()
		r, w := wire.NewReader(conn), wire.NewWriter(conn)
		var req wire.Request
		if _, err := r.Read(); err != nil {
			return
		}
		if f, err := r.Read(); err != nil || f.JSON(&req) != nil || w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version, BootID: "b"}) != nil {
			return
		}
		serve(req, r, w)
	}
	return &box.Box{Agent: agent.New(func(context.Context) (net.Conn, error) {
		host, inside := net.Pipe()
		go answer(inside)
		return host, nil
	})}
}
