// Workflow runs a workflow of agents that share one sandbox: each agent is a prompt with a sandbox block
// before it, its tools are those that belljar mcp offers for that file, and the sandbox lives until the workflow is over.
//
//	go run ./examples/workflow -project DIR [-run ID] [-out DIR] workflow.yaml
//
// ANTHROPIC_API_KEY, ANTHROPIC_MODEL and ANTHROPIC_BASE_URL select the agents' model. BELLJAR_SERVER and BELLJAR_API_KEY select
// the server; without them the workflow starts a private one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/belljar/belljar"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "workflow:", err)
		if hint := belljar.HintOf(err); hint != "" {
			fmt.Fprintln(os.Stderr, "hint:", hint)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("workflow", flag.ExitOnError)
	id := flags.String("run", belljar.NewID(), "name of this run; its sandbox is workflow:NAME:default")
	project := flags.String("project", "", "folder whose files the agents work on")
	out := flags.String("out", "", "folder that gets these files when the workflow is done")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *project == "" {
		return fmt.Errorf("usage: workflow -project DIR [-run ID] [-out DIR] workflow.yaml")
	}
	flow, err := read(flags.Arg(0))
	if err != nil {
		return err
	}
	h, err := connect(ctx)
	if err != nil {
		return err
	}
	defer h.close()

	e := &execution{
		flow: flow, id: *id, host: h, agents: filepath.Join(filepath.Dir(flags.Arg(0)), "agents"), outputs: map[string]map[string]any{},
	}
	defer func() { // always remove the sandbox
		ending, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		if closing := e.end(ending); err == nil {
			err = closing
		}
	}()
	if err := e.begin(ctx, *project); err != nil {
		return err
	}
	if err := e.run(ctx); err != nil {
		return err
	}
	if *out == "" {
		return nil
	}
	return e.fetch(ctx, *project, *out)
}
