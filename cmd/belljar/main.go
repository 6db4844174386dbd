// Command belljar runs untrusted code in sandboxes. Package internal/cli has the commands; internal/daemon runs and serves
// the sandboxes.
package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/belljar/belljar/internal/cli"
	"github.com/belljar/belljar/internal/daemon"
	"github.com/belljar/belljar/internal/local"
)

func main() {
	collectLate()
	os.Exit(run(context.Background(), os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// collectLate delays the first garbage collection from 4 to 32 MB of heap, and leaves later ones unchanged. A command that
// ends before needs none.
func collectLate() {
	usual := debug.SetGCPercent(800)
	runtime.AddCleanup(new(struct{ _ [64]byte }), func(percent int) { debug.SetGCPercent(percent) }, usual)
}

// run executes one command line, with the program's name first, and returns the exit status.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	environment := local.Environment{Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	version, commit := identify(debug.ReadBuildInfo)
	machine := daemon.New(daemon.Options{
		Environment: environment, Version: version, Commit: commit,
		Agent: func(arch string) (fs.File, error) { return agentIn(agents, arch) },
	})
	return cli.Run(ctx, args[1:], cli.Options{Environment: environment, Version: version, Commit: commit, Machine: machine})
}
