//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
)

// files are the descriptors that a keep gets, and our end of one.
type files struct {
	streams  *os.File // listening socket
	orders   *os.File // listening socket
	last     *os.File
	readyOut *os.File // our end
	readyIn  *os.File
}

// open makes them, and listens on the sandbox's sockets.
func (f *files) open(b *jar.Birth) (err error) {
	if f.streams, err = b.Listen(streamSocket); err != nil {
		return err
	}
	if f.orders, err = b.Listen(orderSocket); err != nil {
		return err
	}
	f.last, err = os.OpenFile(filepath.Join(b.Jar.Folder(), lastName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		f.readyOut, f.readyIn, err = os.Pipe()
	}
	if err != nil {
		return runtime.FailedStep(jar.StepState, err, "")
	}
	return nil
}

// passed closes the descriptors that the keep now has, so that they end with the keep.
func (f *files) passed() {
	for _, file := range []**os.File{&f.streams, &f.orders, &f.last, &f.readyIn} {
		if *file != nil {
			(*file).Close()
			*file = nil
		}
	}
}

// close closes all.
func (f *files) close() {
	f.passed()
	if f.readyOut != nil {
		f.readyOut.Close()
	}
}

// awaitReady returns when the keep reports that its agent can be dialled, or the reason why it never can.
func (f *files) awaitReady(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { f.readyOut.SetDeadline(time.Unix(1, 0)) })()
	text, err := io.ReadAll(f.readyOut)
	if err != nil {
		return err
	}
	var report wire.KeepReport
	if len(text) == 0 || json.Unmarshal(text, &report) != nil {
		return fmt.Errorf("the keep has ended without a message: %w", io.ErrUnexpectedEOF)
	}
	if report.Error != "" {
		return errors.New(report.Error)
	}
	return nil
}

// Names in a sandbox's folder.
const (
	streamSocket = "agent.sock"
	orderSocket  = "order.sock"
	lastName     = "last.json"
	configName   = "config.json" // the bundle's configuration
)
