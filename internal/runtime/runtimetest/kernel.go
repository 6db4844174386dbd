package runtimetest

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Kernels runs the suite's part about interpreters, for another image.
func Kernels(t *testing.T, o Options) { testKernel(t, o) }

// testKernel tests the interpreters of every runtime: they keep their state, end their commands, and are replaced. If the
// image has no interpreter, a named shell serves as one.
func testKernel(t *testing.T, o Options) {
	j := open(t, o)
	cell := func(j *jar, kernel, code string) wire.Exec {
		e := j.command()
		e.KillAll, e.Shell = false, &wire.ShellRun{Name: "context/" + kernel, Kernel: kernel, Cmd: []byte(code), Separate: true}
		return e
	}
	has := func(program string) bool { return j.run(j.sh("command -v "+program)).exit.Code == 0 }
	j.sub("a named shell", func(j *jar) {
		j.run(cell(j, "", "x=1; cd /tmp"))
		if got := j.run(cell(j, "", "echo $x; pwd")); got.out != "1\n/tmp\n" || got.exit.Shell.Replaced {
			j.Errorf("%+v", got)
		}
		list, err := agent.Shells(j.ctx, j.agent)
		if err != nil || len(list) != 1 || list[0].Name != "context/" || !list[0].Alive || list[0].Busy || list[0].Runs != 2 {
			j.Errorf("%+v, %v", list, err)
		}
		if err := agent.EndShell(j.ctx, j.agent, "context/"); err != nil {
			j.Error(err)
		}
		if got := j.run(cell(j, "", "echo $x")); got.out != "\n" || got.exit.Shell.Replaced {
			j.Errorf("%+v", got)
		}
	})
	if has("node") {
		j.sub("node", func(j *jar) {
			j.run(cell(j, wire.KernelNode, "const x = 41"))
			if got := j.run(cell(j, wire.KernelNode, "const x2 = await Promise.resolve(x + 1); x2")); valueOf(got) != "42" || got.exit.Code != 0 {
				j.Errorf("%+v", got)
			}
			e := cell(j, wire.KernelNode, "console.log('up'); for (;;) await null")
			e.TimeoutMS, e.GraceMS = 500, 60_000
			if got := j.run(e); got.exit.Cause != wire.CauseTimeout || got.exit.Shell.Replaced || !strings.Contains(got.err, "KeyboardInterrupt") {
				j.Errorf("%+v", got)
			}
			if got := j.run(cell(j, wire.KernelNode, "x")); valueOf(got) != "41" {
				j.Errorf("%+v", got)
			}
			if got := j.run(cell(j, wire.KernelNode, "process.kill(process.pid, 'SIGKILL')")); got.exit.Signal != int(unix.SIGKILL) || !got.exit.Shell.Replaced {
				j.Errorf("%+v", got)
			}
		})
	}
	if !has("python3") {
		return
	}
	python := func(j *jar, code string) outcome { return j.run(cell(j, wire.KernelPython, code)) }
	works := func(j *jar) {
		j.Helper()
		if got := python(j, "40 + 2"); valueOf(got) != "42" || got.exit.Code != 0 {
			j.Errorf("afterwards: %+v", got)
		}
	}
	j.sub("python", func(j *jar) {
		python(j, "x = 41")
		if got := python(j, "import sys; print('err', file=sys.stderr); x + 1"); valueOf(got) != "42" || got.err != "err\n" {
			j.Errorf("%+v", got)
		}
		e := cell(j, wire.KernelPython, "import time\nprint('up', flush=True)\ntime.sleep(1000)")
		e.TimeoutMS, e.GraceMS = 500, 60_000
		if got := j.run(e); got.exit.Cause != wire.CauseTimeout || got.exit.Shell.Replaced || !strings.Contains(got.err, "KeyboardInterrupt") {
			j.Errorf("%+v", got)
		}
		if got := python(j, "x"); valueOf(got) != "41" {
			j.Errorf("%+v", got)
		}
		if got := python(j, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"); got.exit.Signal != int(unix.SIGKILL) || !got.exit.Shell.Replaced {
			j.Errorf("%+v", got)
		}
		works(j)
	})
	if !o.Isolated || o.Short {
		return
	}
	// Code can find its kernel and replace it.
	const find = "import gc, os, time, signal\nk = [o for o in gc.get_objects() if type(o).__name__ == 'Kernel'][0]\n"
	j.sub("a child that forges", func(j *jar) {
		got := python(j, find+"if os.fork() == 0:\n  k.sock.sendall((k.id + ' 7\\n' + k.id + ' = {\"type\":\"value\",\"data\":{\"text/plain\":\"forged\"}}\\n').encode())\n  os._exit(0)\nos.wait(); time.sleep(0.2); print('after')")
		if got.out != "after\n" || got.exit.Code != 0 {
			j.Errorf("%+v", got)
		}
	})
	j.sub("a flood of results", func(j *jar) {
		got := python(j, "for i in range(10): display({'text/html': 'x' * 1900000}, raw=True)\n5")
		if n := len(got.out); n > wire.MaxResults || n < wire.MaxResults/2 || !strings.HasSuffix(got.out, "a run are kept\"}\n") || got.exit.Code != 0 {
			j.Errorf("%d bytes, %+v", n, got.exit)
		}
	})
	j.sub("results that are too large", func(j *jar) {
		if got := python(j, "for i in range(2): display({'text/html': 'x' * (64 << 20)}, raw=True)\n5"); valueOf(got) != "5" || len(got.out) > 10_000 || !strings.Contains(got.out, "left out") {
			j.Errorf("%d bytes, %+v", len(got.out), got.exit)
		}
	})
	j.sub("an endless line", func(j *jar) {
		got := python(j, find+"k.sock.sendall(k.id.encode() + b' = \"' + b'x' * (20 << 20) + b'\"\\n' + b'no kernel 3\\n' + b'\\0' * 100 + b'\\n')\nk.send('= {not json')\n6")
		if len(got.out) > 1000 || !strings.Contains(got.out, "was dropped") || valueOf(got) != "6" {
			j.Errorf("%.500q %+v", got.out, got.exit)
		}
	})
	j.sub("a forged end", func(j *jar) {
		if got := python(j, find+"k.send('9')\ntime.sleep(1000)"); got.exit.Code != 9 {
			j.Errorf("%+v", got)
		}
		e := cell(j, wire.KernelPython, "'next'")
		e.TimeoutMS, e.GraceMS = 500, 500
		if got := j.run(e); got.exit.Cause != wire.CauseTimeout {
			j.Errorf("%+v", got)
		}
		works(j)
	})
	j.sub("a closed descriptor", func(j *jar) {
		if got := python(j, find+"k.sock.close()\ntime.sleep(1000)"); got.exit.Signal != int(unix.SIGKILL) || !got.exit.Shell.Replaced {
			j.Errorf("%+v", got)
		}
		works(j)
	})
	j.sub("one that ignores interrupts", func(j *jar) {
		e := cell(j, wire.KernelPython, "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(1000)")
		e.TimeoutMS, e.GraceMS = 100, 100
		if got := j.run(e); got.exit.Cause != wire.CauseTimeout || !got.exit.Shell.Replaced {
			j.Errorf("%+v", got)
		}
		works(j)
	})
}

// valueOf returns the text of the value among an outcome's results.
func valueOf(got outcome) string {
	for line := range strings.Lines(got.out) {
		var r struct {
			Type string         `json:"type"`
			Data map[string]any `json:"data"`
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.Type == "value" {
			text, _ := r.Data["text/plain"].(string)
			return text
		}
	}
	return ""
}
