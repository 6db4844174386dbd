package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// A private server belongs to one program: each of the three client libraries can start one instead of using a shared server. It ends
// with that program and leaves no files.

// privateURL is the base URL of requests to a private server. It has no port; the socket is the address.
const privateURL = "http://belljar.local"

// private is the output of serve --private, printed once when the server is ready.
type private struct {
	Socket      string   `json:"socket"`
	BaseURL     string   `json:"base_url"`
	APIKey      string   `json:"api_key"`
	PID         int      `json:"pid"`
	Version     string   `json:"version"`
	NotEnforced []string `json:"not_enforced,omitempty"` // protections that this host cannot enforce
}

// private serves the program at the other end of standard input until that ends.
func (h *Host) private(ctx context.Context, s local.ServeOptions) (err error) {
	if err := checkStdin(h.Stdin); err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		_, _ = io.Copy(io.Discard, h.Stdin) // an error counts as the end
	}()

	cfg, data, err := privateConfig(h, s)
	if err != nil {
		return err
	}
	place, err := openPrivate(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	listener, err := listen("unix:" + place.socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	n, err := openDaemon(ctx, h, &cfg, place.data, serveMode{
		required: requiredProtections(&cfg, service.CoreProtections()), lifetime: runtime.LifetimeCreator, images: place.images(h, &cfg), own: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if len(n.weaker) > 0 {
		h.Print("not enforced on this host: %s", strings.Join(n.weaker, ", "))
	}
	n.background(place.sweep)

	server := api.NewServer(n.handler, n.log)
	served := make(chan error, 1)
	go func() { served <- server.Serve(api.NewListener(listener, n.log)) }()
	ready := private{
		Socket: place.socket, BaseURL: privateURL, APIKey: cfg.APIKey, PID: os.Getpid(), Version: h.Version, NotEnforced: n.weaker,
	}
	if err := json.NewEncoder(h.Stdout).Encode(ready); err != nil {
		return errors.Join(err, n.drain(0, server, nil))
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-signals:
	case <-orphaned:
	}
	return n.drain(0, server, nil)
}

// checkStdin checks that standard input is a pipe or a socket, whose end shows the end of the parent program.
func checkStdin(stdin io.Reader) error {
	f, ok := stdin.(*os.File)
	if stdin != nil && !ok {
		return nil
	}
	if ok {
		if info, err := f.Stat(); err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
			return nil
		}
	}
	return mistake("start it from a program, with a pipe as its standard input; otherwise use belljar serve",
		"serve --private lives as long as its standard input, which must be a pipe")
}

// privateConfig returns the configuration of a private server. It ignores the network and store settings of the file and the
// environment, which are for other servers, and refuses network settings as flags. data is the data folder, "" for a temporary one.
func privateConfig(h *Host, s local.ServeOptions) (cfg config.Config, data string, err error) {
	if s.Listen != "" {
		return cfg, "", notPrivate("--listen")
	}
	if cfg, err = load(h, s); err != nil {
		return cfg, "", err
	}
	flag := func(name string) bool {
		origin, _ := cfg.Set(config.Prefix + name)
		return strings.HasPrefix(origin, "flag ")
	}
	for _, name := range []string{"LISTEN", "TLS_CERT", "TLS_KEY", "PUBLIC_URL", "API_KEY", "END_SESSIONS"} {
		if flag(name) {
			return cfg, "", notPrivate("--set " + strings.ToLower(name))
		}
	}
	if flag("DATA") {
		data = cfg.Data
	}
	cfg.TLSCert, cfg.TLSKey, cfg.PublicURL = "", "", ""
	cfg.WebUI = false // no browser reaches its socket
	cfg.APIKey, cfg.EndSessions = newKey(), true
	for _, warning := range cfg.Warnings() {
		h.Print("warning: %s", warning)
	}
	unset := func(name string) bool {
		_, set := cfg.Set(config.Prefix + name)
		return !set
	}
	if !flag("STORE_DB_PATH") {
		cfg.StoreDBPath = ""
	}
	switch {
	case flag("STORE_BACKEND"):
	case data == "" && cfg.StoreDBPath == "":
		cfg.Store = "memory"
	default:
		cfg.Store = "sqlite"
	}
	if unset("LOG_LEVEL") {
		cfg.LogLevel = "warn"
	}
	if unset("LOG_FORMAT") {
		cfg.LogFormat = "text"
	}
	if unset("POOL_SIZE") {
		cfg.PoolSize = 2 // the only caller is waiting for the start
	}
	if unset("MIN_FREE_MB") {
		cfg.MinFreeMB = 64 // temporary folders are small
	}
	return cfg, data, nil
}

func notPrivate(what string) error {
	return mistake("leave it out: the server prints its address and its key", "%s does not go with --private", what)
}
