//go:build linux

package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar/test/npm"
)

// talk is a minimal MCP client, so that the time measured is the server's.
type talk struct {
	b   *testing.B
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
	n   int
}

func begin(b *testing.B, args ...string) *talk {
	b.Helper()
	p := npm.Ready(b)
	t := &talk{b: b, cmd: exec.Command(p.Belljar, append([]string{"mcp"}, args...)...)}
	t.cmd.Env = append(os.Environ(), "SANDBOX_IMAGE_PULL=never")
	t.cmd.Stderr = os.Stderr
	var err error
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	t.out = bufio.NewReaderSize(out, 1<<20)
	if err := t.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		t.in.Close()
		if err := t.cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	t.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	fmt.Fprintln(t.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return t
}

// ask sends a request and returns its structured result.
func (t *talk) ask(method, params string) map[string]any {
	t.b.Helper()
	t.n++
	if _, err := fmt.Fprintf(t.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", t.n, method, params); err != nil {
		t.b.Fatal(err)
	}
	line, err := t.out.ReadBytes('\n')
	var answer struct {
		ID     int
		Error  any
		Result struct {
			IsError           bool
			StructuredContent map[string]any
		}
	}
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	if err != nil || answer.ID != t.n || answer.Error != nil || answer.Result.IsError {
		t.b.Fatalf("%v in %s", err, line)
	}
	return answer.Result.StructuredContent
}

// measure reports the percentiles of a request's round trip, in milliseconds.
func (t *talk) measure(params string) {
	t.b.Helper()
	for range 20 {
		t.ask("tools/call", params)
	}
	var took []time.Duration
	for t.b.Loop() {
		begun := time.Now()
		t.ask("tools/call", params)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	for _, p := range []int{50, 95} {
		t.b.ReportMetric(float64(took[len(took)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}

// The budget is 4 ms at the median.
func BenchmarkExec(b *testing.B) {
	t := begin(b, "--mode", "code")
	sandbox := t.ask("tools/call", `{"name":"sandbox_open","arguments":{}}`)["sandbox_id"]
	t.measure(fmt.Sprintf(`{"name":"sandbox_exec","arguments":{"sandbox_id":%q,"cmd":["true"]}}`, sandbox))
}

// The budget is 15 ms at the median.
func BenchmarkRun(b *testing.B) {
	begin(b).measure(`{"name":"sandbox.run","arguments":{"base_image":"host","command":["true"]}}`)
}

// BenchmarkList calls a tool that runs nothing, to measure the protocol.
func BenchmarkList(b *testing.B) {
	t := begin(b, "--mode", "code")
	sandbox := t.ask("tools/call", `{"name":"sandbox_open","arguments":{}}`)["sandbox_id"]
	t.measure(fmt.Sprintf(`{"name":"sandbox_fs_list","arguments":{"sandbox_id":%q}}`, sandbox))
}
