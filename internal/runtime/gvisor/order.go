//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// maxAnswer bounds a keep's answer to an order.
const maxAnswer = 8 << 10

// sendOrder sends an order to a keep's second socket and returns when it is executed. file, unless nil, becomes
// descriptor 3 of the program that executes it. The end of ctx ends the wait and, soon after, the program.
func sendOrder(ctx context.Context, conn *net.UnixConn, name string, file *os.File) error {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	because := func(err error) error {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	text, err := json.Marshal(wire.KeepOrder{Name: name})
	if err != nil {
		return err
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	if _, _, err := conn.WriteMsgUnix(text, rights, nil); err != nil {
		return because(err)
	}
	reply, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	if err != nil {
		return because(err)
	}
	var a wire.KeepReport
	if len(reply) == 0 || json.Unmarshal(reply, &a) != nil {
		return because(errors.New("the keep has ended"))
	}
	if a.Error != "" {
		return because(errors.New(a.Error))
	}
	return nil
}
