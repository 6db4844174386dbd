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

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// A program runs on a server, and its output is printed as it arrives.
func Example() {
	url, key := exampleServer() // in earnest: BELLJAR_SERVER and BELLJAR_API_KEY
	c, err := client.New(client.Options{URL: url, APIKey: key})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	run, err := c.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion,
		BaseImage:   "host",
		Language:    "shell",
		Code:        "echo hello from the jar; exit 3",
		TimeoutSec:  30,
	}})
	if err != nil {
		log.Fatal(err)
	}
	for frame, err := range c.Runs().Frames(ctx, run.ID, 1) {
		if err != nil {
			log.Fatal(err)
		}
		if frame.Type == belljar.FrameStdout {
			os.Stdout.Write(frame.Output)
		}
	}
	run, err = c.Runs().Get(ctx, run.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Phase, *run.ExitCode, run.ReasonCode)
	// Output:
	// hello from the jar
	// failed 3 nonzero_exit
}

// A reader becomes the program's standard input, and files that match a pattern are kept.
func Example_filesInAndOut() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	run, err := c.Runs().Start(ctx, belljar.RunRequest{
		RunSpec: belljar.RunSpec{
			SpecVersion: belljar.SpecVersion, BaseImage: "host",
			Command:         []string{"sh", "-c", "mkdir out; sort - names.txt >out/sorted.txt"},
			Files:           []belljar.InlineFile{{Path: "names.txt", Content: []byte("bea\n")}},
			CapturePatterns: []string{"out/*"},
		},
		Input: strings.NewReader("carl\nanna\n"),
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := belljar.Collect(ctx, c.Runs(), run.ID); err != nil {
		log.Fatal(err)
	}
	_, content, err := c.Artifacts().Open(ctx, run.ID, "out/sorted.txt", 0)
	if err != nil {
		log.Fatal(err)
	}
	defer content.Close()
	if _, err := io.Copy(os.Stdout, content); err != nil {
		log.Fatal(err)
	}
	// Output:
	// anna
	// bea
	// carl
}

// A session keeps its workspace between runs.
func Example_session() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	session, err := c.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", TTLSec: 600,
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Sessions().Delete(ctx, session.ID)
	for _, script := range []string{"echo 1 >count", "echo $(($(cat count) + 1)) >count", "cat count"} {
		run, err := c.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
			SpecVersion: belljar.SpecVersion, SessionID: session.ID, Command: []string{"sh", "-c", script},
		}})
		if err != nil {
			log.Fatal(err)
		}
		_, output, err := belljar.Collect(ctx, c.Runs(), run.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(output.Stdout)
	}
	// Output: 2
}

// Errors have a message, a code for programs, and often a hint.
func Example_errors() {
	c, err := client.New(exampleOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	_, err = c.Runs().Get(ctx, "no-such-run")
	fmt.Println(belljar.CodeOf(err), err)

	_, err = c.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", Command: []string{"true"}, Resources: belljar.Resources{MemoryMB: 1 << 20},
	}})
	var failure *belljar.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Code, failure.Details["field"], failure.Details["maximum"])
	}
	// Output:
	// not_found run "no-such-run" does not exist
	// policy_denied resources.memory_mb 8192
}
