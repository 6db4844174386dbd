package agent_test

// With the race detector this test would take ten times as long: one goroutine reads all of the JSON.

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A list ends at a limit, whether a hostile agent sends many entries, long entries, or empty parts.
func TestPlainListWithoutEnd(t *testing.T) {
	for name, part := range map[string]wire.Reply{
		"many":  {Files: slices.Repeat([]wire.FileInfo{{Path: "d/x", Type: "file"}}, 1000), Execs: make([]wire.ExecInfo, 1000)},
		"long":  {Files: slices.Repeat([]wire.FileInfo{{Path: "d/" + strings.Repeat("x", 120_000), Type: "file"}}, 8), Execs: []wire.ExecInfo{{ID: strings.Repeat("x", 3<<20)}}},
		"empty": {Info: &wire.Info{Build: strings.Repeat("x", 3<<20)}},
	} {
		part.More = true
		var frame bytes.Buffer // made once: the agent sends it until the limit of 128 MiB
		if err := wire.NewWriter(&frame).JSON(wire.KindReply, part); err != nil {
			t.Fatal(err)
		}
		endless := func(inside net.Conn) {
			serve(t, inside, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
				greet(w)
				for err := error(nil); err == nil; {
					_, err = inside.Write(frame.Bytes())
				}
			})
		}
		none := func(wire.FileInfo) error { return nil }
		for verb, ask := range map[string]func(*agent.Client) error{
			"commands": func(c *agent.Client) error { _, err := c.List(t.Context()); return err },
			"files": func(c *agent.Client) error {
				_, err := c.Walk(t.Context(), wire.FileRequest{Path: "d"}, none)
				return err
			},
		} {
			if name == "long" && verb == "commands" || name == "empty" && verb == "files" {
				continue // the same limit, and 128 MiB of JSON take time
			}
			if err := ask(connected(t, endless)); !errors.Is(err, agent.ErrProtocol) || !strings.Contains(err.Error(), "a list ") {
				t.Errorf("%s, %s: %v", verb, name, err)
			}
		}
	}
}
