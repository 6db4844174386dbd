package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Status is the exit status of a command that has already reported its failure.
type Status int

func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// Context returns a context that ends on Ctrl-C, SIGTERM, or the end of the terminal. stopped, which must be called, maps an error to the
// exit status for the signal.
func Context(ctx context.Context) (out context.Context, stopped func(error) error) {
	return End(ctx, os.Interrupt)
}

// End is [Context] for a command that handles Ctrl-C itself. also lists further signals.
func End(ctx context.Context, also ...os.Signal) (out context.Context, stopped func(error) error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, append(also, syscall.SIGTERM)...)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	status := Status(0)
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			status = Status(128 + int(number))
			cancel()
		case <-over:
		}
	}()
	return ctx, func(err error) error {
		signal.Stop(signals)
		close(over)
		<-done
		cancel()
		if err != nil && status != 0 {
			return status
		}
		return err
	}
}
