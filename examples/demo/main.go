// Command demo runs every example in its own sandbox and shows the outcomes. It exits with status 1 if an example did not end as
// expected.
//
//	go run ./examples/demo [-belljar bin/belljar] [-examples examples]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout *os.File) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	binary := flags.String("belljar", "bin/belljar", "the `binary` to run them with")
	folder := flags.String("examples", "examples", "the `folder` with the programs")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := os.Stat(*binary); err != nil {
		return fmt.Errorf("%w (make build makes it)", err)
	}
	out, err := os.MkdirTemp("", "belljar-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	bait, port, err := listen()
	if err != nil {
		return err
	}
	defer bait.Close()

	all := programs(*folder, out, port)
	show := newShow(stdout)
	show.title("%d programs, each sealed in a jar of its own", len(all))
	start, wrong := time.Now(), 0
	for _, p := range all {
		show.attempt(p)
		got, err := p.run(ctx, *binary)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = p.check(got)
		}
		if err != nil {
			wrong++
		}
		show.outcome(p, got, err)
	}
	if n := bait.accepted(); n > 0 {
		wrong++
		show.line("a sandbox reached a service of this machine %d times", n)
	}
	show.closing(len(all), wrong, time.Since(start))
	if wrong > 0 {
		return fmt.Errorf("%d of %d did not end as they must", wrong, len(all))
	}
	return nil
}

// bait is a service on this machine's loopback that no sandbox may reach.
type bait struct {
	net.Listener
	calls chan int
}

func listen() (*bait, int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, 0, err
	}
	b := &bait{Listener: l, calls: make(chan int, 1)}
	go func() {
		n := 0
		for {
			c, err := l.Accept()
			if err != nil {
				b.calls <- n
				return
			}
			n++
			io.WriteString(c, "a secret of the host\n")
			c.Close()
		}
	}()
	return b, l.Addr().(*net.TCPAddr).Port, nil
}

// accepted closes the service and returns the number of accepted connections.
func (b *bait) accepted() int {
	b.Close()
	return <-b.calls
}
