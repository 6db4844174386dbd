//go:build linux

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/client/agentfile"
)

// A reader can stop and resume a log, even in another program, because frames are numbered.
func Example_resume() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	run, err := c.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host",
		Language: "shell", Code: "echo one; echo two; echo three",
	}})
	if err != nil {
		log.Fatal(err)
	}
	var seen uint64
	for frame, err := range c.Runs().Frames(ctx, run.ID, 1) {
		if err != nil {
			log.Fatal(err)
		}
		seen = frame.Seq
		if frame.Type == belljar.FrameStdout {
			fmt.Printf("%s", frame.Output)
			break // enough for now
		}
	}
	for frame, err := range c.Runs().Frames(ctx, run.ID, seen+1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s", frame.Output) // nothing but of stdout and stderr
	}
	// Output:
	// one
	// two
	// three
}

// A session's shell keeps its directory, variables and jobs from one command to the next.
func Example_shell() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	session, err := c.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host",
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Sessions().Delete(ctx, session.ID)
	for _, cmd := range []string{"mkdir src && cd src", "name=jar", "echo in ${PWD##*/}: $name"} {
		run, output, err := belljar.Finish(ctx, c.Runs(), belljar.RunRequest{RunSpec: belljar.RunSpec{
			SpecVersion: belljar.SpecVersion, SessionID: session.ID, Shell: &belljar.ShellCommand{Cmd: cmd, Separate: true},
		}}, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(output.Stdout)
		if run.Shell.State != belljar.ShellKept {
			log.Fatal("the shell has ended: the next command finds a new one")
		}
	}
	// Output: in src: jar
}

// Files are read and written in a session's workspace, alongside its runs.
func Example_files() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	session, err := c.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host",
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Sessions().Delete(ctx, session.ID)
	for name, text := range map[string]string{"data/a.csv": "1,2\n", "data/b.csv": "3,4\n"} {
		_, err := c.Files().Write(ctx, session.ID, belljar.FileWrite{Path: name, Content: strings.NewReader(text)})
		if err != nil {
			log.Fatal(err)
		}
	}
	list, err := c.Files().List(ctx, session.ID, belljar.FileQuery{Recursive: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range list.Entries {
		fmt.Println(entry.Type, entry.Path)
	}
	_, content, err := c.Files().Read(ctx, session.ID, "data/b.csv", 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer content.Close()
	if _, err := io.Copy(os.Stdout, content); err != nil {
		log.Fatal(err)
	}
	// Output:
	// dir data
	// file data/a.csv
	// file data/b.csv
	// 3,4
}

// A terminal continues for a while after its client detaches.
func Example_terminal() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	session, err := c.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host",
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Sessions().Delete(ctx, session.ID)
	terminal, err := c.Terminals().Open(ctx, session.ID, belljar.TerminalSpec{
		Cols: 80, Rows: 24, Command: []string{"sh", "-c", "stty -echo; read name; echo hello $name; exit 3"},
	})
	if err != nil {
		log.Fatal(err)
	}
	attached, err := c.Terminals().Attach(ctx, terminal.ID)
	if err != nil {
		log.Fatal(err)
	}
	defer attached.Close()
	if err := attached.Write(ctx, []byte("jar\n")); err != nil {
		log.Fatal(err)
	}
	var screen strings.Builder
	for {
		event, err := attached.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		switch event.Kind {
		case belljar.TerminalHistory, belljar.TerminalOutput:
			screen.Write(event.Data)
		case belljar.TerminalExit:
			fmt.Println("ended with", event.ExitCode, strings.Contains(screen.String(), "hello jar"))
		}
	}
	// Output: ended with 3 true
}

// The images on the server; Pull adds more.
func Example_images() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	images, err := c.Images().List(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, image := range images {
		fmt.Println(image.Ref, image.Source)
	}
	// Output: host host
}

// An agent file defines what its model may do; all agents of a workflow's run share a session.
func ExampleOpenToolset() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	file, err := agentfile.Parse(strings.NewReader(`---
model: openai/gpt-4o
sandbox:
  mode: code
  limits: {memory_mb: 256, timeout_seconds: 600}
---
You fix what is broken.
`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Sandbox.Tools()[:2]) // for the model

	tools, err := file.Sandbox.Toolset(agentfile.ExecutionContext{WorkflowRunID: "run_123"})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the first step of the workflow, and the next
		session, created, err := client.OpenToolset(ctx, c, tools)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(session.ScopeKey, created)
	}
	// When the workflow is over.
	closed, err := c.Sessions().CloseAll(ctx, belljar.CloseRequest{KeyPrefix: tools.Scope().Prefix()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(closed), "closed")
	// Output:
	// [sandbox_open sandbox_exec]
	// workflow:run_123:default true
	// workflow:run_123:default false
	// 1 closed
}
