// Command belljar runs untrusted code in sandboxes. The commands are in internal/cli, and what runs and
// serves them in internal/daemon.
package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"runtime/debug"

	"github.com/belljar/belljar/internal/cli"
	"github.com/belljar/belljar/internal/daemon"
	"github.com/belljar/belljar/internal/local"
)

func main() {
	os.Exit(run(context.Background(), os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line, with the program's name first, and returns the exit status.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	world := local.World{Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	version, commit := identify(debug.ReadBuildInfo)
	machine := daemon.New(daemon.Options{
		World: world, Version: version, Commit: commit,
		Agent: func(arch string) (fs.File, error) { return agentIn(agents, arch) },
	})
	return cli.Run(ctx, args[1:], cli.Options{World: world, Version: version, Commit: commit, Machine: machine})
}
